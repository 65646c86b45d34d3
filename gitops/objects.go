package gitops

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"descartes/internal/crash"
	"descartes/internal/oscall"
)

type objectKind string

const (
	kindBlob   objectKind = "blob"
	kindTree   objectKind = "tree"
	kindCommit objectKind = "commit"
)

// errChanged says that a file was not the same when it was read again.
var errChanged = errors.New("changed while it was read")

// largeFile is from where on files are streamed.
const largeFile = 8 << 20

// objectID is an object's name.
type objectID [20]byte

func (id objectID) isZero() bool { return id == objectID{} }

func (id objectID) String() string { return hex.EncodeToString(id[:]) }

func parseID(s string) (objectID, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(objectID{}) {
		return objectID{}, fmt.Errorf("%q is not an object id", s)
	}
	return objectID(b), nil
}

func appendHeader(b []byte, kind objectKind, size int64) []byte {
	b = append(append(b, kind...), ' ')
	return append(strconv.AppendInt(b, size, 10), 0)
}

func newHash(kind objectKind, size int64) hash.Hash {
	h := sha1.New()
	h.Write(appendHeader(make([]byte, 0, 32), kind, size))
	return h
}

func hashObject(kind objectKind, data []byte) objectID {
	h := newHash(kind, int64(len(data)))
	h.Write(data)
	return objectID(h.Sum(make([]byte, 0, 20)))
}

// objectStore reads and writes objects, through go-git. Safe for concurrent use.
//
// go-git renames an object into place without waiting for the disk. So each file's bytes are handed to the disk once
// they are written, writeOut waits for them, and the fdatasync of the lock file of the ref or index that needs them,
// which follows in every case but that of a private ref (see Keep), flushes the disk's cache and the journal that
// holds their names.
type objectStore struct {
	common string // the git directory
	dir    string // its objects

	mu      sync.Mutex
	written []*os.File // objects whose bytes may be on their way
	recent  []objectID // what was stored since the last commit, to which perhaps nothing leads yet

	reading sync.Mutex
	stores  []*filesystem.Storage // of the repository and of those that it borrows from, once needed
	trees   map[objectID][]byte   // trees that were read or written
	kept    int                   // bytes in trees
}

const maxWritten = 32

func newObjectStore(commonDir string) *objectStore {
	return &objectStore{common: commonDir, dir: commonDir + "/objects"}
}

func (o *objectStore) path(id objectID) string {
	x := id.String()
	return o.dir + "/" + x[:2] + "/" + x[2:]
}

// put stores an object and returns its name.
func (o *objectStore) put(kind objectKind, data []byte) (objectID, error) {
	id := hashObject(kind, data)
	return id, o.write(id, kind, data)
}

// putCommit stores a commit object.
func (o *objectStore) putCommit(c *object.Commit) (objectID, error) {
	var m plumbing.MemoryObject
	if err := c.Encode(&m); err != nil {
		return objectID{}, err
	}
	r, err := m.Reader()
	if err != nil {
		return objectID{}, err
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return objectID{}, err
	}
	return o.put(kindCommit, b)
}

// write stores an object whose name is known.
func (o *objectStore) write(id objectID, kind objectKind, data []byte) error {
	if kind == kindTree {
		o.keepTree(id, data)
	}
	var err error
	for range writeRetries {
		if err = o.stream(id, kind, bytes.NewReader(data), int64(len(data))); err != errTidied {
			break
		}
	}
	return err
}

// errTidied says that git gc, which removes empty folders and temporary files, came between: the object is to be written again.
var errTidied = fmt.Errorf("git tidied the store meanwhile: %w", errChanged)

const writeRetries = 10

// stream stores an object that need not fit into memory; errChanged when r does not hold what id names, which leaves
// an object behind that nothing refers to.
func (o *objectStore) stream(id objectID, kind objectKind, r io.Reader, size int64) (err error) {
	final := o.path(id)
	o.mu.Lock()
	o.recent = append(o.recent, id)
	o.mu.Unlock()
	if touch(final) {
		return nil
	}
	defer func() {
		if err != nil && !errors.Is(err, errChanged) {
			err = fmt.Errorf("write object %s: %w", id, err)
		}
	}()
	w, header, err := o.writer()
	if err != nil {
		return err
	}
	typ, err := plumbing.ParseObjectType(string(kind))
	if err == nil {
		err = header(typ, size)
	}
	var n int64
	if err == nil {
		n, err = io.CopyBuffer(struct{ io.Writer }{w}, r, make([]byte, min(size+1, 256<<10)))
	}
	if err == nil && n != size {
		err = errChanged
	}
	closed := w.Close()
	if half, ok := w.(interface{ Hash() plumbing.Hash }); ok && err != nil && closed == nil {
		_ = os.Remove(o.path(objectID(half.Hash()))) // go-git shows what there is of it
	}
	if err == nil {
		err = closed
	}
	if errors.Is(err, fs.ErrNotExist) {
		return errTidied
	}
	if err != nil {
		return err
	}
	crash.Point("git: object written")
	f, err := os.Open(final)
	if errors.Is(err, fs.ErrNotExist) {
		return errChanged
	}
	if err != nil {
		return err
	}
	return o.remember(f)
}

// forgetRecent forgets what was stored so far: a commit holds it, or a ref.
func (o *objectStore) forgetRecent() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.recent = nil
}

