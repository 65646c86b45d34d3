package gitops

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// A repository of a format that we do not know is refused for that, not for an index that reads like damage.
func TestOpenRefusesForeignFormats(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, setup, want string }{
		{"SHA-256", "git init -q --object-format=sha256 .; echo 1 >f; git add f", "its object format is sha256; only sha1 is supported"},
		{"reftable", "git init -q .; git config core.repositoryFormatVersion 1; git config extensions.refStorage reftable; echo 'ref: refs/heads/.invalid' >.git/HEAD; echo x >.git/index", "refstorage"},
		{"unknown extension", "git init -q .; git config core.repositoryFormatVersion 1; git config extensions.shiny true; echo x >.git/index", "unknown repository extension found: shiny"},
		{"unknown version", "git init -q .; git config core.repositoryFormatVersion 7; echo x >.git/index", "Expected git repo version <= 1, found 7"},
		{"core.worktree elsewhere", "git init -q .; mkdir ../else; git config core.worktree ../../else", "core.worktree puts the working tree at"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.sh(tt.setup)
			_, err := s.open("", "")
			if refused, ok := errors.AsType[*RefusedError](err); !ok || !strings.Contains(refused.Reason, tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestLocked(t *testing.T) {
	t.Parallel()
	for name, setup := range map[string]string{"main": "", "linked": "git worktree add -q -b side work"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTwin(t, &scenario{setup: setup})
			r, err := s.open("", "")
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			head, err := r.Head(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if path, ok := r.Locked(); ok {
				t.Errorf("nothing is locked: got %s", path)
			}
			for _, file := range []string{r.l.gitDir + "/index", r.l.gitDir + "/HEAD", r.l.commonDir + "/" + head.Branch} {
				s.put(file+".lock", "")
				if path, ok := r.Locked(); !ok || path != file+".lock" {
					t.Errorf("%s.lock: got %q %v", file, path, ok)
				}
				if err := os.Remove(file + ".lock"); err != nil {
					t.Fatal(err)
				}
			}
			s.put(r.l.commonDir+"/refs/heads/other.lock", "")
			if path, ok := r.Locked(); ok {
				t.Errorf("another branch: got %q", path)
			}
		})
	}
}

// Every git command would hang on a FIFO that a killed attempt left.
func TestOpenRefusesFIFO(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"HEAD", "config", "index", "packed-refs"} {
		s := newTwin(t, &scenario{})
		s.sh("rm -f .git/" + name + "; mkfifo .git/" + name)
		_, err := s.open("", "")
		var refused *RefusedError
		if !errors.As(err, &refused) || !strings.Contains(refused.Reason, name+" is no regular file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
