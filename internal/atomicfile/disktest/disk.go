// Package disktest has disks for tests: one that fails, one that writes down what is asked of it, and what a power cut
// may leave.
package disktest

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"descartes/internal/atomicfile"
)

// Op is one thing that was asked of the disk, or the moment of something else, which a test notes among them.
type Op struct {
	Kind     string // create, write, sync, rename, remove, syncdir, or the test's own
	Name, To string
	Data     string
	Seq      int64 // a test's
}

// Recorder is the real file system, and writes down everything that is asked of it. Safe for concurrent use.
type Recorder struct {
	atomicfile.FS

	mu  sync.Mutex
	ops []Op
}

// Note writes down an operation, or a moment.
func (r *Recorder) Note(op Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, op)
}

// Ops are those that were noted.
func (r *Recorder) Ops() []Op {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ops)
}

type recordedFile struct {
	atomicfile.File
	r    *Recorder
	name string
}

func (r *Recorder) OpenFile(name string, flag int, perm os.FileMode) (atomicfile.File, error) {
	_, err := os.Lstat(name)
	fresh := err != nil
	f, err := r.FS.OpenFile(name, flag, perm)
	if err == nil && fresh {
		r.Note(Op{Kind: "create", Name: name})
	}
	return &recordedFile{f, r, name}, err
}

func (r *Recorder) Rename(from, to string) error {
	r.Note(Op{Kind: "rename", Name: from, To: to})
	return r.FS.Rename(from, to)
}

func (r *Recorder) Remove(name string) error {
	r.Note(Op{Kind: "remove", Name: name})
	return r.FS.Remove(name)
}

func (r *Recorder) SyncDir(dir string) error {
	r.Note(Op{Kind: "syncdir", Name: dir})
	return r.FS.SyncDir(dir)
}

func (f *recordedFile) Write(b []byte) (int, error) {
	f.r.Note(Op{Kind: "write", Name: f.name, Data: string(b)})
	return f.File.Write(b)
}

func (f *recordedFile) Sync() error {
	f.r.Note(Op{Kind: "sync", Name: f.name})
	return f.File.Sync()
}

// inode is a file's bytes on a disk that loses power: those that are certain, and what may be there instead.
type inode struct {
	now, sure string
	maybe     []string
}

// tears is at how many places a write may be torn.
const tears = 70

// Disk is what a legal but unkind file system holds: unsynced bytes may be missing, torn or zeros,
// and each change of a directory that was not synced may be missing, independently of the others.
type Disk struct {
	live    map[string]*inode
	durable map[string]*inode
	pending []dirChange
}

// NewDisk holds these files for certain.
func NewDisk(files map[string]string) *Disk {
	d := &Disk{live: map[string]*inode{}, durable: map[string]*inode{}}
	for name, text := range files {
		n := &inode{now: text, sure: text}
		d.live[name], d.durable[name] = n, n
	}
	return d
}

type dirChange struct {
	dir     string
	applies func(map[string]*inode)
}

// Do takes in an operation.
func (d *Disk) Do(op Op) {
	switch op.Kind {
	case "create":
		n := &inode{}
		d.live[op.Name] = n
		d.change(op.Name, func(m map[string]*inode) { m[op.Name] = n })
	case "write":
		n := d.live[op.Name]
		for c := range tears {
			n.maybe = append(n.maybe, n.now+op.Data[:len(op.Data)*(c+1)/tears])
		}
		n.maybe = append(n.maybe, n.now+strings.Repeat("\x00", len(op.Data)), // allocated, not written
			n.sure+strings.Repeat("\x00", len(n.now)-len(n.sure))+op.Data) // written, and what came before it not
		n.now += op.Data
	case "sync":
		n := d.live[op.Name]
		n.sure, n.maybe = n.now, nil
	case "rename":
		n := d.live[op.Name]
		d.live[op.To] = n
		delete(d.live, op.Name)
		d.change(op.To, func(m map[string]*inode) {
			m[op.To] = n
			if m[op.Name] == n {
				delete(m, op.Name)
			}
		})
	case "remove":
		delete(d.live, op.Name)
		d.change(op.Name, func(m map[string]*inode) { delete(m, op.Name) })
	case "syncdir":
		d.pending = slices.DeleteFunc(d.pending, func(c dirChange) bool {
			if c.dir == op.Name {
				c.applies(d.durable)
			}
			return c.dir == op.Name
		})
	}
}

func (d *Disk) change(name string, f func(map[string]*inode)) {
	d.pending = append(d.pending, dirChange{dir: filepath.Dir(name), applies: f})
}

// After calls f with every state that the files of interest may have after a power cut now.
func (d *Disk) After(interest []string, f func(map[string]string)) {
	for mask := range 1 << len(d.pending) {
		names := maps.Clone(d.durable)
		for b, c := range d.pending {
			if mask>>b&1 == 1 {
				c.applies(names)
			}
		}
		states := []map[string]string{{}}
		for _, name := range interest {
			n, ok := names[name]
			if !ok {
				continue
			}
			var next []map[string]string
			for _, s := range states {
				for _, text := range append([]string{n.sure}, n.maybe...) {
					t := maps.Clone(s)
					t[name] = text
					next = append(next, t)
				}
			}
			states = next
		}
		for _, s := range states {
			f(s)
		}
	}
}