// touch makes an existing object look new, so that no pruning takes it for garbage. An empty file is what a power cut
// leaves of an object, and does not count as one.
func touch(path string) bool {
	fi, err := os.Lstat(path)
	if err != nil {
		return false
	}
	if fi.Size() == 0 {
		_ = os.Remove(path)
		return false
	}
	_ = os.Chtimes(path, time.Time{}, time.Now()) // another user's may not be touched
	return true
}

// remember keeps a finished object open until its bytes are known to be on the disk.
func (o *objectStore) remember(f *os.File) error {
	if err := oscall.StartWrite(f); err != nil {
		f.Close()
		return err
	}
	o.mu.Lock()
	o.written = append(o.written, f)
	full := len(o.written) >= maxWritten
	o.mu.Unlock()
	if full {
		return o.writeOut()
	}
	return nil
}

// writeOut waits until the bytes of all objects are on their disk.
func (o *objectStore) writeOut() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var first error
	for _, f := range o.written {
		err := oscall.FinishWrite(f)
		if err != nil && first == nil {
			first = err
		}
		f.Close()
	}
	o.written = o.written[:0]
	return first
}

const (
	maxKeptTrees = 8 << 20
	maxInMemory  = 1 << 30 // no tree or commit is larger
)

// keepTree keeps a tree at hand: what was just written is what is compared next.
func (o *objectStore) keepTree(id objectID, tree []byte) {
	o.reading.Lock()
	defer o.reading.Unlock()
	if o.trees == nil || o.kept+len(tree) > maxKeptTrees {
		o.trees, o.kept = map[objectID][]byte{}, 0
	}
	if _, ok := o.trees[id]; !ok {
		o.trees[id] = append([]byte(nil), tree...)
		o.kept += len(tree)
	}
}

// tree reads a tree object.
func (o *objectStore) tree(id objectID) ([]byte, error) {
	o.reading.Lock()
	b, ok := o.trees[id]
	o.reading.Unlock()
	if ok {
		return b, nil
	}
	if id == emptyTreeID { // git knows it without an object
		return nil, nil
	}
	b, err := o.read(id, kindTree)
	if err == nil {
		o.keepTree(id, b)
	}
	return b, err
}

// read reads a whole object of a known kind.
func (o *objectStore) read(id objectID, kind objectKind) ([]byte, error) {
	got, size, rc, err := o.open(id)
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
func (o *objectStore) open(id objectID) (objectKind, int64, io.ReadCloser, error) {
	found, err := o.find(plumbing.Hash(id))
	if err != nil {
		return "", 0, nil, fmt.Errorf("read object %s: %w", id, err)
	}
	rc, err := found.Reader()
	if err != nil {
		return "", 0, nil, fmt.Errorf("read object %s: %w", id, err)
	}
	return objectKind(found.Type().String()), found.Size(), rc, nil
}

// commit reads a commit object. It has no storage behind it: only its own fields may be asked for.
func (o *objectStore) commit(hash string) (*object.Commit, error) {
	id, err := parseID(hash)
	if err != nil {
		return nil, err
	}
	found, err := o.find(plumbing.Hash(id))
	if err != nil {
		return nil, fmt.Errorf("read commit %s: %w", hash, err)
	}
	c, err := object.DecodeCommit(nil, found)
	if err != nil {
		return nil, fmt.Errorf("read commit %s: %w", hash, err)
	}
	return c, nil
}

// has says whether an object is there.
func (o *objectStore) has(id objectID) bool {
	x := id.String()
	if _, err := os.Lstat(o.dir + "/" + x[:2] + "/" + x[2:]); err == nil {
		return true
	}
	_, err := o.find(plumbing.Hash(id))
	return err == nil
}

// find looks in the repository, and in the object directories that it borrows from.
func (o *objectStore) find(id plumbing.Hash) (plumbing.EncodedObject, error) {
	o.reading.Lock()
	defer o.reading.Unlock()
	var first error
	for _, again := range []bool{false, true} {
		if o.stores == nil || again { // packs come and go while we run
			o.stores, first = storages(o.common), nil
		}
		for _, s := range o.stores {
			found, err := s.EncodedObject(plumbing.AnyObject, id)
			if err == nil {
				return found, nil
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

// gcPatience is how long a run waits for git gc.
const gcPatience = 10 * time.Minute

// AwaitGC waits while git gc runs in the repository: with --prune=now it also deletes what was stored after it looked
// for refs. Snapshot, Keep and CommitWave wait by themselves before they store anything.
func (r *Repo) AwaitGC(ctx context.Context) {
	for deadline := time.Now().Add(gcPatience); collecting(r.l.commonDir) && time.Now().Before(deadline); {
		select {
		case <-ctx.Done():
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// collecting reports whether the lock file of git gc names a live git on this machine.
func collecting(commonDir string) bool {
	b, err := readPlain(filepath.Join(commonDir, "gc.pid"), mostLoose)
	if err != nil {
		return false
	}
	var pid int
	var where string
	if _, err := fmt.Sscan(string(b), &pid, &where); err != nil {
		return false
	}
	if host, err := os.Hostname(); err != nil || where != host {
		return false
	}
	return oscall.ProgramName(pid) == "git"
}

// writer makes an object of the repository itself: kind and size first, then the content; it is there once it is closed.
func (o *objectStore) writer() (io.WriteCloser, func(plumbing.ObjectType, int64) error, error) {
	o.reading.Lock()
	defer o.reading.Unlock()
	if o.stores == nil {
		o.stores = storages(o.common)
	}
	return o.stores[0].LazyWriter()
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
