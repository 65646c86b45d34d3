package loop

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/loop/source"
)

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
