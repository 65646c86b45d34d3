package gitops

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// written are the places in a git directory where git and descartes write by name; a folder stands for all that is in it. What Repair restores from a
// copy or removes is not among them.
var written = []string{"COMMIT_EDITMSG", "FETCH_HEAD", "ORIG_HEAD", "descartes-*", "gc.log", "gc.pid", "logs", "objects", "packed-refs", "refs"}

// linkable are those for which some layouts have a link: git-new-workdir and repo make them.
var linkable = []string{"logs", "objects", "packed-refs", "refs"}

// links returns what stands in these places and is neither a file nor a folder, by path, with the text of a link. It enters refs/descartes, which has
// a file for each attempt, only if kept is set.
func (l layout) links(kept bool) (map[string]string, error) {
	out := map[string]string{}
	for _, dir := range slices.Compact([]string{l.gitDir, l.commonDir}) {
		for _, name := range written {
			places, err := within(dir, name)
			if err != nil {
				return nil, err
			}
			for _, place := range places {
				err := filepath.WalkDir(place, func(path string, e fs.DirEntry, err error) error {
					switch {
					case err != nil:
						return unlessMissing(err)
					case !e.IsDir() && !e.Type().IsRegular():
						out[path], _ = os.Readlink(path)
					case !e.IsDir():
					case !kept && path == filepath.Join(dir, "refs", "descartes"), filepath.Dir(path) == filepath.Join(dir, "objects"):
						return fs.SkipDir
					}
					return nil
				})
				if err != nil {
					return nil, err
				}
			}
		}
	}
	return out, nil
}

// noLinks refuses those that are not the layout's own. No git runs until it finds none.
func (r *Repo) noLinks(kept bool) error {
	r.cli.barred = nil
	now, err := r.l.links(kept)
	if err != nil {
		return err
	}
	maps.DeleteFunc(now, func(path, to string) bool { return to != "" && r.links[path] == to })
	if len(now) == 0 {
		return nil
	}
	paths := sortedKeys(now)
	r.cli.barred = &RefusedError{Reason: r.inGit(paths[0]) + " is a link, a FIFO or a device, which an agent may have made: what git writes there would land elsewhere",
		Hint: "rm " + strings.Join(paths, " ")}
	return r.cli.barred
}

// ownLinks takes the layout's own links from what stands there before the first attempt, and refuses others.
func (r *Repo) ownLinks() error {
	if r.links != nil {
		return nil
	}
	var err error
	if r.links, err = r.l.links(false); err != nil {
		return err
	}
	maps.DeleteFunc(r.links, func(path, _ string) bool {
		return !slices.ContainsFunc(linkable, func(name string) bool {
			return path == filepath.Join(r.l.gitDir, name) || path == filepath.Join(r.l.commonDir, name)
		})
	})
	return r.noLinks(true)
}

// inGit names a file of the git directory for people.
func (r *Repo) inGit(path string) string {
	for _, dir := range []string{r.l.gitDir, r.l.commonDir} {
		if rel, err := filepath.Rel(dir, path); err == nil && !strings.HasPrefix(rel, "..") {
			return ".git/" + filepath.ToSlash(rel)
		}
	}
	if rel, ok := strings.CutPrefix(path, r.l.root+"/"); ok {
		return rel
	}
	return path
}

func unlessMissing(err error) error {
	if missing(err) {
		return nil
	}
	return err
}
