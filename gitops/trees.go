package gitops

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
)

// emptyTreeID is the tree without entries.
var emptyTreeID = objectID{0x4b, 0x82, 0x5d, 0xc6, 0x42, 0xcb, 0x6e, 0xb9, 0xa0, 0x60, 0xe5, 0x4b, 0xf8, 0xd6, 0x92, 0x88, 0xfb, 0xee, 0x49, 0x04}

// emptyBlobID is the file without content.
var emptyBlobID = hashObject(kindBlob, nil)

// treeItem is one entry of a tree object.
type treeItem struct {
	name string
	mode uint32
	id   objectID
}

func (e treeItem) isDir() bool { return e.mode == modeDir }

var errTreeFormat = errors.New("malformed tree object")

// nextEntry cuts the first entry from a tree; its name aliases b. Names that must not reach a file system are
// an error, whoever made the tree.
func nextEntry(b []byte) (e treeItem, rest []byte, err error) {
	mode, b, ok1 := bytes.Cut(b, []byte{' '})
	name, b, ok2 := bytes.Cut(b, []byte{0})
	m, err := strconv.ParseUint(string(mode), 8, 32)
	if !ok1 || !ok2 || err != nil || len(b) < len(e.id) {
		return e, nil, errTreeFormat
	}
	e = treeItem{name: aliasString(name), mode: uint32(m), id: objectID(b[:20])}
	if !safeName(e.name) {
		return e, nil, &RefusedError{Reason: "a tree holds the unsafe name " + strconv.Quote(e.name)}
	}
	if e.mode == 0o100664 { // written by git's first versions
		e.mode = modeRegular
	}
	return e, b[20:], nil
}

func appendEntry(b []byte, mode uint32, name string, id objectID) []byte {
	b = strconv.AppendUint(b, uint64(mode), 8)
	b = append(append(append(b, ' '), name...), 0)
	return append(b, id[:]...)
}

// parseTree decodes a whole tree.
func parseTree(b []byte) ([]treeItem, error) {
	var out []treeItem
	for len(b) > 0 {
		e, rest, err := nextEntry(b)
		if err != nil {
			return nil, err
		}
		out, b = append(out, e), rest
	}
	return out, nil
}

// compareEntries is the order of trees: a directory sorts as if its name ended in a slash.
func compareEntries(a string, aDir bool, b string, bDir bool) int {
	n := min(len(a), len(b))
	if c := strings.Compare(a[:n], b[:n]); c != 0 {
		return c
	}
	return int(tailByte(a, n, aDir)) - int(tailByte(b, n, bDir))
}

func tailByte(s string, n int, dir bool) byte {
	switch {
	case len(s) > n:
		return s[n]
	case dir:
		return '/'
	}
	return 0
}
