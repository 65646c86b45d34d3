package tasks

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"descartes/tasks/prose"
)

const maxTagLength = 100

// CompareIDs orders ids as people count: 2 before 10, 1.9 before 1.10, numbers before words. It is a total order.
func CompareIDs(a, b string) int {
	restA, restB := a, b
	for {
		var partA, partB string
		var moreA, moreB bool
		partA, restA, moreA = strings.Cut(restA, ".")
		partB, restB, moreB = strings.Cut(restB, ".")
		if c := comparePart(partA, partB); c != 0 {
			return c
		}
		if !moreA || !moreB {
			if moreA != moreB {
				if moreB {
					return -1
				}
				return 1
			}
			return strings.Compare(a, b) // 1 and 01
		}
	}
}

func comparePart(a, b string) int {
	numberA, numberB := prose.IsNumber(a), prose.IsNumber(b)
	switch {
	case numberA && numberB:
		a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
		if c := cmp.Compare(len(a), len(b)); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	case numberA:
		return -1
	case numberB:
		return 1
	}
	return strings.Compare(a, b)
}

// TagError says why a text cannot be a tag.
type TagError struct{ Tag, Reason string }

func (e *TagError) Error() string {
	return fmt.Sprintf("tag %q %s: a tag is a plain name of letters, digits, - _ . and the like, not a path, at most %d bytes",
		e.Tag, e.Reason, maxTagLength)
}

// ValidTag returns a *TagError if tag cannot name a task list. A tag becomes part of commit messages, and of file names unless it has a
// / in it as in feature/auth: SCUD's and Task Master's files of several tags may have such.
func ValidTag(tag string) error {
	if reason := tagProblem(tag); reason != "" {
		return &TagError{Tag: tag, Reason: reason}
	}
	return nil
}

func tagProblem(tag string) string {
	switch {
	case tag == "":
		return "is empty"
	case len(tag) > maxTagLength:
		return "is too long"
	case !utf8.ValidString(tag):
		return "is not valid UTF-8"
	case strings.Contains(tag, `\`), strings.Contains(tag, "/") && (strings.Contains("/"+tag+"/", "//") || strings.Contains("/"+tag, "/.")):
		return "is a path"
	case strings.Contains(tag, ":"):
		return "contains a colon, which separates tag and id"
	case tag[0] == '-' || tag[0] == '.':
		return fmt.Sprintf("begins with %q", tag[0])
	case strings.TrimSpace(tag) != tag:
		return "begins or ends with a space"
	}
	for _, r := range tag {
		if !unicode.IsPrint(r) {
			return "contains a control or invisible character"
		}
	}
	return ""
}

// plainTag returns a *TagError if tag cannot be the name of a file either.
func plainTag(tag string) error {
	if err := ValidTag(tag); err != nil {
		return err
	}
	if strings.Contains(tag, "/") {
		return &TagError{Tag: tag, Reason: "has a / in it and cannot have a file of its own"}
	}
	return nil
}

// ownID removes the prefix of the own tag: within a tag, "tag:id" and "id" are the same task.
func ownID(tag, id string) string {
	if tag != "" && len(id) > len(tag)+1 && id[len(tag)] == ':' && id[:len(tag)] == tag {
		return id[len(tag)+1:]
	}
	return id
}

// TagPath is where the task list of one tag has its own file, and a *TagError if it cannot have one.
func TagPath(root, tag string) (string, error) {
	if err := plainTag(tag); err != nil {
		return "", err
	}
	return filepath.Join(root, ".scud", "tasks", tag+".json"), nil
}
