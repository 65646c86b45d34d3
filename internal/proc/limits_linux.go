package proc

import (
	"bytes"
	"cmp"
	"fmt"
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
	groups []group // made for this command
	disk   *disk
	last   time.Time
	why    process.Why
}

// group is one control group and the files that say how it went.
type group struct {
	dir, home string // home is where we came from
	v2        bool
	moved     bool
	memory    bool // it limits memory
	procs     bool // it limits processes
}

const limitTick = time.Second

// limit makes what a command's limits need and moves this process there, so
// that the command is born inside. leave moves us back.
func (s *server) limit(j *job) (*limiter, error) {
	c := j.cmd.Limits
	if c.Memory <= 0 && c.Procs <= 0 && c.Disk <= 0 && c.Free <= 0 && c.Log <= 0 {
		return nil, nil
	}
	k := &limiter{memory: c.Memory, procs: c.Procs, disk: newDisk(j), last: time.Now()}
	if c.Memory <= 0 && c.Procs <= 0 {
		return k, nil
	}
	s.limited++
	k.groups = makeGroups(groupPlaces(), "descartes-"+strconv.Itoa(os.Getpid())+"-"+strconv.Itoa(s.limited), c)
	for i := range k.groups {
		g := &k.groups[i]
		g.moved = os.WriteFile(filepath.Join(g.dir, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0) == nil
	}
	return k, nil
}

// leave takes this process out again, and closes the door.
func (k *limiter) leave() {
	if k == nil {
		return
	}
	for _, g := range k.groups {
		if g.moved {
			_ = os.WriteFile(filepath.Join(g.home, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0)
		}
		if g.moved && g.procs {
			_ = os.WriteFile(filepath.Join(g.dir, "pids.max"), []byte(strconv.Itoa(k.procs)), 0)
		}
	}
}

// remove takes the groups away; all that was in them is dead.
func (k *limiter) remove() {
	if k == nil {
		return
	}
	for _, g := range k.groups {
		for range 100 { // a zombie counts until it is reaped
			if err := syscall.Rmdir(g.dir); err != syscall.EBUSY {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
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
	if why := k.ofGroups(); why != "" {
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
	memory, procs = k.memory > 0, k.procs > 0
	for _, g := range k.groups {
		if g.moved {
			memory, procs = memory && !g.memory, procs && !g.procs
		}
	}
	return memory, procs
}

// verdict is which limit was overrun when the command has ended by itself.
func (k *limiter) verdict() process.Why {
	if k == nil {
		return ""
	}
	if k.ofGroups() == "" && k.disk != nil && k.disk.grown() {
		k.why = process.Disk
	}
	return k.why
}

// ofGroups is what the groups say, also after the command's own end: one that
// the kernel killed for its memory did not simply crash.
func (k *limiter) ofGroups() process.Why {
	for _, g := range k.groups {
		killed := "memory.oom_control"
		if g.v2 {
			killed = "memory.events"
		}
		switch {
		case !g.moved || k.why != "":
		case g.memory && counter(g.dir, killed, "oom_kill") > 0:
			k.why = process.Memory
		case g.procs && (counter(g.dir, "pids.events", "max") > 0 || current(g.dir) > k.procs):
			k.why = process.Procs
		}
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
		_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, _ error) error { // what goes or is closed meanwhile does not count
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
		_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, d.held[n]+half, info.Size()-d.held[n]-2*half)
	}
}

// counter reads one line "name number" of a group's file.
func counter(dir, file, name string) (n int) {
	b, _ := os.ReadFile(filepath.Join(dir, file))
	for line := range bytes.Lines(b) {
		if number, ok := bytes.CutPrefix(line, []byte(name+" ")); ok {
			n, _ = strconv.Atoi(string(bytes.TrimSpace(number)))
		}
	}
	return n
}

// current is how many processes and threads a group has now. A command that
// starts them faster than leave sets the limit has more than the limit, and
// the kernel, which only refuses new ones, counts no refusal.
func current(dir string) int {
	b, _ := os.ReadFile(filepath.Join(dir, "pids.current"))
	n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return n
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

// groupPlace is a folder in which groups can be made, and this process's own
// group.
type groupPlace struct {
	parent, home string
	v2           bool
	controllers  []string
}

// groupPlaces finds this process in each hierarchy.
func groupPlaces() (places []groupPlace) {
	const root = "/sys/fs/cgroup"
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(b)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) != 3 || strings.Contains(part[2], "..") {
			continue
		}
		if part[1] != "" {
			names := strings.Split(part[1], ",")
			home := filepath.Join(root, part[1], part[2])
			places = append(places, groupPlace{parent: home, home: home, controllers: names})
			continue
		}
		// The unified hierarchy: a group with members has no limited children,
		// so ours is made beside our own.
		home := filepath.Join(root, part[2])
		parent := filepath.Dir(home)
		if len(parent) < len(root) {
			continue
		}
		on, err := os.ReadFile(filepath.Join(parent, "cgroup.subtree_control"))
		if err != nil {
			continue
		}
		places = append(places, groupPlace{parent: parent, home: home, v2: true, controllers: strings.Fields(string(on))})
	}
	return places
}

// makeGroups makes a group wherever one of the limits can be set.
func makeGroups(places []groupPlace, name string, c process.Limits) (groups []group) {
	memory, procs := c.Memory > 0, c.Procs > 0
	for _, p := range places {
		g := group{dir: filepath.Join(p.parent, name), home: p.home, v2: p.v2}
		for _, controller := range p.controllers {
			g.memory = g.memory || memory && controller == "memory"
			g.procs = g.procs || procs && controller == "pids"
		}
		if !g.memory && !g.procs || os.Mkdir(g.dir, 0o755) != nil {
			continue
		}
		if err := g.limit(c); err != nil {
			_ = os.Remove(g.dir)
			continue
		}
		memory, procs = memory && !g.memory, procs && !g.procs
		groups = append(groups, g)
	}
	return groups
}

// limit writes the limits. Swap is no way around the one on memory.
func (g group) limit(c process.Limits) error {
	set := func(file, value string) error { return os.WriteFile(filepath.Join(g.dir, file), []byte(value), 0) }
	bytes := strconv.FormatInt(c.Memory, 10)
	if g.memory && g.v2 {
		if err := set("memory.max", bytes); err != nil {
			return fmt.Errorf("limit memory: %w", err)
		}
		_ = set("memory.swap.max", "0")
		_ = set("memory.oom.group", "1")
	} else if g.memory {
		if err := set("memory.limit_in_bytes", bytes); err != nil {
			return fmt.Errorf("limit memory: %w", err)
		}
		_ = set("memory.memsw.limit_in_bytes", bytes)
	}
	if g.procs { // none until we have left: our own threads would count
		if err := set("pids.max", "max"); err != nil {
			return fmt.Errorf("limit processes: %w", err)
		}
	}
	return nil
}

// Ceilings says by what means limits are kept here. It makes groups for that, and removes them.
func Ceilings() string {
	k := &limiter{memory: 1 << 40, procs: 1 << 15}
	k.groups = makeGroups(groupPlaces(), "descartes-try-"+strconv.Itoa(os.Getpid()), process.Limits{Memory: k.memory, Procs: k.procs})
	for i := range k.groups {
		k.groups[i].moved = true
	}
	k.remove()
	switch memory, procs := k.blind(); {
	case memory && procs:
		return "looking once a second"
	case memory || procs:
		return "cgroups and looking once a second"
	}
	return "cgroups"
}
