package gitops

import (
	"errors"
	"strings"
	"testing"
)

// What an agent left is refused at the next start too, before git runs.
func TestLinksAtTheStart(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"COMMIT_EDITMSG", "descartes-run", "refs/notes"} {
		s := newBase(t, "")
		s.sh("mkdir -p ../victim; rm -rf .git/" + place + "; ln -s $PWD/../victim .git/" + place)
		r, err := s.open("", "")
		if err != nil {
			t.Fatal(err)
		}
		var no *RefusedError
		if err := r.Claim(); !errors.As(err, &no) || !strings.Contains(no.Reason, ".git/"+place+" is a link") {
			t.Errorf("%s: got %v", place, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
