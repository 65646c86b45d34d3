package tasks

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestCompareIDs(t *testing.T) {
	t.Parallel()
	sorted := []string{"0", "01", "1", "1.1", "1.2", "1.9", "1.10", "1.10.1", "1.a", "2", "9", "10", "10.1", "99999999999999999999", "100000000000000000000",
		"HAM-1", "a", "a.2", "a.10", "b", "core:4", "setup-repo"}
	shuffled := slices.Clone(sorted)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	slices.SortFunc(shuffled, CompareIDs)
	if !slices.Equal(shuffled, sorted) {
		t.Errorf("got %v, want %v", shuffled, sorted)
	}
}

func TestCompareIDsIsAnOrder(t *testing.T) {
	t.Parallel()
	ids := []string{"", ".", "..", "1", "01", "001", "1.", ".1", "1.0", "1.00", "a", "a.", "1.a", "a.1", "10", "1..2", "0", "00"}
	for _, a := range ids {
		for _, b := range ids {
			if CompareIDs(a, b) != -CompareIDs(b, a) || (CompareIDs(a, b) == 0) != (a == b) {
				t.Errorf("%q and %q: %d and %d", a, b, CompareIDs(a, b), CompareIDs(b, a))
			}
			for _, c := range ids {
				if CompareIDs(a, b) < 0 && CompareIDs(b, c) < 0 && CompareIDs(a, c) >= 0 {
					t.Errorf("%q < %q < %q, but not the first before the last", a, b, c)
				}
			}
		}
	}
}

func TestValidTag(t *testing.T) {
	t.Parallel()
	for _, tag := range []string{"feature-x", "a", "v1.2", "été", "my feature", "_x", "x+y@z", strings.Repeat("x", 100)} {
		if err := ValidTag(tag); err != nil {
			t.Errorf("%q: %v", tag, err)
		}
	}
	for _, tag := range []string{"", "..", ".", "../x", "a//b", "/a", "a/", "a/../b", "/etc/passwd", `a\b`, "-x", "--help", ".hidden", "a:b", " a", "a ", "a\nb", "a\x00b", "a\x7f",
		"a\u202eb", "\xff", strings.Repeat("x", 101)} {
		var tagErr *TagError
		if err := ValidTag(tag); !errors.As(err, &tagErr) || tagErr.Tag != tag || !strings.Contains(err.Error(), "plain name") {
			t.Errorf("%q: got %v", tag, err)
		}
		if _, err := Open(t.TempDir(), tag); !errors.As(err, &tagErr) {
			t.Errorf("open %q: got %v", tag, err)
		}
	}
}
