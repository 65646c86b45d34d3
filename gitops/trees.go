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

// hashTrees computes the tree of the folder and of all below it where it is not known. The encoded trees
// stay in memory until storeTrees.
func (d *folder) hashTrees() {
	if d.valid {
		return
	}
	b := make([]byte, 0, 64+40*(len(d.files)+len(d.dirs)))
	i := 0
	for _, c := range d.dirs {
		c.hashTrees()
		if c.empty {
			continue
		}
		name := c.name()
		for ; i < len(d.files) && compareEntries(d.files[i].name, false, name, true) < 0; i++ {
			b = d.files[i].append(b)
		}
		b = appendEntry(b, modeDir, name, c.id)
	}
	for ; i < len(d.files); i++ {
		b = d.files[i].append(b)
	}
	d.id, d.data = hashObject(kindTree, b), b
	d.valid, d.stored, d.empty = true, false, len(b) == 0
}

func (f *file) append(b []byte) []byte {
	if !f.present() {
		return b
	}
	return appendEntry(b, f.mode, f.name, f.id)
}

// unstored counts the trees that storeTrees would write.
func (d *folder) unstored() int {
	if d.stored || d.empty {
		return 0
	}
	n := 1
	for _, c := range d.dirs {
		n += c.unstored()
	}
	return n
}

// storeTrees writes the trees that are not in the store. known is a tree that is there, usually HEAD's at the
// same place, or nil: what is the same need not be written.
func (d *folder) storeTrees(o *objectStore, known *objectID) error {
	if d.stored || d.empty && d.parent != nil {
		return nil
	}
	if known != nil && *known == d.id {
		d.markStored()
		return nil
	}
	ids := map[string]objectID{}
	if known != nil && len(d.dirs) > 0 {
		b, err := o.reader.tree(*known)
		if err != nil {
			return err
		}
		for len(b) > 0 {
			e, rest, err := nextEntry(b)
			if err != nil {
				break // it only saves writing
			}
			if e.isDir() {
				ids[e.name] = e.id
			}
			b = rest
		}
	}
	for _, c := range d.dirs {
		var k *objectID
		if id, ok := ids[c.name()]; ok {
			k = &id
		}
		if err := c.storeTrees(o, k); err != nil {
			return err
		}
	}
	if err := o.write(d.id, kindTree, d.data); err != nil {
		return err
	}
	d.stored, d.data = true, nil
	return nil
}

func (d *folder) markStored() {
	if d.stored {
		return
	}
	d.stored, d.data = true, nil
	for _, c := range d.dirs {
		c.markStored()
	}
}
