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
	sorted := []string{"0", "01", "1", "1.1", "1.2", "1.9", "1.10", "1.10.1", "1.a", "2", "7", "7a", "7b", "8", "9", "10", "10.1",
		"99999999999999999999", "100000000000000000000",
		"HAM-1", "a", "a.2", "a.10", "b", "core:4", "setup-repo"}
	shuffled := slices.Clone(sorted)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(shuffled), func(i, j int) {
		shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
	})
	slices.SortFunc(shuffled, CompareIDs)
	if !slices.Equal(shuffled, sorted) {
		t.Errorf("got %v, want %v", shuffled, sorted)
	}
}

func TestCompareIDsIsAnOrder(t *testing.T) {
	t.Parallel()
	ids := []string{"", ".", "..", "1", "01", "001", "1.", ".1", "1.0", "1.00", "a", "a.", "1.a", "a.1", "10", "1..2",
		"0", "00", "1a", "01a", "1b", "a1"}
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
	for _, tag := range []string{"feature-x", "a", "v1.2", "été", "my feature", "_x", "x+y@z",
		strings.Repeat("x", 100)} {
		if err := ValidTag(tag); err != nil {
			t.Errorf("%q: %v", tag, err)
		}
	}
	for _, tag := range []string{"", "..", ".", "../x", "a//b", "/a", "a/", "a/../b", "/etc/passwd", `a\b`, "-x",
		"--help", ".hidden", "a:b", " a", "a ", "a\nb", "a\x00b", "a\x7f",
		"a\u202eb", "\xff", strings.Repeat("x", 101)} {
		var tagErr *TagError
		if err := ValidTag(tag); !errors.As(err, &tagErr) || tagErr.Tag != tag ||
			!strings.Contains(err.Error(), "plain name") {
			t.Errorf("%q: got %v", tag, err)
		}
		if _, err := Open(t.TempDir(), tag); !errors.As(err, &tagErr) {
			t.Errorf("open %q: got %v", tag, err)
		}
	}
}

func TestParseStatus(t *testing.T) {
	t.Parallel()
	tests := []struct {
		word string
		want Status
		ok   bool
	}{
		{"pending", Pending, true}, {"in-progress", InProgress, true}, {"done", Done, true}, {"review", Review, true},
		{"blocked", Blocked, true}, {"deferred", Deferred, true}, {"cancelled", Cancelled, true},
		{"expanded", Expanded, true},
		{"failed", Failed, true},
		{"completed", Done, true}, {"complete", Done, true}, {"todo", Pending, true},
		{"in_progress", InProgress, true},
		{"canceled", Cancelled, true}, {"In Progress", InProgress, true}, {" Done ", Done, true},
		{"awaiting-tune", "awaiting-tune", false}, {"", "", false}, {"finished", "finished", false}, {"X", "X", false},
	}
	for _, test := range tests {
		if got, ok := ParseStatus(test.word); got != test.want || ok != test.ok {
			t.Errorf("%q: got %q %v, want %q %v", test.word, got, ok, test.want, test.ok)
		}
	}
}

func TestCanChange(t *testing.T) {
	t.Parallel()
	// A row lists what the status may become, by first letters: Pending In-progress Done Review Blocked deFerred
	// Cancelled eXpanded faiLed.
	letters := map[byte]Status{'P': Pending, 'I': InProgress, 'D': Done, 'R': Review, 'B': Blocked, 'F': Deferred,
		'C': Cancelled, 'X': Expanded, 'L': Failed}
	rows := map[Status]string{
		Pending:         "PIDRBFCL",
		InProgress:      "PIDRBFCL",
		Done:            "PDRC",
		Review:          "PIDRBFCL",
		Blocked:         "PIDRBFCL",
		Deferred:        "PDFC",
		Cancelled:       "PDFC",
		Expanded:        "PDFCX",
		Failed:          "PIDRBFCL",
		"awaiting-tune": "PDFC",
	}
	for from, row := range rows {
		for letter, to := range letters {
			err := CanChange(from, to)
			if want := strings.IndexByte(row, letter) >= 0; (err == nil) != want {
				t.Errorf("%s to %s: got %v, want legal %v", from, to, err, want)
			}
		}
		if err := CanChange(from, "awaiting-tune"); err == nil ||
			!strings.Contains(err.Error(), "use one of pending, ") {
			t.Errorf("%s to a foreign word: got %v", from, err)
		}
	}
}
