package gitops

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	statLines    = 40      // at most, the summary included
	statBytes    = 1 << 20 // a larger file is told by its size
	statFiles    = 200     // beyond it, files are only counted
	statEdits    = 1000    // beyond it, the number of changed lines is an upper bound
	statBarWidth = 40
)

// DiffStat tells people how two trees differ, like `git diff --stat`: one line for each file, at most 40 in
// all, and a summary. It is "" where nothing differs.
func (r *Repo) DiffStat(ctx context.Context, from, to Tree) (string, error) {
	var changes []statChange
	err := r.diffTrees(from, to, func(path string, a, b treeItem) {
		changes = append(changes, statChange{path: strings.Clone(path), a: a, b: b})
	})
	if err != nil {
		return "", fmt.Errorf("compare snapshots: %w", err)
	}
	if len(changes) == 0 {
		return "", nil
	}
	slices.SortFunc(changes, func(a, b statChange) int { return strings.Compare(a.path, b.path) })
	for i := range changes {
		if i >= statFiles {
			break
		}
		if err := context.Cause(ctx); err != nil {
			return "", err
		}
		if err := changes[i].count(&r.store.reader); err != nil {
			return "", fmt.Errorf("compare snapshots: %w", err)
		}
	}
	return renderStat(changes), nil
}

// statChange is one line of a diff stat.
type statChange struct {
	path       string
	a, b       treeItem
	plus, less int
	note       string // instead of counts
}

// count compares the two contents line by line.
func (c *statChange) count(reader *objectReader) error {
	if c.a.mode == modeGitlink || c.b.mode == modeGitlink {
		c.note = "submodule"
		return nil
	}
	old, oldSize, err := sideOf(reader, c.a)
	if err != nil {
		return err
	}
	new, newSize, err := sideOf(reader, c.b)
	if err != nil {
		return err
	}
	if oldSize > statBytes || newSize > statBytes || isBinary(old) || isBinary(new) {
		c.note = fmt.Sprintf("%d -> %d bytes", oldSize, newSize)
		return nil
	}
	c.plus, c.less = countLines(splitLines(old), splitLines(new))
	return nil
}

// sideOf reads a blob, unless it is large; mode 0 is an empty one.
func sideOf(reader *objectReader, it treeItem) ([]byte, int64, error) {
	if it.mode == 0 {
		return nil, 0, nil
	}
	_, size, rc, err := reader.open(it.id)
	if err != nil {
		return nil, 0, err
	}
	defer rc.Close()
	if size > statBytes {
		return nil, size, nil
	}
	b, err := io.ReadAll(rc)
	return b, size, err
}

// isBinary is git's rule: a NUL among the first 8000 bytes.
func isBinary(b []byte) bool { return bytes.IndexByte(b[:min(len(b), 8000)], 0) >= 0 }

func splitLines(b []byte) []string { return slices.Collect(strings.Lines(string(b))) }

// countLines finds how many lines the shortest edit adds and removes, by Myers' algorithm.
func countLines(a, b []string) (plus, less int) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	if len(a) == 0 || len(b) == 0 {
		return len(b), len(a)
	}
	most := min(len(a)+len(b), statEdits)
	reach := make([]int, 2*most+3) // by diagonal: how far in a
	for d := 0; d <= most; d++ {
		for k := -d; k <= d; k += 2 {
			x := reach[most+k] + 1 // one line less
			if k == -d || k != d && reach[most+k] < reach[most+k+2] {
				x = reach[most+k+2] // one line more
			}
			for x < len(a) && x-k < len(b) && x >= 0 && x-k >= 0 && a[x] == b[x-k] {
				x++
			}
			reach[most+k+1] = x
			if x >= len(a) && x-k >= len(b) {
				less = (d + len(a) - len(b)) / 2
				return d - less, less
			}
		}
	}
	return len(b), len(a)
}

func renderStat(changes []statChange) string {
	shown := changes
	if len(changes) > statLines-1 {
		shown = changes[:statLines-2]
	}
	width, most := 0, 1
	for _, c := range shown {
		width = max(width, utf8.RuneCountInString(showPath(c.path)))
		most = max(most, c.plus+c.less)
	}
	width = min(width, 80)
	var out strings.Builder
	for _, c := range shown {
		tail := c.note
		if tail == "" {
			tail = strings.TrimRight(fmt.Sprintf("%d %s%s", c.plus+c.less, bar('+', c.plus, most), bar('-', c.less, most)), " ")
		}
		fmt.Fprintf(&out, " %-*s | %s\n", width, showPath(c.path), tail)
	}
	if n := len(changes) - len(shown); n > 0 {
		fmt.Fprintf(&out, " ... and %d more files\n", n)
	}
	fmt.Fprintf(&out, " %s\n", summary(changes))
	return out.String()
}

// showPath quotes what would break a line or a terminal.
func showPath(p string) string {
	if strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f || r == utf8.RuneError }) {
		return fmt.Sprintf("%q", p)
	}
	return p
}

func bar(c byte, n, most int) string {
	if most > statBarWidth && n > 0 {
		n = max(1, n*statBarWidth/most)
	}
	return strings.Repeat(string(c), n)
}

func summary(changes []statChange) string {
	plus, less := 0, 0
	for _, c := range changes {
		plus += c.plus
		less += c.less
	}
	return fmt.Sprintf("%s changed, %s(+), %s(-)", plural(len(changes), "file"), plural(plus, "insertion"), plural(less, "deletion"))
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
