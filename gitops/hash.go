package gitops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const (
	largeFile   = 8 << 20   // from here on files are streamed
	hashAlone   = 256 << 10 // below so many bytes one goroutine is quicker than several
	readRetries = 5         // for a file that changes while it is read
)

// reading is what a scan does with the content of files that differ from what is known of them.
type reading int

const (
	readKnown    reading = iota // names it; what is new is not even read, but marked to be read by the next scan
	readAll                     // names it, that of new files too
	readAndStore                // stores it
)

// collect joins what the workers of the walk found.
func (s *scanner) collect() []*work {
	var out []*work
	for _, w := range s.workers {
		for i := range w.works {
			out = append(out, &w.works[i])
		}
	}
	return out
}

// hashAll reads the files and stores those whose content is not known yet.
func (s *scanner) hashAll(ctx context.Context, works []*work, how reading) error {
	var bytes int64
	for _, wk := range works {
		bytes += min(wk.info.size, largeFile)
	}
	n := len(s.workers)
	if len(works) < 2 || bytes < hashAlone && len(works) < 32 {
		n = 1
	}
	var next atomic.Int64
	errs := make([]error, n)
	run := func(i int) {
		var buf []byte
		for errs[i] == nil {
			k := int(next.Add(1)) - 1
			if k >= len(works) {
				return
			}
			if errs[i] = context.Cause(ctx); errs[i] == nil {
				errs[i] = s.hashOne(ctx, works[k], &buf, how)
			}
		}
	}
	var wg sync.WaitGroup
	for i := 1; i < n; i++ {
		wg.Go(func() { run(i) })
	}
	run(0)
	wg.Wait()
	// a file that only git can treat matters more than one that could not be read
	for _, err := range errs {
		if _, ok := errors.AsType[*unsupportedError](err); ok {
			return err
		}
	}
	return errors.Join(errs...)
}

// hashOne reads one file until it holds still.
func (s *scanner) hashOne(ctx context.Context, wk *work, buf *[]byte, how reading) error {
	name := wk.name
	var known *file
	if wk.at >= 0 {
		known = &wk.d.files[wk.at]
		name = known.name
	} else if how == readKnown {
		wk.unread = true
		return nil
	}
	dirfd, err := s.root.open(wk.d.path, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return s.unreadable(wk, name, err)
	}
	defer unix.Close(dirfd)
	for try := range readRetries {
		wk.unread = try == readRetries-1 // then it is taken as it was read, and looked at again by the next scan
		done, err := s.hashAt(ctx, wk, dirfd, name, known, buf, how)
		if err != nil {
			return s.unreadable(wk, name, err)
		}
		if done {
			return nil
		}
	}
	return s.unreadable(wk, name, errChanged)
}

// unreadable takes a file for gone that is, or that is passed over.
func (s *scanner) unreadable(wk *work, name string, err error) error {
	if _, ok := errors.AsType[*unsupportedError](err); ok {
		return err
	}
	why := passesOver(err)
	if why == "" && !isGone(err) {
		return fmt.Errorf("read %s%s: %w", wk.d.path, name, err)
	}
	if why != "" {
		s.leave(wk.d.path+name, why)
		wk.passed = true
	}
	wk.gone = true
	return nil
}

// hashAt makes one try; done is false when the file changed meanwhile.
func (s *scanner) hashAt(ctx context.Context, wk *work, dirfd int, name string, known *file, buf *[]byte, how reading) (done bool, err error) {
	info, err := statAt(dirfd, name)
	if err != nil {
		return false, err
	}
	wk.info = info
	switch info.mode {
	case 0, modeDir:
		wk.gone = true
		return true, nil
	case modeLink:
		return s.hashLink(wk, dirfd, name, known, buf, how)
	}
	fd, err := unix.Openat(dirfd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
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
	wk.info = info
	if info.size > maxFile {
		return false, errTooLarge
	}
	if info.size > largeFile {
		if s.ends != "" {
			return false, unsupported("%s%s is large, and %s", wk.d.path, name, s.ends)
		}
		err = s.hashLarge(ctx, wk, fd, known, how)
	} else {
		*buf = slices.Grow((*buf)[:0], int(info.size)+1)
		data, n := (*buf)[:info.size+1], 0
		if n, err = preadFull(fd, data, 0); err == nil && (int64(n) == info.size || wk.unread) {
			n = min(n, int(info.size))
			if err := s.checkEnds(wk.d.path+name, data[:n]); err != nil {
				return false, err
			}
			err = s.keepBlob(wk, data[:n], known, how)
			if err == nil && name == ".gitattributes" && (known == nil || known.id != wk.id) {
				if a := s.attrs(data[:n]); a != "" {
					return false, unsupported("%s%s asks for a conversion (%s)", wk.d.path, name, a)
				}
			}
		} else if err == nil {
			return false, nil
		}
	}
	if err == errChanged {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	after, err := statFD(fd)
	return wk.unread || after.st == wk.info.st && after.mode == wk.info.mode, err
}

// checkEnds leaves a file to git whose line ends it may have to convert. Without CRLF there is nothing to convert.
func (s *scanner) checkEnds(path string, data []byte) error {
	if s.ends != "" && bytes.Contains(data, []byte("\r\n")) {
		return unsupported("%s has CRLF line ends, and %s", path, s.ends)
	}
	return nil
}

func (s *scanner) hashLink(wk *work, dirfd int, name string, known *file, buf *[]byte, how reading) (bool, error) {
	*buf = slices.Grow((*buf)[:0], unix.PathMax)
	n, err := unix.Readlinkat(dirfd, name, (*buf)[:unix.PathMax])
	if err == unix.EINVAL { // no link any more
		return false, nil
	}
	if err != nil {
		return false, err
	}
	err = s.keepBlob(wk, (*buf)[:n], known, how)
	return true, err
}

// keepBlob names the content, and stores it unless it is what the file held before.
func (s *scanner) keepBlob(wk *work, data []byte, known *file, how reading) error {
	wk.id = hashObject(kindBlob, data)
	if known.holds(wk.id) {
		return nil
	}
	wk.stored, wk.wanted = how == readAndStore, how != readAndStore
	if how != readAndStore {
		return nil
	}
	return s.store.write(wk.id, kindBlob, data)
}

// hashLarge does the same in constant memory: it reads once to name the content, and again to store it.
func (s *scanner) hashLarge(ctx context.Context, wk *work, fd int, known *file, how reading) (err error) {
	size := wk.info.size
	wk.id, err = hashStream(&fdReader{ctx: ctx, fd: fd, left: size}, size)
	if err != nil || known.holds(wk.id) {
		return err
	}
	wk.stored, wk.wanted = how == readAndStore, how != readAndStore
	if how != readAndStore {
		return nil
	}
	return s.store.stream(wk.id, kindBlob, &fdReader{ctx: ctx, fd: fd, left: size}, size)
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
