package gitops

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestDiffStat(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	s.put("a", "1\n2\n")
	one := snap(t, r)
	s.sh("rm f; printf 'a\\0b' >bin; echo n >'n\tame'; printf '1\\n3\\n4\\n' >a; printf '*.x diff=evil\\n' >.gitattributes; git config diff.evil.command 'touch ../ran'; echo x >y.x")
	stat, err := r.DiffStat(t.Context(), one, snap(t, r))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{" a ", "|   3 ++-", " f ", "bin ", "Bin 0 -> 3 bytes", `"n\tame"`,
		"6 files changed"} {
		if !strings.Contains(stat, want) {
			t.Errorf("no %q in\n%s", want, stat)
		}
	}
	s.sh("test ! -e ../ran")
	two := snap(t, r)
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
	if n := strings.Count(stat, "\n"); err != nil || n > statLines || !strings.Contains(stat, "300 files changed") {
		t.Errorf("%d lines, %v:\n%s", n, err, stat)
	}
}

func TestPatch(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	write := func(name, text string) Tree {
		t.Helper()
		s.put(name, text)
		return snap(t, r)
	}
	before := write("a.txt", "one\n")
	after := write("a.txt", "one\ntwo\n")
	got, err := r.Patch(t.Context(), before, after, 1<<10)
	if err != nil || !strings.Contains(got, "\n+two\n") || !strings.Contains(got, "diff --git a/a.txt b/a.txt") {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := r.Patch(t.Context(), after, after, 1<<10); got != "" || err != nil {
		t.Errorf("of one tree: got %q, %v", got, err)
	}
	huge := write("a.txt", strings.Repeat("line\n", 1000))
	got, err = r.Patch(t.Context(), before, huge, 500)
	if err != nil || len(got) > 600 || !strings.HasSuffix(got, " bytes of the diff left out]\n") {
		t.Errorf("cut: got %d bytes ending %q, %v", len(got), got[max(0, len(got)-60):], err)
	}
}

// A tree's files are read without the working tree, and written into another tree, which keeps their modes.
func TestContents(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	s.put("dir/a.txt", "one\n")
	s.sh("printf 'echo\n' >run; chmod +x run; ln -s run to")
	tree := snap(t, r)
	s.sh("rm -r dir run to")
	c, err := r.Contents(tree)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"dir/a.txt": "one\n false false", "run": "echo\n true false",
		"to": "run false true", "dir": "<nil>", "none": "<nil>"} {
		got := "<nil>"
		f, err := c.File(path, 10)
		if err != nil {
			t.Fatal(err)
		}
		if f != nil {
			got = fmt.Sprint(string(f.Data), " ", f.Executable, " ", f.Link)
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	if f, err := c.File("dir/a.txt", 3); err != nil || f.Data != nil || f.Size != 4 {
		t.Errorf("longer than was asked for: %+v, %v", f, err)
	}
	for path, want := range map[string]bool{"dir": true, "run": false, "none": false} {
		if got, err := c.Folder(path); got != want || err != nil {
			t.Errorf("folder %s: got %v, %v", path, got, err)
		}
	}
	with, err := r.WithContent(t.Context(), tree, map[string][]byte{"run": []byte("true\n"),
		"new/b.txt": []byte("b\n")})
	if err != nil {
		t.Fatal(err)
	}
	s.sh("mkdir dir new; printf 'one\n' >dir/a.txt; printf 'true\n' >run; chmod +x run; ln -s run to; printf 'b\n' >new/b.txt")
	if want := snap(t, r); with != want {
		t.Errorf("got tree %s, want %s", with, want)
	}
}

// TestSend: a ref moves from where it was last seen, and from nowhere else; what travels is a tree byte for byte,
// whatever the attributes say.
func TestSend(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	s.put(".gitattributes", "* text eol=crlf\n")
	s.git("init", "-q", "--bare", "remote.git")
	folder := snap(t, r)
	tree, err := r.Bundle(t.Context(), map[string][]byte{"log": []byte("a\r\nb\n")}, "", folder)
	if err != nil {
		t.Fatal(err)
	}
	var chain []string
	for on := ""; len(chain) < 3; chain = append(chain, on) {
		if on, err = r.Link(t.Context(), on, Link{Tree: tree, When: time.Now(), Message: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	const ref = "refs/descartes/a@b/1"
	for _, c := range []struct {
		spec string
		ok   bool
	}{{chain[0] + ":" + ref, true}, {chain[2] + ":" + ref + "^" + chain[1], false},
		{chain[1] + ":" + ref + "^" + chain[0], true}, {chain[1] + ":" + ref + "^" + chain[0], true},
		{chain[2] + ":" + ref + "^" + chain[1], true}, {":" + ref + "^" + chain[1], false}} {
		if err := r.Send(t.Context(), "remote.git", c.spec); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.spec, err)
		}
	}
	commit := chain[2]
	if names, err := r.RemoteRefs(t.Context(), "remote.git", "*"); err != nil || len(names) != 1 ||
		names[ref] != commit {
		t.Errorf("on the remote: %v, %v", names, err)
	}
	for _, c := range []struct {
		spec string
		ok   bool
	}{{":" + ref + "^" + commit, true}, {commit + ":" + ref + "^" + chain[1], false}} {
		if err := r.Send(t.Context(), "remote.git", c.spec); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.spec, err)
		}
	}
	if b, err := r.FileAt(t.Context(), commit, "log", 100); err != nil || string(b) != "a\r\nb\n" {
		t.Errorf("log: %q, %v", b, err)
	}
	if b, err := r.FileAt(t.Context(), commit, "1/.gitattributes", 100); err != nil || len(b) == 0 {
		t.Errorf("the folder: %q, %v", b, err)
	}
}

// TestRemoteURL: other machines get a remote's one name, whichever way it is written here, and no login.
func TestRemoteURL(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	beside := filepath.Join(filepath.Dir(r.l.root), "bare.git")
	for url, want := range map[string]string{"../bare.git": beside, r.l.root + "/../bare.git": beside, beside: beside,
		"https://u:p@host/a.git": "https://host/a.git", "git@host:a/b.git": "git@host:a/b.git"} {
		s.git("config", "remote.origin.url", url)
		if got, _, err := r.RemoteURL(t.Context(), "origin"); got != want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", url, got, err, want)
		}
	}
}
