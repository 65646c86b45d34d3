package store

import (
	"cmp"
	"path"
	"strings"

	"descartes/internal/safename"
)

// TrunkRef names the tip of a loop's trunk.
func TrunkRef(id string) string { return "refs/descartes/" + id + "/trunk" }

// TagTrunkRef names the trunk of the last loop over a list that was to commit to a branch, "refs/heads/x" or "" for a
// detached HEAD: the next one goes on from what that branch lacks of it, in any clone. Another branch's is another's
// work. The list is named by gitops.Named.Key.
func TagTrunkRef(list, branch string) string {
	name := cmp.Or(strings.TrimPrefix(branch, "refs/heads/"), "HEAD")
	if name == said || name == trunk {
		name = branch
	}
	return TagTrunks(list) + safename.Of(name)
}

// TagTrunks begin the names of a list's trunks.
func TagTrunks(list string) string { return TagRefs + safename.Of(list) + "/" }

// OldTrunkRef is what earlier versions named a tag's trunk, whatever its list and branch.
func OldTrunkRef(list string) string {
	tag, _, _ := strings.Cut(list, ":/")
	return TagTrunks(tag) + trunk
}

// SaidRef names what is said about a list's tasks, on all branches: answers, and what runs asked.
func SaidRef(list string) string { return TagTrunks(list) + said }

// IsTagTrunk reports whether a ref is TagTrunkRef's or OldTrunkRef's for some list.
func IsTagTrunk(ref string) bool { return strings.HasPrefix(ref, TagRefs) && path.Base(ref) != said }

// TagRefs begin the names of what outlives a run.
const TagRefs = "refs/descartes/tags/"

const (
	poolRefs = "refs/descartes/pool/"

	said  = "said"
	trunk = "trunk"
)

// RefPrefix is the prefix of the refs that keep a task's attempts.
func RefPrefix(id, task string) string {
	return "refs/descartes/" + id + "/tasks/" + safename.Of(task) + "/"
}
