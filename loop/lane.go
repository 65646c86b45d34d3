package loop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/loop/attempt"
	"descartes/loop/source"
	"descartes/loop/workspace"
)

// Workspace is where attempts run; see package workspace.
type Workspace interface {
	attempt.Workspace
	Prepare(ctx context.Context, s workspace.Start) (workspace.Stand, error)
}

// CheckLab returns what keeps the lab from running what the settings ask for; repo may be nil.
func CheckLab(ctx context.Context, root string, c *Config, repo *gitops.Repo) []source.Problem {
	if c.Holdout.Dir != "" && c.Holdout.Run == "" {
		return []source.Problem{{Message: "holdout.dir is set without holdout.run: nothing would run the checks in it",
			Hint: "name the command in descartes.yaml, or leave holdout out"}}
	}
	if !c.NeedsGit() {
		return nil
	}
	if repo == nil {
		return []source.Problem{{Message: "held-out checks and proofs run on a copy of the project, which needs a git repository", Hint: "git init"}}
	}
	var problems []source.Problem
	h := c.Holdout
	dir := h.Folder(root)
	fi, err := os.Stat(dir)
	rel, rerr := filepath.Rel(dir, repo.Root())
	switch inside, ierr := filepath.Rel(repo.Root(), dir); {
	case h.Run == "":
	case h.Dir == "":
		problems = append(problems, source.Problem{Message: "holdout.run is set without holdout.dir",
			Hint: "name the folder of the checks in descartes.yaml, so that it can be hidden"})
	case err != nil || !fi.IsDir():
		problems = append(problems, source.Problem{Message: "holdout.dir " + oneline.Text(h.Dir) + " is not a folder",
			Hint: "name one outside the project, with the checks in it"})
	case rerr == nil && rel != ".." && !strings.HasPrefix(rel, "../"):
		problems = append(problems, source.Problem{Message: "holdout.dir " + oneline.Text(h.Dir) +
			" contains the project itself", Hint: "move the checks into their own folder"})
	case ierr != nil || inside == ".." || strings.HasPrefix(inside, "../"): // inside the project, as it should be
	case !c.Confined():
		problems = append(problems, source.Problem{Message: "holdout.dir " + oneline.Text(h.Dir) +
			" is in the project, and nothing hides it without a sandbox", Hint: "move it out of the project"})
	default:
		ignored, err := repo.Ignored(ctx)
		if err != nil {
			return append(problems, source.Problem{Message: err.Error(), Err: err})
		}
		if path := filepath.ToSlash(inside) + "/"; !slices.ContainsFunc(ignored,
			func(i string) bool { return strings.HasSuffix(i, "/") && strings.HasPrefix(path, i) }) {
			problems = append(problems, source.Problem{Message: "holdout.dir " + oneline.Text(h.Dir) +
				" is in the project, and git does not ignore it",
				Hint: "move it out of the project, or add it to .gitignore"})
		}
	}
	return problems
}

// DiskFull reports whether an error means a full disk; git only says so in words.
func DiskFull(err error) bool {
	return err != nil && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		strings.Contains(strings.ToLower(err.Error()), syscall.ENOSPC.Error()))
}

// Room says which folder's file system has too little room, or returns "". One that does not report its free space is
// ignored.
func Room(free func(dir string) (int64, error), least int64, dirs ...string) string {
	for _, dir := range dirs {
		if n, err := free(dir); dir != "" && err == nil && n < least {
			return fmt.Sprintf("%s free on the disk of %s, and an attempt needs at least %s", mebibytes(n), dir,
				mebibytes(least))
		}
	}
	return ""
}

func mebibytes(n int64) string { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }
