package gitops

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
	"time"
)

// objectID is a SHA-1 object name.
type objectID [20]byte

func (id objectID) isZero() bool { return id == objectID{} }

// fileStat is what the index remembers of a file to tell that it did not change.
type fileStat struct {
	ctimeS, ctimeN, mtimeS, mtimeN uint32
	dev, ino, uid, gid, size       uint32
}

// same ignores the device, as git does: device numbers change from one boot to the next.
func (a *fileStat) same(b *fileStat) bool {
	return a.mtimeN == b.mtimeN && a.mtimeS == b.mtimeS && a.ctimeN == b.ctimeN && a.ctimeS == b.ctimeS &&
		a.size == b.size && a.ino == b.ino && a.uid == b.uid && a.gid == b.gid
}

// File modes as trees and the index spell them.
const (
	modeType    = 0o170000
	modeRegular = 0o100644
	modeExec    = 0o100755
	modeLink    = 0o120000
	modeGitlink = 0o160000
	modeDir     = 0o040000
)

// Bits of indexEntry.flags and .ext, as on disk.
const (
	flagAssume   = 0x8000
	flagExtended = 0x4000
	flagStage    = 0x3000
	extSkip      = 0x4000
	extIntent    = 0x2000
)

// indexEntry is one entry of the index file. Its name may alias the file's bytes.
type indexEntry struct {
	name  string
	id    objectID
	mode  uint32
	st    fileStat
	flags uint16 // assume-unchanged and stage
	ext   uint16 // skip-worktree and intent-to-add
}

func (e *indexEntry) stage() int { return int(e.flags&flagStage) >> 12 }

// index is the content of an index file. Entries are sorted by name, then stage.
type index struct {
	version uint32
	entries []indexEntry
	mtime   time.Time // of the file: entries not older than it are to be hashed again
}

// maxTreeDepth bounds the recursion over bytes that we did not write; paths are at most 4096 bytes long.
const maxTreeDepth = 2048

var errIndexFormat = errors.New("damaged index")

// readIndex reads an index file of version 2, 3 or 4 over SHA-1. A missing file is an empty index.
// What only git understands (split and sparse indexes, unknown mandatory extensions) is an unsupportedError.
func readIndex(path string) (*index, error) {
	f, fi, err := openPlain(path, mostCopied)
	if errors.Is(err, os.ErrNotExist) {
		return &index{version: 2}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	defer f.Close()
	b := make([]byte, fi.Size())
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	ix, err := parseIndex(b)
	if err != nil {
		return nil, fmt.Errorf("read index %s: %w", path, err)
	}
	ix.mtime = fi.ModTime()
	return ix, nil
}

// parseIndex decodes an index file. The result aliases b.
func parseIndex(b []byte) (*index, error) {
	if len(b) < 12+20 || string(b[:4]) != "DIRC" {
		return nil, errIndexFormat
	}
	body, trailer := b[:len(b)-20], b[len(b)-20:]
	// A trailer of zeros is git's index.skipHash.
	if sum := sha1.Sum(body); !bytes.Equal(sum[:], trailer) && objectID(trailer) != (objectID{}) {
		return nil, fmt.Errorf("checksum mismatch: %w", errIndexFormat)
	}
	ix := &index{version: binary.BigEndian.Uint32(b[4:])}
	if ix.version < 2 || ix.version > 4 {
		return nil, unsupported("index version %d", ix.version)
	}
	n := int(binary.BigEndian.Uint32(b[8:]))
	if n > len(body)/62 {
		return nil, errIndexFormat
	}
	rest, err := ix.parseEntries(body[12:], n)
	if err != nil {
		return nil, err
	}
	return ix, ix.parseExtensions(rest)
}

const entryHead = 62 // bytes of an entry before its extended flags and name

func (ix *index) parseEntries(b []byte, n int) (rest []byte, err error) {
	ix.entries = make([]indexEntry, n)
	for i := range ix.entries {
		if len(b) < entryHead+2 {
			return nil, errIndexFormat
		}
		e := &ix.entries[i]
		long := e.decodeHead(b[:entryHead])
		at := entryHead
		if e.flags&flagExtended != 0 {
			e.ext = binary.BigEndian.Uint16(b[at:])
			e.flags &^= flagExtended
			at += 2
			if ix.version == 2 || e.ext&^(extSkip|extIntent) != 0 {
				return nil, unsupported("index entry with unknown flags %#x", e.ext)
			}
		}
		var prev *indexEntry
		if i > 0 {
			prev = &ix.entries[i-1]
		}
		if ix.version == 4 {
			b, err = e.decodeShortName(b[at:], prev)
		} else {
			b, err = e.decodeName(b, at, long)
		}
		if err != nil {
			return nil, err
		}
		if e.name == "" { // it stands for an entry of the shared part
			return nil, unsupported("split index")
		}
		if prev != nil && (prev.name > e.name || prev.name == e.name && prev.stage() >= e.stage()) {
			return nil, fmt.Errorf("entries out of order: %w", errIndexFormat)
		}
	}
	return b, nil
}

// decodeHead reads the fixed part and returns the length of the name, 0xfff for that or more.
func (e *indexEntry) decodeHead(h []byte) int {
	w := func(i int) uint32 { return binary.BigEndian.Uint32(h[4*i:]) }
	e.st = fileStat{ctimeS: w(0), ctimeN: w(1), mtimeS: w(2), mtimeN: w(3), dev: w(4), ino: w(5), uid: w(7), gid: w(8), size: w(9)}
	e.mode = w(6)
	e.id = objectID(h[40:60])
	flags := binary.BigEndian.Uint16(h[60:])
	e.flags = flags & (flagAssume | flagStage | flagExtended)
	return int(flags & 0xfff)
}

// decodeName reads the name of versions 2 and 3, which is padded with one to eight NULs.
func (e *indexEntry) decodeName(b []byte, at, n int) ([]byte, error) {
	if n == 0xfff {
		if n = bytes.IndexByte(b[at:], 0); n < 0xfff {
			return nil, errIndexFormat
		}
	}
	size := (at + n + 8) &^ 7
	if size > len(b) || bytes.IndexByte(b[at:size], 0) != n {
		return nil, errIndexFormat
	}
	e.name = aliasString(b[at : at+n])
	return b[size:], nil
}

// decodeShortName reads the name of version 4: how much of the name before to drop, and what to add.
func (e *indexEntry) decodeShortName(b []byte, prev *indexEntry) ([]byte, error) {
	drop, b, ok := readOffset(b)
	end := bytes.IndexByte(b, 0)
	last := ""
	if prev != nil {
		last = prev.name
	}
	if !ok || end < 0 || drop > len(last) {
		return nil, errIndexFormat
	}
	if drop == len(last) {
		e.name = aliasString(b[:end])
	} else {
		e.name = last[:len(last)-drop] + aliasString(b[:end])
	}
	return b[end+1:], nil
}

// readOffset reads the variable-length number of version 4.
func readOffset(b []byte) (v int, rest []byte, ok bool) {
	for i, c := range b {
		if i > 0 {
			v++
		}
		v = v<<7 | int(c&0x7f)
		if c&0x80 == 0 {
			return v, b[i+1:], true
		}
		if i == 4 {
			break
		}
	}
	return 0, b, false
}

func (ix *index) parseExtensions(b []byte) error {
	for len(b) > 0 {
		if len(b) < 8 {
			return errIndexFormat
		}
		sig, n := string(b[:4]), int(binary.BigEndian.Uint32(b[4:]))
		if n > len(b)-8 {
			return errIndexFormat
		}
		b = b[8+n:]
		// Optional extensions have an upper-case first letter: caches that git makes again.
		if sig[0] < 'A' || sig[0] > 'Z' {
			return unsupported("index extension %q", sig)
		}
	}
	return nil
}

// find returns where the stage-0 entry of name is or would be.
func (ix *index) find(name string) (int, bool) {
	i := sort.Search(len(ix.entries), func(i int) bool { return ix.entries[i].name >= name })
	return i, i < len(ix.entries) && ix.entries[i].name == name
}

// folder is what the index has at a path ("" or "a/b/"): its entries lo to hi, but for those that keep does not want;
// nil where that is nothing.
func (ix *index) folder(path string, lo, hi int, keep func(e *indexEntry) bool) *folder {
	d := &folder{path: path}
	for i := lo; i < hi; {
		e := &ix.entries[i]
		name, _, below := strings.Cut(e.name[len(path):], "/")
		if below {
			dir := e.name[:len(path)+len(name)+1]
			end := prefixEnd(ix.entries, i, hi, dir)
			if c := ix.folder(dir, i, end, keep); c != nil {
				d.dirs = append(d.dirs, c)
			}
			i = end
			continue
		}
		if keep(e) {
			d.files = append(d.files, file{name: name, id: e.id, mode: e.mode, st: e.st, fixed: true})
		}
		i++
	}
	if len(d.files)+len(d.dirs) == 0 && path != "" {
		return nil
	}
	d.seal(nil)
	return d
}

// plain says that the index holds nothing that only git treats rightly.
func (ix *index) plain() error {
	for i := range ix.entries {
		e := &ix.entries[i]
		if e.stage() != 0 {
			return unsupported("unmerged index")
		}
		if !safePath(e.name) {
			return unsupported("path %q", e.name)
		}
	}
	return nil
}

// within finds the entry of a file in a folder, nil where there is none; lo and hi are the entries of that folder, whose
// path is n bytes long.
func (ix *index) within(n, lo, hi int, name string) *indexEntry {
	i := lo + sort.Search(hi-lo, func(k int) bool { return ix.entries[lo+k].name[n:] >= name })
	if i < hi && ix.entries[i].name[n:] == name {
		return &ix.entries[i]
	}
	return nil
}

// below finds the entries of a folder in that folder.
func (ix *index) below(n, lo, hi int, name string) (from, to int) {
	from = lo + sort.Search(hi-lo, func(k int) bool {
		rest := ix.entries[lo+k].name[n:]
		return rest > name && !(strings.HasPrefix(rest, name) && rest[len(name)] < '/')
	})
	if from == hi || !strings.HasPrefix(ix.entries[from].name[n:], name) || ix.entries[from].name[n+len(name)] != '/' {
		return from, from
	}
	return from, prefixEnd(ix.entries, from, hi, ix.entries[from].name[:n+len(name)+1])
}

// prefixEnd is the end of the run of entries from i on whose names start with prefix.
func prefixEnd(entries []indexEntry, i, hi int, prefix string) int {
	step := 1
	for i+step < hi && strings.HasPrefix(entries[i+step].name, prefix) {
		i += step
		step *= 2
	}
	n := min(step, hi-i)
	return i + sort.Search(n, func(k int) bool { return !strings.HasPrefix(entries[i+k].name, prefix) })
}

// differs lists the paths at which the working tree is not as the index has it, in no order.
func (ix *index) differs(top *folder, guard protection) []string {
	var out []string
	there := map[string]bool{}
	top.each(func(path string, f *file) {
		there[path] = true
		i, known := ix.find(path)
		known = known && ix.entries[i].ext&extIntent == 0
		if !f.fixed && (!known || f.id != ix.entries[i].id || f.mode != ix.entries[i].mode) {
			out = append(out, path)
		}
	})
	for i := range ix.entries {
		if e := &ix.entries[i]; e.ext&extIntent == 0 && !there[e.name] && !guard.covers(e.name) {
			out = append(out, strings.Clone(e.name))
		}
	}
	return out
}
