package gitops

import (
	"slices"
	"strings"
	"testing"
)

const leftAlone = " was committed by somebody else meanwhile and is left as it is"

// byHand commits entries as somebody else would, without the working tree.
func (s *sandbox) byHand(script string) {
	s.t.Helper()
	s.sh(`export GIT_INDEX_FILE=../by-hand; git read-tree HEAD
put() { git update-index --replace --add --cacheinfo 100644,$(printf '%s\n' "$2" | git hash-object -w --stdin),$1; }
` + script + `
git update-ref HEAD $(git commit-tree -p HEAD -m "by hand" $(git write-tree)); rm ../by-hand`)
}

// What somebody commits between a wave's attempts and its commit is not undone.
func TestWaveLeavesWhatOthersCommit(t *testing.T) {
	t.Parallel()
	for _, way := range bothWays {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			s, r := openBothWays(t, way.setup, "echo mine >>run.sh; echo 0 >gone; echo 0 >kept; git add gone kept; git commit -qm2 gone kept")
			first := Pair{Base: mustSnapshot(t, r)}
			s.sh("echo 1 >f; echo 1 >src/x.go; echo 1 >src/a/y.go; echo 1 >new; echo 1 >same; rm docs/d.md gone; echo 1 >run.sh; mkdir in; echo 1 >in/way; echo 1 >over; echo 1 >kept")
			first.Result = mustSnapshot(t, r)
			s.sh("echo user >src/a/y.go; git commit -qm user src/a/y.go")
			second := Pair{Base: mustSnapshot(t, r)}
			s.sh("echo user >>src/a/y.go; echo 2 >>src/a/y.go; echo 2 >second")
			second.Result = mustSnapshot(t, r)
			s.byHand(`put f user; put new user; put same 1; put docs/d.md user; put run.sh user; put in user; put over/n user; git update-index --force-remove gone`)

			wave := Wave{Message: waveMessage, Results: []Pair{first, second}, UserPaths: []string{"run.sh"}}
			done, err := r.CommitWave(t.Context(), wave)
			if want := []string{"kept", "run.sh", "second", "src/a/y.go", "src/x.go"}; err != nil || !slices.Equal(done.Paths, want) {
				t.Fatalf("committed %q, %v, want %q", done.Paths, err, want)
			}
			want := []string{"docs/d.md" + leftAlone, "f" + leftAlone, "in/way" + leftAlone, "new" + leftAlone, "over" + leftAlone,
				"run.sh had uncommitted changes of yours, which are in this commit too"}
			if !slices.Equal(done.Notes, want) {
				t.Errorf("notes\n%s", strings.Join(done.Notes, "\n"))
			}
			for name, want := range map[string]string{"f": "user", "new": "user", "same": "1", "docs/d.md": "user", "in": "user", "over/n": "user", "run.sh": "1", "src/x.go": "1",
				"src/a/y.go": "user\nuser\n2", "kept": "1", "second": "2"} {
				if got := s.git("show", "HEAD:"+name); got != want+"\n" {
					t.Errorf("%s is committed as %q", name, got)
				}
			}
			if out, code := s.tryGit("rev-parse", "-q", "--verify", "HEAD:gone"); code == 0 {
				t.Errorf("the deleted file is back: %s", out)
			}
			if out := s.git("fsck", "--strict", "--no-dangling", "--no-progress"); out != "" {
				t.Errorf("git fsck: %s", out)
			}
			again, err := r.CommitWave(t.Context(), wave)
			if err != nil || !again.Empty || !slices.Equal(again.Notes, want[:5]) {
				t.Errorf("again: %+v, %v", again, err)
			}
		})
	}
}

// What an earlier run left uncommitted is in no commit yet, and nobody else's: where it is known what HEAD was.
func TestWaveOnUncommittedWork(t *testing.T) {
	t.Parallel()
	for _, way := range bothWays {
		for name, known := range map[string]bool{"HEAD known": true, "HEAD unknown": false} {
			t.Run(way.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				s, r := openBothWays(t, way.setup, "echo left >f; echo left >src/x.go")
				p := Pair{Base: mustSnapshot(t, r)}
				s.sh("echo 1 >>f; echo 1 >>src/x.go")
				p.Result = mustSnapshot(t, r)
				if known {
					p.Head = strings.TrimSpace(s.git("rev-parse", "HEAD"))
				}
				s.byHand("put src/x.go user")
				done, err := r.CommitWave(t.Context(), Wave{Message: waveMessage, Results: []Pair{p}})
				paths, notes := []string{"f"}, []string{"src/x.go" + leftAlone}
				if !known {
					paths, notes = nil, []string{"f" + leftAlone, "src/x.go" + leftAlone}
				}
				if err != nil || !slices.Equal(done.Paths, paths) || !slices.Equal(done.Notes, notes) {
					t.Errorf("committed %q, %v, notes %q", done.Paths, err, done.Notes)
				}
			})
		}
	}
}

// Of a repository inside the repository a commit holds no file.
func TestWaveTellsOfNestedRepositories(t *testing.T) {
	t.Parallel()
	for _, way := range bothWays {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			s, r := openBothWays(t, way.setup, "")
			last := mustSnapshot(t, r)
			for _, script := range []string{"git init -q inner; cd inner; echo 1 >f; git add f; git commit -qm1", "cd inner; echo 2 >f; git commit -qam2", "echo 3 >>f"} {
				s.sh(script)
				now := mustSnapshot(t, r)
				done, err := r.CommitWave(t.Context(), Wave{Message: waveMessage, Results: []Pair{{Base: last, Result: now}}})
				if err != nil {
					t.Fatal(err)
				}
				var want []string
				if strings.Contains(script, "inner") {
					want = []string{"inner is a repository of its own: the commit holds only the id of its commit"}
				}
				if !slices.Equal(done.Notes, want) {
					t.Errorf("%s: notes %q", script, done.Notes)
				}
				last = now
			}
		})
	}
}
