package gitops

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestDiffStatCountsAsGit(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	text := func() string {
		var b strings.Builder
		for range rnd.IntN(30) {
			fmt.Fprintf(&b, "%d\n", rnd.IntN(6))
		}
		return b.String()
	}
	for i := range 12 {
		s.put(fmt.Sprintf("t%d", i), text())
	}
	one := snap(t, r)
	for i := range 12 {
		s.put(fmt.Sprintf("t%d", i), text())
	}
	s.sh("rm f; printf 'a\\0b' >bin; echo n >'n\tame'")
	two := snap(t, r)
	stat, err := r.DiffStat(t.Context(), one, two)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(stat), "\n")
	want := strings.Split(strings.TrimSpace(s.git("diff", "--no-renames", "--minimal", "--shortstat", string(one), string(two))), "\n")
	if got := strings.TrimSpace(lines[len(lines)-1]); got != want[0] {
		t.Errorf("summary %q, git says %q\n%s", got, want[0], stat)
	}
	for line := range strings.Lines(s.git("diff", "--no-renames", "--minimal", "--numstat", string(one), string(two))) {
		var plus, less int
		var path string
		if n, _ := fmt.Sscanf(line, "%d\t%d\t%s", &plus, &less, &path); n != 3 || plus+less > statBarWidth {
			continue
		}
		if full := fmt.Sprintf("%d %s%s", plus+less, strings.Repeat("+", plus), strings.Repeat("-", less)); !strings.Contains(stat, full) {
			t.Errorf("no line for %q with %q in\n%s", path, full, stat)
		}
	}
	if stat, err := r.DiffStat(t.Context(), two, two); stat != "" || err != nil {
		t.Errorf("the same twice: %q, %v", stat, err)
	}
}

func TestDiffStatIsShort(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	one := snap(t, r)
	for i := range 300 {
		s.put(fmt.Sprintf("many/%03d", i), "x\n")
	}
	stat, err := r.DiffStat(t.Context(), one, snap(t, r))
	if n := strings.Count(stat, "\n"); err != nil || n > statLines || !strings.Contains(stat, "and 262 more files") {
		t.Errorf("%d lines, %v:\n%s", n, err, stat)
	}
}
