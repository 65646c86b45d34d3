package gitops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	largeFile   = 8 << 20 // from here on files are streamed
	readRetries = 5       // for a file that changes while it is read
)

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// read names the content of a file, and stores it unless it is in the store. It is false where there is no file, or
// none that can be read; one that was known stays as it was known, as in git's index.
func (p *pass) read(at *place, f *file) bool {
	e, last := p.ix.within(len(at.path), at.lo, at.hi, f.name), at.last.file(f.name)
	r := fileReader{pass: p, at: at, f: f, holds: func(id objectID) bool {
		return last != nil && !last.unsaved && last.id == id || e != nil && e.ext&extIntent == 0 && e.id == id
	}}
	err := r.untilStill()
	if err == nil {
		f.unsure = f.unsure || f.unsaved || !stampBefore(f.st.ctimeS, f.st.ctimeN, p.started)
		return true
	}
	why := passesOver(err)
	if _, ok := errors.AsType[*unsupportedError](err); !ok && isGone(err) {
		return false
	} else if ok || why == "" {
		if !ok && err != context.Cause(p.ctx) {
			err = fmt.Errorf("read %s%s: %w", at.path, f.name, err)
		}
		p.fail(err)
		return false
	}
	p.leave(at.path+f.name, why)
	switch {
	case last != nil:
		*f = *last
	case e != nil:
		*f = file{name: f.name, id: e.id, mode: e.mode, st: e.st}
	}
	f.unsure = true
	return last != nil || e != nil
}

// fileReader reads one file.
type fileReader struct {
	*pass
	at    *place
	f     *file
	holds func(id objectID) bool // whether the store is known to have a content
}

// untilStill reads the file until it holds still. In the end it is taken as it was read, and read again by the next scan.
func (r *fileReader) untilStill() error {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for try := range readRetries {
		r.f.unsure = try == readRetries-1
		if done, err := r.once(buf); done || err != nil {
			return err
		}
	}
	return errChanged
}

// once makes one try; it is false when the file changed meanwhile.
func (r *fileReader) once(buf *[]byte) (done bool, err error) {
	info, err := statAt(r.at.fd, r.f.name)
	if err != nil {
		return false, err
	}
	switch info.mode {
	case 0, modeDir:
		return false, unix.ENOENT
	case modeLink:
		return r.link(info, buf)
	}
	fd, err := unix.Openat(r.at.fd, r.f.name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == unix.ELOOP || err == unix.EINTR {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	if info, err = statFD(fd); err != nil || info.mode != modeRegular && info.mode != modeExec {
		return false, err
	}
	r.f.mode, r.f.st = info.mode, info.st
	if info.size > largeFile {
		err = r.large(fd, info.size)
	} else {
		err = r.small(fd, int(info.size), buf)
	}
	if err == errChanged {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	after, err := statFD(fd)
	return r.f.unsure || after.st == info.st && after.mode == info.mode, err
}

func (r *fileReader) small(fd, size int, buf *[]byte) error {
	*buf = slices.Grow((*buf)[:0], size+1)
	data := (*buf)[:size+1]
	n, err := preadFull(fd, data, 0)
	if err != nil {
		return err
	}
	if n != size && !r.f.unsure {
		return errChanged
	}
	data = data[:min(n, size)]
	if err := r.checkEnds(r.at.path+r.f.name, data); err != nil {
		return err
	}
	if err := r.keep(data); err != nil || r.f.name != ".gitattributes" || r.holds(r.f.id) {
		return err
	}
	return r.checkAttributes(r.at.path, data)
}

func (r *fileReader) link(info fileInfo, buf *[]byte) (bool, error) {
	*buf = slices.Grow((*buf)[:0], unix.PathMax)
	n, err := unix.Readlinkat(r.at.fd, r.f.name, (*buf)[:unix.PathMax])
	if err == unix.EINVAL { // no link any more
		return false, nil
	}
	if err != nil {
		return false, err
	}
	r.f.mode, r.f.st = info.mode, info.st
	return true, r.keep((*buf)[:n])
}

// keep names the content, and stores it.
func (r *fileReader) keep(data []byte) error {
	r.f.id, r.f.unsaved = hashObject(kindBlob, data), false
	if r.holds(r.f.id) {
		return nil
	}
	if r.f.unsaved = r.how != readAndStore; r.f.unsaved {
		return nil
	}
	return r.store.write(r.f.id, kindBlob, data)
}

// large does the same in constant memory: it reads once to name the content, and again to store it.
func (r *fileReader) large(fd int, size int64) (err error) {
	if size > maxFile {
		return errTooLarge
	}
	if r.ends != "" {
		return unsupported("%s%s is large, and %s", r.at.path, r.f.name, r.ends)
	}
	r.f.id, err = hashStream(&fdReader{ctx: r.ctx, fd: fd, left: size}, size)
	if r.f.unsaved = false; err != nil || r.holds(r.f.id) {
		return err
	}
	if r.f.unsaved = r.how != readAndStore; r.f.unsaved {
		return nil
	}
	return r.store.stream(r.f.id, kindBlob, &fdReader{ctx: r.ctx, fd: fd, left: size}, size)
}

// fdReader reads a descriptor from its start, without owning it, until it was told to stop.
type fdReader struct {
	ctx  context.Context // of one call: a reader lives no longer
	fd   int
	at   int64
	left int64
}

func (r *fdReader) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	p = p[:min(int64(len(p)), r.left)]
	n, err := preadFull(r.fd, p, r.at)
	r.at += int64(n)
	r.left -= int64(n)
	if err == nil && (n < len(p) || r.left == 0) {
		err = io.EOF
	}
	return n, err
}

// preadFull reads until p is full or the file ends.
func preadFull(fd int, p []byte, off int64) (n int, err error) {
	for n < len(p) {
		k, err := unix.Pread(fd, p[n:], off+int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return n, err
		}
		if k == 0 {
			break
		}
		n += k
	}
	return n, nil
}
