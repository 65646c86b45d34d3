package gitops

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/adler32"
	"io"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"descartes/internal/crash"
)

type objectKind string

const (
	kindBlob   objectKind = "blob"
	kindTree   objectKind = "tree"
	kindCommit objectKind = "commit"
)

// errChanged says that a file was not the same when it was read again.
var errChanged = errors.New("changed while it was read")

func (id objectID) String() string { return hex.EncodeToString(id[:]) }

func parseID(s string) (objectID, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(objectID{}) {
		return objectID{}, fmt.Errorf("%q is no object id", s)
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

// hashStream names a blob of size bytes; errChanged when r holds another number.
func hashStream(r io.Reader, size int64) (objectID, error) {
	h := newHash(kindBlob, size)
	n, err := io.CopyBuffer(struct{ io.Writer }{h}, r, make([]byte, 256<<10))
	if err == nil && n != size {
		err = errChanged
	}
	return objectID(h.Sum(make([]byte, 0, 20))), err
}

// objectStore writes loose objects. Safe for concurrent use.
//
// Durability is git's "batch" method: each file's bytes are handed to the disk as they are written, writeOut
// waits for them, and the fdatasync of the lock file of the ref or index that needs them, which follows in
// every case but that of a private ref (see Keep), flushes the disk's cache and the journal that holds their names.
type objectStore struct {
	dir  string // objects
	base string // of temporary names, different in each process
	seq  atomic.Uint64

	deflaters sync.Pool

	mu      sync.Mutex
	written []int      // descriptors of objects whose bytes may be on their way
	recent  []objectID // what was stored since the last commit, to which perhaps nothing leads yet

	reader objectReader
}

const maxWritten = 32

func newObjectStore(commonDir string) *objectStore {
	o := &objectStore{dir: commonDir + "/objects", base: "tmp_obj_" + strconv.Itoa(os.Getpid()) + "_"}
	o.deflaters.New = func() any {
		z, _ := zlib.NewWriterLevel(io.Discard, zlib.BestSpeed) // the level is valid
		return z
	}
	o.reader = objectReader{dir: o.dir, common: commonDir}
	return o
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

// write stores an object whose name is known.
func (o *objectStore) write(id objectID, kind objectKind, data []byte) error {
	if kind == kindTree {
		o.reader.remember(id, data)
	}
	return o.create(id, func(w io.Writer) error {
		head := appendHeader(make([]byte, 0, 32), kind, int64(len(data)))
		if len(head)+len(data) <= storedLimit {
			_, err := w.Write(storedStream(head, data))
			return err
		}
		var out bytes.Buffer
		if err := o.deflate(&out, head, bytes.NewReader(data)); err != nil {
			return err
		}
		_, err := w.Write(out.Bytes())
		return err
	})
}

// writeStream stores a blob too large for memory; errChanged when r does not hold what id names.
func (o *objectStore) writeStream(id objectID, r io.Reader, size int64) error {
	return o.create(id, func(w io.Writer) error {
		h := newHash(kindBlob, size)
		head := appendHeader(make([]byte, 0, 32), kindBlob, size)
		if err := o.deflate(w, head, io.TeeReader(r, h)); err != nil {
			return err
		}
		if objectID(h.Sum(make([]byte, 0, 20))) != id {
			return errChanged
		}
		return nil
	})
}

func (o *objectStore) deflate(w io.Writer, head []byte, r io.Reader) error {
	z := o.deflaters.Get().(*zlib.Writer)
	defer o.deflaters.Put(z)
	z.Reset(w)
	if _, err := z.Write(head); err != nil {
		return err
	}
	if _, err := io.CopyBuffer(struct{ io.Writer }{z}, r, make([]byte, 64<<10)); err != nil {
		return err
	}
	return z.Close()
}

// storedLimit: an object that fits into one block of the file system is not compressed, which would gain
// nothing on disk and costs more than all the rest of writing it.
const storedLimit = 4000

// storedStream is a zlib stream of one uncompressed block.
func storedStream(head, data []byte) []byte {
	n := len(head) + len(data)
	b := make([]byte, 0, n+16)
	b = append(b, 0x78, 0x01, 0x01)
	b = binary.LittleEndian.AppendUint16(b, uint16(n))
	b = binary.LittleEndian.AppendUint16(b, ^uint16(n))
	b = append(append(b, head...), data...)
	return binary.BigEndian.AppendUint32(b, adler32.Checksum(b[7:]))
}

// create makes an object file by way of a temporary one, unless the object is there.
func (o *objectStore) create(id objectID, fill func(io.Writer) error) error {
	final := o.path(id)
	o.mu.Lock()
	o.recent = append(o.recent, id)
	o.mu.Unlock()
	if touch(final) {
		return nil
	}
	fd, name, err := o.temp(final[:len(final)-39])
	if err != nil {
		return fmt.Errorf("write object %s: %w", id, err)
	}
	err = fill(fdWriter(fd))
	if err == nil {
		err = syncRange(fd, unix.SYNC_FILE_RANGE_WRITE)
	}
	if err == nil {
		crash.Point("git: object written")
		err = os.Rename(name, final)
	}
	if err != nil {
		unix.Close(fd)
		os.Remove(name)
		if err == errChanged {
			return err
		}
		return fmt.Errorf("write object %s: %w", id, err)
	}
	return o.remember(fd)
}

// lost reports whether an object that was stored since the last commit is no loose object any more: it was packed,
// or pruned.
func (o *objectStore) lost() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.recent, func(id objectID) bool {
		_, err := os.Lstat(o.path(id))
		return errors.Is(err, os.ErrNotExist)
	})
}

// settled forgets what was stored so far: a commit holds it, or a ref.
func (o *objectStore) settled() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.recent = nil
}

// temp creates a file beside the object to be, as read-only as objects are.
func (o *objectStore) temp(dir string) (fd int, name string, err error) {
	for {
		name = dir + "/" + o.base + strconv.FormatUint(o.seq.Add(1), 36)
		fd, err = unix.Open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o444)
		switch err {
		case nil:
			return fd, name, nil
		case unix.ENOENT:
			if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, os.ErrExist) {
				return -1, "", err
			}
		case unix.EEXIST, unix.EINTR:
		default:
			return -1, "", &os.PathError{Op: "create", Path: name, Err: err}
		}
	}
}

// fdWriter writes to a descriptor without owning it.
type fdWriter int

func (fd fdWriter) Write(p []byte) (n int, err error) {
	for n < len(p) {
		k, err := unix.Write(int(fd), p[n:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return n, os.NewSyscallError("write", err)
		}
		n += k
	}
	return n, nil
}

// touch makes an object that is there look new, so that no pruning takes it for garbage.
func touch(path string) bool {
	err := unix.UtimesNanoAt(unix.AT_FDCWD, path, nil, 0)
	if err == unix.EACCES || err == unix.EPERM || err == unix.EROFS {
		_, err = os.Lstat(path)
	}
	return err == nil
}

// remember keeps the descriptor of a finished object until its bytes are known to be on the disk.
func (o *objectStore) remember(fd int) error {
	o.mu.Lock()
	o.written = append(o.written, fd)
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
	for _, fd := range o.written {
		err := syncRange(fd, unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
		if err != nil && first == nil {
			first = err
		}
		unix.Close(fd)
	}
	o.written = o.written[:0]
	return first
}

func syncRange(fd, flags int) error {
	err := unix.SyncFileRange(fd, 0, 0, flags)
	if err == unix.ENOSYS || err == unix.EINVAL || err == unix.ESPIPE {
		err = unix.Fdatasync(fd)
	}
	return os.NewSyscallError("write out object", err)
}
