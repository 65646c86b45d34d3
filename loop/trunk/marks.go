package trunk

import (
	"context"

	"descartes/gitops"
	"descartes/internal/lazyregexp"
)

// What a merge of ours leaves of a conflict: markers with the names of our commits, and beside a folder, a link or a
// submodule the other side's copy under its commit's name (git's merge-ort).
var (
	begins   = lazyregexp.New(`(?m)^<{7} [0-9a-f]{40,64}\r?$`)
	ends     = lazyregexp.New(`(?m)^>{7} [0-9a-f]{40,64}\r?$`)
	sideCopy = lazyregexp.New(`~[0-9a-f]{40,64}(_\d+)?(/|$)`)
)

// Unresolved lists the paths that a tree has beyond another one in which a conflict of ours is left as git wrote it.
// Nothing but the trees decides: whoever had the conflict, it is there until it is resolved.
func Unresolved(ctx context.Context, repo *gitops.Repo, from, to gitops.Tree) (left []string, err error) {
	changed, err := repo.Changed(ctx, from, to)
	if err != nil {
		return nil, err
	}
	was, err := repo.Contents(from)
	if err != nil {
		return nil, err
	}
	now, err := repo.Contents(to)
	if err != nil {
		return nil, err
	}
	for _, c := range changed {
		if c.Op != 'D' && (c.Op == 'A' && sideCopy.MatchString(c.Path) || isMarked(now, c.Path) && !isMarked(was, c.Path)) {
			left = append(left, c.Path)
		}
	}
	return left, nil
}

// isMarked reports whether a file has conflict markers of ours.
func isMarked(c *gitops.Contents, path string) bool {
	file, err := c.File(path, maxMarked)
	if err != nil || file == nil {
		return false
	}
	text := string(file.Data)
	at := begins.FindStringIndex(text)
	return at != nil && ends.MatchString(text[at[1]:])
}

// maxMarked is the largest file, in bytes, that is searched for conflict markers.
const maxMarked = 4 << 20
