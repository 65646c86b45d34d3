package trunk

import (
	"strings"

	"descartes/gitops"
)

// Marked reports whether a file has git's conflict markers.
func Marked(c *gitops.Contents, path string) bool {
	file, err := c.File(path, maxMarked)
	if err != nil || file == nil {
		return false
	}
	text := "\n" + string(file.Data)
	at := strings.Index(text, "\n<<<<<<< ")
	return at >= 0 && strings.Contains(text[at:], "\n>>>>>>> ")
}

// maxMarked is the largest file, in bytes, that is searched for conflict markers.
const maxMarked = 4 << 20
