package proc

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"descartes/agent/process"
)

// limiter holds a command's processes within its limits. Where the machine lets
// us make a control group the kernel counts; else the tree is looked at once a
// second, and what grows faster than that is noticed late. So are disk and logs.
type limiter struct {
	memory int64
	procs  int
	group  *group // made for this command; nil: none
	disk   *disk
	last   time.Time
	why    process.Why
}

const limitTick = time.Second

// limit makes what a command's limits need.
func (s *server) limit(j *job) (*limiter, error) {
	c := j.cmd.Limits
	if c.Memory <= 0 && c.Procs <= 0 && c.Disk <= 0 && c.Free <= 0 && c.Log <= 0 {
		return nil, nil
	}
	s.limited++
	return &limiter{memory: c.Memory, procs: c.Procs, disk: newDisk(j), last: time.Now(),
		group: makeGroup(groupPlace(), "descartes-"+strconv.Itoa(os.Getpid())+"-"+strconv.Itoa(s.limited), c)}, nil
}

// within has a command born inside the group.
func (k *limiter) within(attr *syscall.SysProcAttr) {
	if k != nil && k.group != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, int(k.group.folder.Fd())
	}
}

// without gives up a group; it is false where there is none.
func (k *limiter) without(attr *syscall.SysProcAttr) bool {
	if k == nil || k.group == nil {
		return false
	}
	attr.UseCgroupFD = false
	k.remove()
	return true
}

// remove takes the group away; all that was in it is dead.
func (k *limiter) remove() {
	if k == nil || k.group == nil {
		return
	}
	k.group.folder.Close()
	for range 100 { // a zombie counts until it is reaped
		if err := syscall.Rmdir(k.group.folder.Name()); err != syscall.EBUSY {
			break
		}
		time.Sleep(time.Millisecond)
	}
	k.group = nil
}

// exceeded says which limit was overrun, once a second.
func (k *limiter) exceeded(now time.Time) process.Why {
	if k == nil || now.Sub(k.last) < limitTick {
		return ""
	}
	k.last = now
	if k.disk != nil {
		k.disk.shorten()
		if k.why = k.disk.exceeded(now); k.why != "" {
			return k.why
		}
	}
	if why := k.ofGroup(); why != "" {
		return why
	}
	memory, procs := k.blind()
	if !memory && !procs {
		return ""
	}
	n, bytes := 0, int64(0)
	for _, i := range tree() {
		n += i.threads
		if memory {
			bytes += resident(i.pid)
		}
	}
	switch {
	case memory && bytes > k.memory:
		k.why = process.Memory
	case procs && n > k.procs:
		k.why = process.Procs
	}
	return k.why
}

// blind says for which limits no group counts.
func (k *limiter) blind() (memory, procs bool) {
	g := k.group
	return k.memory > 0 && (g == nil || !g.memory), k.procs > 0 && (g == nil || !g.procs)
}

// verdict is which limit was overrun when the command has ended by itself.
func (k *limiter) verdict() process.Why {
	if k == nil {
		return ""
	}
	if k.ofGroup() == "" && k.disk != nil && k.disk.grown() {
		k.why = process.Disk
	}
	return k.why
}

// ofGroup is what the group says, also after the command's own end: one that
// the kernel killed for its memory did not simply crash.
func (k *limiter) ofGroup() process.Why {
	switch g := k.group; {
	case g == nil || k.why != "":
	case g.memory && g.counter("memory.events", "oom_kill") > 0:
		k.why = process.Memory
	case g.procs && g.counter("pids.events", "max") > 0:
		k.why = process.Procs
	}
	return k.why
}

// disk watches what a command writes.
type disk struct {
	limits process.Limits
	dirs   []string // that count
	logs   []*os.File
	held   []int64 // by each log before
	before int64   // in dirs
	next   time.Time
}

func newDisk(j *job) *disk {
	d := &disk{limits: j.cmd.Limits, dirs: []string{cmp.Or(j.cmd.Limits.Tree, workTree(j.cmd.Dir))}}
	if d.limits.Temp != "" {
		d.dirs = append(d.dirs, d.limits.Temp)
	}
	for _, l := range d.limits.Layers {
		d.dirs = append(d.dirs, l.Upper)
	}
	for _, f := range []*os.File{j.out, j.to} {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && !slices.Contains(d.logs, f) {
			d.logs, d.held = append(d.logs, f), append(d.held, info.Size())
		}
	}
	if d.limits.Disk > 0 {
		d.before = d.used()
	}
	return d
}

// workTree is the folder of the repository that dir lies in, else dir.
func workTree(dir string) string {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			return dir
		}
	}
}

