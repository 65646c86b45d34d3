package gitops

import (
	"bufio"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// objectReader reads loose objects itself and leaves packs to go-git, which is asked only then: it loads the
// index of every pack at the first question. Safe for concurrent use.
type objectReader struct {
	dir    string
	common string

	mu    sync.Mutex
	packs []*filesystem.Storage // of the repository and of those that it borrows from, once needed
	trees map[objectID][]byte   // trees that this process wrote
	kept  int                   // bytes in trees
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
	x := id.String()
	f, err := os.Open(r.dir + "/" + x[:2] + "/" + x[2:])
	if err == nil {
		kind, size, rc, err := openLoose(f)
		if err != nil {
			f.Close()
			return "", 0, nil, fmt.Errorf("read object %s: %w", id, err)
		}
		return kind, size, rc, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return "", 0, nil, fmt.Errorf("read object: %w", err)
	}
	kind, size, rc, err := r.openElsewhere(plumbing.Hash(id))
	if err != nil {
		return "", 0, nil, fmt.Errorf("read object %s: %w", id, err)
	}
	return kind, size, rc, nil
}

// has says whether an object is there.
func (r *objectReader) has(id objectID) bool {
	x := id.String()
	if _, err := os.Lstat(r.dir + "/" + x[:2] + "/" + x[2:]); err == nil {
		return true
	}
	_, _, rc, err := r.open(id)
	if err != nil {
		return false
	}
	rc.Close()
	return true
}

type looseReader struct {
	io.Reader
	z io.Closer
	f *os.File
}

func (l *looseReader) Close() error {
	l.z.Close()
	return l.f.Close()
}

func openLoose(f *os.File) (objectKind, int64, io.ReadCloser, error) {
	z, err := zlib.NewReader(f)
	if err != nil {
		return "", 0, nil, err
	}
	b := bufio.NewReaderSize(z, 4096)
	kind, size, err := readHeader(b)
	if err != nil {
		return "", 0, nil, err
	}
	return kind, size, &looseReader{Reader: io.LimitReader(b, size), z: z, f: f}, nil
}

// readHeader reads "kind size\x00".
func readHeader(b *bufio.Reader) (objectKind, int64, error) {
	const longest = 32
	head := make([]byte, 0, longest)
	for len(head) < longest {
		c, err := b.ReadByte()
		if err != nil {
			return "", 0, err
		}
		if c != 0 {
			head = append(head, c)
			continue
		}
		kind, digits, ok := strings.Cut(string(head), " ")
		size, err := strconv.ParseInt(digits, 10, 64)
		if !ok || err != nil || size < 0 {
			break
		}
		return objectKind(kind), size, nil
	}
	return "", 0, errors.New("malformed object header")
}

// openElsewhere looks in packs and in the object directories that the repository borrows from.
func (r *objectReader) openElsewhere(id plumbing.Hash) (objectKind, int64, io.ReadCloser, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, again := range []bool{false, true} {
		if r.packs == nil || again { // packs come and go while we run
			r.packs = storages(r.common)
		}
		for _, s := range r.packs {
			o, err := s.EncodedObject(plumbing.AnyObject, id)
			if err != nil {
				continue
			}
			rc, err := o.Reader()
			if err != nil {
				return "", 0, nil, err
			}
			return objectKind(o.Type().String()), o.Size(), rc, nil
		}
	}
	return "", 0, nil, plumbing.ErrObjectNotFound
}

// storages opens the object directory of a repository and, one after the other, those it borrows from.
func storages(commonDir string) []*filesystem.Storage {
	dirs := []string{filepath.Join(commonDir, "objects")}
	for i := 0; i < len(dirs) && i < 16; i++ {
		b, err := os.ReadFile(filepath.Join(dirs[i], "info", "alternates"))
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
	var out []*filesystem.Storage
	for _, d := range dirs {
		if filepath.Base(d) != "objects" {
			continue // go-git can only look into a directory of that name
		}
		out = append(out, filesystem.NewStorageWithOptions(osfs.New(filepath.Dir(d)), cache.NewObjectLRU(8*cache.MiByte),
			filesystem.Options{LargeObjectThreshold: largeFile}))
	}
	return out
}
