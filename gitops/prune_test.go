package gitops

import (
	"testing"
)

// What an agent or the verification prunes is stored again: the commit and the kept attempt are whole.
func TestPrunedObjectsAreStoredAgain(t *testing.T) {
	t.Parallel()
	blob := hashObject(kindBlob, []byte("work\n")).String()
	for _, prune := range []struct{ name, script string }{
		{"prune", "git prune"},
		{"gc", "git gc -q --prune=now"},
		{"repack and prune", "git repack -adq; git prune"},
		{"one blob", "rm -f .git/objects/" + blob[:2] + "/" + blob[2:]},
	} {
		for _, way := range bothWays {
			t.Run(prune.name+" "+way.name, func(t *testing.T) {
				t.Parallel()
				s, r := openBothWays(t, way.setup, "")
				base := mustSnapshot(t, r)
				s.sh("echo work >new; mkdir -p deep/er; echo more >deep/er/f; echo 2 >>src/x.go")
				result := mustSnapshot(t, r)
				s.sh(prune.script)
				if now := mustSnapshot(t, r); now != result {
					t.Fatalf("the snapshot is another one: %s, %s", now, result)
				}
				// the git program's trees may be whole where a blob is not: the commit is the place to see it
				if prune.name != "one blob" {
					if _, err := r.Keep(t.Context(), "refs/descartes/l/1/1", result, nil, "kept"); err != nil {
						t.Fatal(err)
					}
					s.check()
					s.sh("git update-ref -d refs/descartes/l/1/1")
				}
				s.sh(prune.script) // once more, before the commit
				if _, err := r.CommitWave(t.Context(), Wave{Message: waveMessage, Results: []Pair{{Base: base, Result: result}}}); err != nil {
					t.Fatal(err)
				}
				s.check()
				if got := s.git("show", "HEAD:new"); got != "work\n" {
					t.Errorf("committed %q", got)
				}
			})
		}
	}
}
