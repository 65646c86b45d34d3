package gitops

import "testing"

func TestRestorePaths(t *testing.T) {
	t.Parallel()
	s, r := start(t)
	s.sh("echo mine >docs/d.md; echo mine >untracked; mkdir deep; echo mine >deep/u")
	first := snap(t, r)
	s.sh("git stash -q -u; echo theirs >f; echo new >other")
	if _, err := r.RestorePaths(t.Context(), first, []string{"docs/d.md", "deep/u", "untracked", "nowhere"}); err != nil {
		t.Fatal(err)
	}
	s.sh("test \"$(cat docs/d.md untracked deep/u)\" = 'mine\nmine\nmine'; test \"$(cat f)\" = theirs; test \"$(cat other)\" = new")
	s.sh("rm other; git checkout -q f")
	if got := snap(t, r); got != first {
		t.Errorf("got %s, want %s", got, first)
	}
}
