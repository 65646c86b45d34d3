// Package safename makes names of ours from foreign text: a folder's name, a tag, a task's id.
package safename

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// most bounds a name in bytes: a file system takes 255, and an ending such as ".lock" or a number follows.
const most = 200

// Of is a text as a name that is valid as a file and as one component of a ref, of at most 200 bytes. Different texts
// have different names; letters, digits, "-" and "_" stay as they are, and so does a dot inside.
func Of(text string) string {
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		word := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
		inner := c == '.' && i > 0 && i+1 < len(text) && text[i-1] != '.' && !strings.HasPrefix(text[i:], ".lock")
		if word || inner {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02x", c)
		}
	}
	if b.Len() > 0 && b.Len() <= most {
		return b.String()
	}
	sum := sha256.Sum256([]byte(text)) // nothing is escaped as "%-"
	return fmt.Sprintf("%%-%x", sum[:16])
}
