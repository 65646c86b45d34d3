package gitops

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// gitIndex is an index file as git writes it, and what git reads there.
type gitIndex struct {
	data   []byte
	staged string // git ls-files --stage
}

// gitIndexes are of all versions and with all extensions.
func gitIndexes(t *testing.T) map[string]gitIndex {
	t.Helper()
	s := newSandbox(t)
	s.sh(base + "mkdir -p " + strings.Repeat("d/", 20) + strings.Repeat("long/", 900) + "; echo x >" + strings.Repeat("d/", 20) + "x; git add .")
	out := map[string]gitIndex{}
	read := func(name string) {
		b, err := os.ReadFile(s.path(".git/index"))
		if err != nil {
			t.Fatal(err)
		}
		out[name] = gitIndex{b, s.git("ls-files", "--stage", "-z")}
	}
	read("plain")
	s.sh("git commit -qm 2; echo i >later; git add -N later; git update-index --assume-unchanged f; git update-index --skip-worktree run.sh")
	read("extended")
	for _, v := range []string{"2", "3", "4"} {
		s.sh("git update-index --index-version " + v)
		read("version " + v)
	}
	s.sh("git checkout -q -b other; echo a >src/x.go; git commit -qam a; git checkout -q main; echo b >src/x.go; git commit -qam b; git merge other || true")
	read("unmerged")
	s.sh("git update-index --index-version 2; git checkout -q --ours src/x.go; git add src/x.go")
	read("undo")
	s.sh("git update-index --untracked-cache; git status; git -c index.threads=2 -c index.skipHash=true update-index --really-refresh || true")
	read("caches")
	return out
}

func TestIndexIsReadAsGitReadsIt(t *testing.T) {
	t.Parallel()
	for name, file := range gitIndexes(t) {
		ix, err := parseIndex(file.data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got strings.Builder
		for _, e := range ix.entries {
			fmt.Fprintf(&got, "%06o %s %d\t%s\x00", e.mode, e.id, e.stage(), e.name)
		}
		if got.String() != file.staged {
			t.Errorf("%s: got\n%q\ngit\n%q", name, got.String(), file.staged)
		}
		assumed, _ := ix.find("f")
		skipped, _ := ix.find("run.sh")
		if strings.HasPrefix(name, "version") && (ix.entries[assumed].flags&flagAssume == 0 || ix.entries[skipped].ext&extSkip == 0) {
			t.Errorf("%s: assume-unchanged or skip-worktree is lost", name)
		}
	}
}

func TestIndexRefusals(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.sh(base + "git update-index --split-index")
	_, err := readIndex(s.path(".git/index"))
	if _, ok := errors.AsType[*unsupportedError](err); !ok {
		t.Errorf("split index: %v", err)
	}
	b := gitIndexes(t)["plain"].data
	for i := range b {
		c := bytes.Clone(b)
		c[i] ^= 0x40
		if _, err := parseIndex(c); err == nil {
			t.Fatalf("byte %d of %d changed, and nobody noticed", i, len(b))
		}
	}
	for n := range len(b) {
		if _, err := parseIndex(b[:n]); err == nil {
			t.Fatalf("cut to %d bytes, and nobody noticed", n)
		}
	}
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x00"))
	f.Add([]byte("DIRC\x00\x00\x00\x04\x00\x00\x00\x01" + strings.Repeat("\x00", 61) + "\x01\x00a\x00"))
	f.Add([]byte("DIRC\x00\x00\x00\x03\x00\x00\x00\x01" + strings.Repeat("\x00", 60) + "\x40\x01\x20\x00a\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x00TREE\x00\x00\x00\x06\x00-1 0\nREUC\x00\x00\x00\x01x"))
	f.Fuzz(func(t *testing.T, body []byte) {
		ix, err := parseIndex(append(body, make([]byte, 20)...)) // a trailer of zeros is taken as it is
		if err == nil && !slices.IsSortedFunc(ix.entries, func(a, b indexEntry) int {
			return cmp.Or(strings.Compare(a.name, b.name), cmp.Compare(a.stage(), b.stage()))
		}) {
			t.Fatalf("not sorted: %+v", ix.entries)
		}
	})
}
