package gitops

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Whatever names a tree from another machine has, it is refused for those that git's fsck refuses, and is without what
// is protected.
func TestReceived(t *testing.T) {
	t.Parallel()
	s := newBase(t, "echo mine >descartes.yaml; mkdir -p .scud/tasks; echo mine >.scud/tasks/x.json; git add -A; git commit -qm2")
	r, err := Open(t.Context(), Options{Dir: s.dir, Git: gitProgram, Env: s.env,
		Protect: []string{"descartes.yaml", ".descartes/", ".scud/tasks/", "prd/prd.json"}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	base := Tree(strings.TrimSpace(s.git("rev-parse", "HEAD^{tree}")))
	blob := strings.TrimSpace(s.git("rev-parse", "HEAD:descartes.yaml"))
	mktree := func(lines string) string {
		c := exec.Command("git", "mktree")
		c.Dir, c.Env, c.Stdin = s.dir, s.env, strings.NewReader(lines)
		out, err := c.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	root := s.git("ls-tree", string(base))
	with := func(mode, name string) Tree {
		kind, id := "blob", blob
		if mode == "040000" {
			kind, id = "tree", mktree("100644 blob "+blob+"\tf\n")
		}
		lines := slices.DeleteFunc(strings.SplitAfter(root, "\n"),
			func(l string) bool { return l == "" || strings.HasSuffix(l, "\t"+name+"\n") })
		return Tree(mktree(strings.Join(lines, "") + mode + " " + kind + " " + id + "\t" + name + "\n"))
	}
	for _, name := range []string{".git", ".GIT", ".Git", "..", ".", ".git ", ".git.", "git~1", "GIT~1",
		".git::$INDEX_ALLOCATION", ".g\u200cit", "\u200c.git", ".git\ufeff", `a\.git`, `.git\a`} {
		for _, mode := range []string{"100644", "040000", "120000"} {
			var bad *ReceivedError
			if kept, _, err := r.Received(t.Context(), base, with(mode, name)); !errors.As(err, &bad) {
				t.Errorf("%s %q: got %s, %v", mode, name, kept, err)
			}
		}
	}
	for name, mode := range map[string]string{"descartes.yaml": "040000", ".descartes": "120000", ".scud": "120000",
		"prd": "120000", ".gitmodules": "120000", ".GitModules": "120000"} {
		if kept, undone, err := r.Received(t.Context(), base, with(mode, name)); err != nil || kept != base ||
			len(undone) == 0 {
			t.Errorf("%s %q: got %s without %q, %v", mode, name, kept, undone, err)
		}
	}
	for _, name := range []string{"prd", "tasks", ".github", "x.git", "gitx", ".gitignore", "git"} {
		tree := with("100644", name)
		if kept, undone, err := r.Received(t.Context(), base, tree); err != nil || kept != tree || len(undone) > 0 {
			t.Errorf("%q: got %s without %q, %v", name, kept, undone, err)
		}
	}
	for _, tree := range []Tree{"refs/heads/main", "--output=x", Tree(strings.Repeat("1", 40)), Tree(blob)} {
		var bad *ReceivedError
		if _, _, err := r.Received(t.Context(), base, tree); !errors.As(err, &bad) {
			t.Errorf("%s: got %v", tree, err)
		}
	}
}
