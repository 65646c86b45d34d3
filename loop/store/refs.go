package store

import "descartes/internal/safename"

// TrunkRef names the tip of a loop's trunk.
func TrunkRef(id string) string { return "refs/descartes/" + id + "/trunk" }

// TagTrunkRef names the trunk of the last loop over a tag: the next one goes on from what no branch has of it, in any
// clone.
func TagTrunkRef(tag string) string { return tagRefs + safename.Of(tag) + "/trunk" }

// SaidRef names what is said about a tag's tasks: answers, and what runs asked.
func SaidRef(tag string) string { return tagRefs + safename.Of(tag) + "/said" }

const (
	poolRefs = "refs/descartes/pool/"
	tagRefs  = "refs/descartes/tags/"
)

// RefPrefix is the prefix of the refs that keep a task's attempts.
func RefPrefix(id, task string) string {
	return "refs/descartes/" + id + "/tasks/" + safename.Of(task) + "/"
}
