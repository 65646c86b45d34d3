package proc

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"descartes/agent/process"
)

// TestLimits ends what grows beyond its limits, by whatever means this machine has.
func TestLimits(t *testing.T) {
	t.Log("limits are kept by:", Ceilings())
	s := startShim(t, ShimConfig{})
	many := sh("many", "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 600 & done; wait")
	many.Limits.Procs = 10
	if e := run(t, s, many); e.Why != process.Procs {
		t.Errorf("many: got %+v", e)
	}
	much := sh("much", "x=$(head -c 60000000 /dev/zero | tr '\\0' a); y=$x$x; sleep 600")
	much.Limits.Memory = 32 << 20
	if e := run(t, s, much); e.Why != process.Memory {
		t.Errorf("much: got %+v", e)
	}
	few := sh("few", "sleep 0 & wait; exit 3")
	few.Limits = process.Limits{Memory: 1 << 30, Procs: 100}
	if e := run(t, s, few); e.Why != process.Exited || e.Code != 3 {
		t.Errorf("few: got %+v", e)
	}
	eventually(t, "the groups' end", func() bool {
		left, err := filepath.Glob("/sys/fs/cgroup/*/descartes-" + strconv.Itoa(s.PID()) + "-*")
		return err == nil && len(left) == 0
	})
}

// TestDiskLimits ends what writes too much, into its tree, its temporary files or its log, also what ends by itself
// before it is looked at, and what leaves too little of the disk to others.
func TestDiskLimits(t *testing.T) {
	t.Parallel()
	s := startShim(t, ShimConfig{})
	for name, script := range map[string]string{"tree": "head -c 3000000 /dev/zero >new",
		"below": "mkdir a; cd a; head -c 3000000 /dev/zero >new", "temp": "head -c 3000000 /dev/zero >../../temp/new",
		"log": "head -c 3000000 /dev/zero", "less": "head -c 100000 /dev/zero >new; rm old",
		"again": "head -c 3000000 /dev/zero >old"} {
		for _, rest := range []string{"", "; sleep 600"} {
			if rest != "" && (name == "less" || name == "again") {
				continue
			}
			dir := t.TempDir()
			for path, size := range map[string]int{"top/.git/config": 1, "top/sub/old": 3 << 20, "temp/old": 1 << 20} {
				path = filepath.Join(dir, path)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700),
					os.WriteFile(path, make([]byte, size), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			c := sh("disk", script+rest)
			c.Dir, c.Stdout, c.Grace = filepath.Join(dir, "top/sub"), filepath.Join(dir, "log"), -1
			c.Limits = process.Limits{Disk: 2 << 20, Temp: filepath.Join(dir, "temp")}
			want := process.Disk
			if name == "less" || name == "again" {
				want = process.Exited
			}
			if e := run(t, s, c); e.Why != want {
				t.Errorf("%s%s: got %+v", name, rest, e)
			}
		}
	}
	c := sh("full", "sleep 600")
	c.Dir, c.Limits.Free = t.TempDir(), 1<<60
	if e := run(t, s, c); e.Why != process.Full {
		t.Errorf("full: got %+v", e)
	}
}

// TestLogLimit takes little of the disk for what a command prints without end, and loses neither its beginning nor its
// end.
func TestLogLimit(t *testing.T) {
	t.Parallel()
	s := startShim(t, ShimConfig{})
	c := sh("flood", "echo first; yes | head -c 40000000; sleep 2.5; echo last")
	c.Stdout = filepath.Join(t.TempDir(), "log")
	c.Limits.Log = 4 << 20
	if e := run(t, s, c); e.Why != process.Exited {
		t.Fatalf("got %+v", e)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(c.Stdout, &st); err != nil || st.Size != 40000011 {
		t.Fatalf("%d bytes, %v", st.Size, err)
	}
	b, err := os.ReadFile(c.Stdout)
	if err != nil || !bytes.HasPrefix(b, []byte("first\ny\ny")) || !bytes.HasSuffix(b, []byte("y\nlast\n")) {
		t.Errorf("%.20q, %v", b, err)
	}
	if used := st.Blocks * 512; used > 6<<20 {
		t.Errorf("it takes %d bytes of the disk", used)
	}
}

// TestLimitsLooking is the same where no group can be made: the tree is looked at.
func TestLimitsLooking(t *testing.T) {
	k := &limiter{procs: 1}
	if why := k.exceeded(time.Now()); why != "" {
		t.Errorf("at once: got %q, it looks once a second", why)
	}
	k.last = time.Now().Add(-2 * limitTick)
	if why := k.exceeded(time.Now()); why != "" {
		t.Errorf("without children: got %q", why)
	}
	child, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "sleep 30 & sleep 30"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { killTree(0, nil); _, _ = child.Wait() }()
	eventually(t, "three processes", func() bool { return len(tree()) >= 3 })
	k.last = time.Time{}
	if why := k.exceeded(time.Now()); why != process.Procs {
		t.Errorf("with three: got %q", why)
	}
	k = &limiter{memory: 1}
	if why := k.exceeded(time.Now()); why != process.Memory || k.verdict() != process.Memory {
		t.Errorf("with more than a byte: got %q", why)
	}
}

// TestGroup: a folder of our own stands in for one in which groups can be made.
func TestGroup(t *testing.T) {
	dir := t.TempDir()
	limits := process.Limits{Memory: 5 << 20, Procs: 7}
	if g := makeGroup(dir, "none", limits); g != nil {
		t.Errorf("without controllers: got %+v", g)
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("cpu memory pids\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	g := makeGroup(dir, "x", limits)
	if g == nil || !g.memory || !g.procs {
		t.Fatalf("got %+v", g)
	}
	for name, want := range map[string]string{"memory.max": "5242880", "memory.swap.max": "0", "memory.oom.group": "1",
		"pids.max": "7"} {
		if b, err := os.ReadFile(filepath.Join(dir, "x", name)); err != nil || string(b) != want {
			t.Errorf("%s: got %q, %v", name, b, err)
		}
	}
	for file, why := range map[string]process.Why{"memory.events": process.Memory, "pids.events": process.Procs} {
		text := map[process.Why]string{process.Memory: "low 0\nmax 7\noom_kill 2\n", process.Procs: "max 4\n"}[why]
		if err := os.WriteFile(filepath.Join(dir, "x", file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		k := &limiter{memory: 1 << 40, procs: 1 << 15, group: g}
		if got := k.verdict(); got != why {
			t.Errorf("%s: got %q, want %q", file, got, why)
		}
		if err := os.Remove(filepath.Join(dir, "x", file)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestGroupEntered: a command is born in its group, and where that cannot be, beside it.
func TestGroupEntered(t *testing.T) {
	for _, place := range []string{"/sys/fs/cgroup/unified", t.TempDir()} { // the first is there on some machines
		dir := filepath.Join(place, "descartes-test-"+strconv.Itoa(os.Getpid()))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		folder, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		attr := &syscall.SysProcAttr{}
		k := &limiter{group: &group{folder: folder}}
		k.within(attr)
		pid, err := syscall.ForkExec("/bin/cat", []string{"cat", "/proc/self/cgroup"}, &syscall.ProcAttr{Sys: attr})
		_, entered := os.Stat(filepath.Join(dir, "cgroup.procs"))
		if (err == nil) != (entered == nil) {
			t.Errorf("%s: %v", place, err)
		}
		if err == nil {
			_, _ = syscall.Wait4(pid, nil, 0, nil)
		}
		t.Log(place, err)
		if !k.without(attr) || attr.UseCgroupFD || k.without(attr) {
			t.Errorf("%s: the group is not given up", place)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s: the group is still there", place)
		}
	}
}

// TestNothingLeft: after a command that left nothing, the kernel's word is enough, and /proc is not read.
func TestNothingLeft(t *testing.T) {
	s := &server{stuck: map[int]bool{}}
	j := &job{}
	pid, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	j.pid = pid.Pid
	eventually(t, "its end", func() bool { s.reap(j); return j.ended })
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	first := opened(t)
	before := opened(t)
	counting := before - first
	if s.left(j) {
		t.Fatal("something is left")
	}
	s.kill(j)
	if n := opened(t) - before - counting; n > 0 {
		t.Errorf("%d files were read where nothing was left", n)
	}
}

// opened counts the read calls of this process so far.
func opened(t *testing.T) (n int) {
	t.Helper()
	b, err := os.ReadFile("/proc/thread-self/io")
	if err != nil {
		t.Log(err)
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "syscr: "); ok {
			n, _ = strconv.Atoi(strings.TrimSpace(v))
		}
	}
	return n
}
