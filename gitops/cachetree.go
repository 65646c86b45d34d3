package gitops

import (
	"bytes"
	"strconv"
	"strings"
)

// cacheTree is a node of the index's TREE extension: the tree object of a directory, where it is known.
type cacheTree struct {
	name    string // "" at the root
	entries int    // index entries below it, -1 where the tree is not known
	id      objectID
	sub     []*cacheTree
}

// maxTreeDepth bounds the recursion over bytes that we did not write; paths are at most 4096 bytes long.
const maxTreeDepth = 2048

// parseCacheTree returns nil for anything malformed.
func parseCacheTree(b []byte) *cacheTree {
	t, rest, ok := parseCacheNode(b, 0)
	if !ok || len(rest) != 0 || t.name != "" {
		return nil
	}
	return t
}

func parseCacheNode(b []byte, depth int) (t *cacheTree, rest []byte, ok bool) {
	name, b, ok1 := bytes.Cut(b, []byte{0})
	line, b, ok2 := bytes.Cut(b, []byte{'\n'})
	count, subs, ok3 := strings.Cut(string(line), " ")
	n, err1 := strconv.Atoi(count)
	k, err2 := strconv.Atoi(subs)
	if !ok1 || !ok2 || !ok3 || err1 != nil || err2 != nil || n < -1 || k < 0 || k > len(b) || depth > maxTreeDepth {
		return nil, nil, false
	}
	t = &cacheTree{name: aliasString(name), entries: n}
	if n >= 0 {
		if len(b) < len(t.id) {
			return nil, nil, false
		}
		t.id = objectID(b[:len(t.id)])
		b = b[len(t.id):]
	}
	for range k {
		s, rest, ok := parseCacheNode(b, depth+1)
		if !ok || s.name == "" {
			return nil, nil, false
		}
		t.sub = append(t.sub, s)
		b = rest
	}
	return t, b, true
}

// child returns the node of a subdirectory, nil where there is none.
func (t *cacheTree) child(name string) *cacheTree {
	if t == nil {
		return nil
	}
	for _, s := range t.sub {
		if s.name == name {
			return s
		}
	}
	return nil
}
