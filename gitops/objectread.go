package gitops

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// objectReader reads objects, through go-git. Safe for concurrent use.
type objectReader struct {
	dir    string
	common string

	mu     sync.Mutex
	stores []*filesystem.Storage // of the repository and of those that it borrows from, once needed
	trees  map[objectID][]byte   // trees that this process wrote
	kept   int                   // bytes in trees
}

const (
	maxKeptTrees = 8 << 20
	maxInMemory  = 1 << 30 // no tree or commit is larger
)

// remember keeps a tree at hand: what was just written is what is compared next.
func (r *objectReader) remember(id objectID, tree []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.trees == nil || r.kept+len(tree) > maxKeptTrees {
		r.trees, r.kept = map[objectID][]byte{}, 0
	}
	if _, ok := r.trees[id]; !ok {
		r.trees[id] = append([]byte(nil), tree...)
		r.kept += len(tree)
	}
}

// tree reads a tree object.
func (r *objectReader) tree(id objectID) ([]byte, error) {
	r.mu.Lock()
	b, ok := r.trees[id]
	r.mu.Unlock()
	if ok {
		return b, nil
	}
	if id == emptyTreeID { // git knows it without an object
		return nil, nil
	}
	b, err := r.read(id, kindTree)
	if err == nil {
		r.remember(id, b)
	}
	return b, err
}

// read reads a whole object of a known kind.
func (r *objectReader) read(id objectID, kind objectKind) ([]byte, error) {
	got, size, rc, err := r.open(id)
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	if got != kind {
		return nil, fmt.Errorf("object %s is a %s, not a %s", id, got, kind)
	}
	if size > maxInMemory {
		return nil, fmt.Errorf("object %s of %d bytes is too large", id, size)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(rc, b); err != nil {
		return nil, fmt.Errorf("read object %s: %w", id, err)
	}
	return b, nil
}

// open gives the kind and size of an object and a reader of its content, which the caller closes.
func (r *objectReader) open(id objectID) (objectKind, int64, io.ReadCloser, error) {
	o, err := r.find(plumbing.Hash(id))
	if err != nil {
		return "", 0, nil, fmt.Errorf("read object %s: %w", id, err)
	}
	rc, err := o.Reader()
	if err != nil {
		return "", 0, nil, fmt.Errorf("read object %s: %w", id, err)
	}
	return objectKind(o.Type().String()), o.Size(), rc, nil
}

// commit reads a commit object. It has no storage behind it: only its own fields may be asked for.
func (r *objectReader) commit(hash string) (*object.Commit, error) {
	id, err := parseID(hash)
	if err != nil {
		return nil, err
	}
	o, err := r.find(plumbing.Hash(id))
	if err != nil {
		return nil, fmt.Errorf("read commit %s: %w", hash, err)
	}
	c, err := object.DecodeCommit(nil, o)
	if err != nil {
		return nil, fmt.Errorf("read commit %s: %w", hash, err)
	}
	return c, nil
}

// has says whether an object is there.
func (r *objectReader) has(id objectID) bool {
	x := id.String()
	if _, err := os.Lstat(r.dir + "/" + x[:2] + "/" + x[2:]); err == nil {
		return true
	}
	_, err := r.find(plumbing.Hash(id))
	return err == nil
}

// find looks in the repository, and in the object directories that it borrows from.
func (r *objectReader) find(id plumbing.Hash) (plumbing.EncodedObject, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var first error
	for _, again := range []bool{false, true} {
		if r.stores == nil || again { // packs come and go while we run
			r.stores, first = storages(r.common), nil
		}
		for _, s := range r.stores {
			o, err := s.EncodedObject(plumbing.AnyObject, id)
			if err == nil {
				return o, nil
			}
			if first == nil && !errors.Is(err, plumbing.ErrObjectNotFound) {
				first = err
			}
		}
	}
	if first != nil {
		return nil, first
	}
	return nil, plumbing.ErrObjectNotFound
}

// writer makes an object of the repository itself: kind and size first, then the content; it is there once it is closed.
func (r *objectReader) writer() (io.WriteCloser, func(plumbing.ObjectType, int64) error, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stores == nil {
		r.stores = storages(r.common)
	}
	return r.stores[0].LazyWriter()
}

// storages opens the object directory of a repository and, one after the other, those it borrows from.
func storages(commonDir string) []*filesystem.Storage {
	var out []*filesystem.Storage
	for _, d := range objectDirs(commonDir) {
		if filepath.Base(d) != "objects" {
			continue // go-git can only look into a directory of that name
		}
		out = append(out, filesystem.NewStorageWithOptions(osfs.New(filepath.Dir(d)), cache.NewObjectLRU(8*cache.MiByte),
			filesystem.Options{LargeObjectThreshold: largeFile}))
	}
	return out
}

// objectDirs lists the object directory of a repository and those it borrows from.
func objectDirs(commonDir string) []string {
	dirs := []string{filepath.Join(commonDir, "objects")}
	for i := 0; i < len(dirs) && i < 16; i++ {
		b, err := readPlain(filepath.Join(dirs[i], "info", "alternates"), mostLoose)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			line = strings.TrimSpace(line)
			if line == "" || line[0] == '#' {
				continue
			}
			if !filepath.IsAbs(line) {
				line = filepath.Join(dirs[i], line)
			}
			dirs = append(dirs, filepath.Clean(line))
		}
	}
	return dirs
}
