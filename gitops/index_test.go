package gitops

import (
	"bytes"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
)

// gitIndexes are index files as git writes them, in all versions and with all extensions that we keep.
func gitIndexes(t *testing.T) map[string][]byte {
	t.Helper()
	s := newSandbox(t)
	s.sh(base + "mkdir -p " + strings.Repeat("d/", 20) + strings.Repeat("long/", 900) + "; echo x >" + strings.Repeat("d/", 20) + "x; git add .")
	out := map[string][]byte{}
	read := func(name string) {
		b, err := os.ReadFile(s.path(".git/index"))
		if err != nil {
			t.Fatal(err)
		}
		out[name] = b
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

func TestIndexCodec(t *testing.T) {
	t.Parallel()
	for name, b := range gitIndexes(t) {
		ix, err := parseIndex(b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if name != "caches" && !bytes.Equal(ix.bytes(), b) && !bytes.Contains(b, []byte("EOIE")) {
			t.Errorf("%s: written otherwise than git wrote it", name)
		}
		again, err := parseIndex(ix.bytes())
		if err != nil {
			t.Errorf("%s: own bytes: %v", name, err)
			continue
		}
		if !reflect.DeepEqual(again, ix) {
			t.Errorf("%s: read, written and read it differs", name)
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
	b := gitIndexes(t)["plain"]
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
	ix := &index{version: 2, entries: []indexEntry{{name: "a", mode: modeRegular}, {name: "b/c", mode: modeExec, ext: extIntent}},
		tree: &cacheTree{entries: 2, sub: []*cacheTree{{name: "b", entries: -1}}}, undo: []byte("x")}
	for v := range uint32(3) {
		ix.version = v + 2
		b := ix.bytes()
		f.Add(b[:len(b)-20])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		ix, err := parseIndex(append(body, make([]byte, 20)...)) // a trailer of zeros is taken as it is
		if err != nil {
			return
		}
		again, err := parseIndex(ix.bytes())
		if err != nil {
			t.Fatalf("own bytes: %v", err)
		}
		if ix.version < 4 {
			again.version = ix.version // 2 and 3 are chosen by need
		}
		if !reflect.DeepEqual(again, ix) {
			t.Fatalf("read, written and read it differs:\n%+v\n%+v", ix, again)
		}
	})
}