// exceeded says which limit was overrun. A count that takes long is made seldom.
func (d *disk) exceeded(now time.Time) process.Why {
	if d.limits.Free > 0 {
		for _, dir := range d.dirs {
			var st syscall.Statfs_t
			if syscall.Statfs(dir, &st) == nil && int64(st.Bavail)*int64(st.Bsize) < d.limits.Free {
				return process.Full
			}
		}
	}
	if now.Before(d.next) {
		return ""
	}
	grown := d.grown()
	d.next = now.Add(20 * time.Since(now))
	if grown {
		return process.Disk
	}
	return ""
}

func (d *disk) grown() bool { return d.limits.Disk > 0 && d.used()-d.before > d.limits.Disk }

// used is what the folders and the logs take, in bytes.
func (d *disk) used() (n int64) {
	for _, dir := range d.dirs {
		// what goes or is closed meanwhile does not count
		_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, _ error) error {
			var st syscall.Stat_t
			if syscall.Lstat(path, &st) == nil {
				n += st.Blocks * 512
			}
			return nil
		})
	}
	for _, f := range d.logs {
		var st syscall.Stat_t
		if syscall.Fstat(int(f.Fd()), &st) == nil {
			n += st.Blocks * 512
		}
	}
	return n
}

// margin is how much more of a log's ends stays than will be kept: who cuts it masks it first.
const margin = 1 << 20

// shorten takes the disk's room from the middle of a log that is over its limit. Nothing in it moves, so the command
// writes on, and who follows it reads on.
func (d *disk) shorten() {
	for n, f := range d.logs {
		half := d.limits.Share(d.held[n])/2 + margin
		info, err := f.Stat()
		if d.limits.Log <= 0 || err != nil || info.Size()-d.held[n] <= 2*half {
			continue
		}
		_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, d.held[n]+half,
			info.Size()-d.held[n]-2*half)
	}
}

// resident is what a process holds in memory, in bytes. What it shares with
// others of its tree counts for each.
func resident(pid int) int64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	f := bytes.Fields(b)
	if len(f) < 3 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(f[1]), 10, 64)
	shared, _ := strconv.ParseInt(string(f[2]), 10, 64)
	return max(pages-shared, 0) * int64(os.Getpagesize())
}

// group is a control group, of the second version.
type group struct {
	folder        *os.File
	memory, procs bool // it limits them
}

// groupPlace is the folder in which groups can be made: beside our own, for one with members has no children with
// limits.
func groupPlace() string {
	const root = "/sys/fs/cgroup"
	b, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(b)) {
		if own, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok && own != "/" &&
			!strings.Contains(own, "..") {
			return filepath.Dir(filepath.Join(root, own))
		}
	}
	return root
}

// makeGroup makes a group that keeps some of the limits; nil where none can be had.
func makeGroup(place, name string, c process.Limits) *group {
	on, _ := os.ReadFile(filepath.Join(place, "cgroup.subtree_control"))
	controllers := strings.Fields(string(on))
	g := &group{memory: c.Memory > 0 && slices.Contains(controllers, "memory"), procs: c.Procs > 0 &&
		slices.Contains(controllers, "pids")}
	dir := filepath.Join(place, name)
	if !g.memory && !g.procs || os.Mkdir(dir, 0o755) != nil {
		return nil
	}
	set := func(file string, value int64) error {
		return os.WriteFile(filepath.Join(dir, file), []byte(strconv.FormatInt(value, 10)), 0)
	}
	var err error
	if g.memory { // swap is no way around it
		err = set("memory.max", c.Memory)
		_, _ = set("memory.swap.max", 0), set("memory.oom.group", 1)
	}
	if g.procs {
		err = errors.Join(err, set("pids.max", int64(c.Procs)))
	}
	if err == nil {
		g.folder, err = os.Open(dir)
	}
	if err != nil {
		_ = os.Remove(dir)
		return nil
	}
	return g
}

// counter reads one line "name number" of a file of the group.
func (g *group) counter(file, name string) (n int) {
	b, _ := os.ReadFile(filepath.Join(g.folder.Name(), file))
	for line := range bytes.Lines(b) {
		if number, ok := bytes.CutPrefix(line, []byte(name+" ")); ok {
			n, _ = strconv.Atoi(string(bytes.TrimSpace(number)))
		}
	}
	return n
}

// Ceilings says by what means limits are kept here. It makes a group for that, and removes it.
func Ceilings() string {
	k := &limiter{memory: 1 << 40, procs: 1 << 15}
	k.group = makeGroup(groupPlace(), "descartes-try-"+strconv.Itoa(os.Getpid()),
		process.Limits{Memory: k.memory, Procs: k.procs})
	memory, procs := k.blind()
	k.remove()
	switch {
	case memory && procs:
		return "looking once a second"
	case memory || procs:
		return "a cgroup and looking once a second"
	}
	return "a cgroup"
}
