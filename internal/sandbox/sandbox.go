// Package sandbox owns what a command may touch: which of bubblewrap's mounts
// and namespaces it runs in, or under which profile of macOS's sandbox-exec,
// which variables it gets, and through which proxy it reaches the network.
package sandbox

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"descartes/agent/process"
)

// Mode says how tightly a command is confined.
type Mode string

const (
	// Auto: the working tree, temporary files and caches may be written, stores of credentials cannot be read, the
	// network is open. Where this is not possible, commands run without it, and the run says so.
	Auto Mode = "auto"
	// Strict: the home is empty but for what the agent needs, and the network is a list of hosts. Where this is not
	// possible, nothing runs.
	Strict Mode = "strict"
	// Off: nothing is confined. A slot is seen at the project's path all the same, where bubblewrap can do that.
	Off Mode = "off"
)

// Modes lists the modes as a flag's words.
const Modes = "auto|strict|off"

// Config is what a sandbox is made for.
type Config struct {
	Mode     Mode
	Root     string   // the project's folder; .scud, .descartes and descartes.yaml in it stay as they are
	Top      string   // the repository's top level, at Root or above
	Slot     Slot     // what is seen in the place of Top
	Env      []string // of this process: tells home, caches and the agent's own folders
	Role     Role
	Reads    bool     // the working tree, and its repository, are for reading only
	Offline  bool     // there is no network
	Agent    string   // the backend's name
	Program  string   // the agent's program, as it was found
	Named    []string // words that a person typed: a file among them is seen wherever it lies
	Self     string   // our own program, for the way to the proxy
	Own      bool     // the command is our own program, which is then seen inside wherever it lies
	Bwrap    string   // where bubblewrap is; "" if it is nowhere
	Seatbelt string   // where macOS's sandbox-exec is, which is used where Bwrap is ""
	Socket   string   // of the proxy, in Strict; "" for no network at all
	Hosts    []string // that the user lets the proxy reach besides
	Keep     []string // files in the tree that stay as they are besides: settings, a task list
	Write    []string // besides, what may be written
	Read     []string // besides, what may be read where it would be hidden
	UID      int
	Userns   bool // as Probe told
	Held     Held
	Cache    string // folder for caches that the home lacks; "" while no run is sure, and nothing is made for mounts
	// folder for layers over the user's caches, of this command alone while it runs; "" where there are none, and caches
	// are for reading: what is new goes to Cache
	CacheLayers string

	VerifyNetwork bool // in Strict: the verify command gets the agent's network
	ShowLogin     bool // the verify command may see what agents keep in the home
}

// Mounts reports whether a slot can be seen at the project's path: bubblewrap can do that, macOS cannot.
func (c Config) Mounts() bool { return c.Bwrap != "" }

// Slot is a working copy that is seen in the place of the working tree, at the same path: commands find the same
// absolute paths in it, and neither the user's files nor the user's .git. The zero value is none.
type Slot struct {
	Tree string // the copy, with a .git of its own
	// folders of objects that repositories in it borrow, by the paths at which they look for them
	Objects map[string]string
	Shown   []string        // folders of .descartes that are seen, read-only
	Layers  []process.Layer // that make up Tree while a command runs; nil: it is a folder
}

// Held are checks that no agent sees, nor the verify command. The zero value is none.
type Held struct {
	Dir string // where they lie
	Own string // folder of ours with what they print and build
}

// Role is what a command is for.
type Role int

const (
	Agent Role = iota
	Verify
	HeldOut // sees the held-out checks, and leaves nothing where others could read it
)

// Box is the sandbox of one command: its mounts are those of the places that are there now.
type Box struct {
	c       Config
	env     map[string]string
	home    string      // "" where there is none
	written [][2]string // what commands write, in which they can have made links: as it is named, and without links
	mounts  []mount
	instead []string        // variables, NAME=value, for caches that the home lacks
	layers  []process.Layer // over the user's caches
}

// mount is one place of the file tree and what becomes of it.
type mount struct {
	path   string
	how    how
	from   string // what is seen there; "" is the place itself
	file   bool   // it is no directory
	sealed bool   // nobody writes there any more once all mounts are made
}

// how is what becomes of a place. Where a place is named twice the higher one
// holds.
type how int

const (
	writable how = iota
	readable
	hidden   // a directory is empty, a file has nothing in it, a socket leads nowhere
	regained // readable, because the user says so
	granted  // writable, because the user says so
)

func (h how) writes() bool { return h == writable || h == granted }

// New works out what a command may touch. With Config.Cache it makes the agent's own folders in the home where they
// are missing, because a mount needs a place.
func New(c Config) (*Box, error) {
	b := newBox(c)
	if c.Mode == Off && (c.Slot.Tree == "" || !c.Mounts()) {
		return b, nil
	}
	var err error
	for _, dir := range []*string{&b.c.Top, &b.c.Root} {
		if *dir, err = filepath.EvalSymlinks(*dir); err != nil {
			return nil, fmt.Errorf("sandbox: %w", err)
		}
	}
	if b.c.Top == "/" {
		return nil, &CannotError{Why: "the working tree is the root of the file system",
			Fix: "work in a folder of its own"}
	}
	if c.Mode == Off {
		b.view()
	} else {
		b.confine()
	}
	if err := b.refuseLinks(); err != nil { // before anything is made for a mount
		return nil, err
	}
	b.order()
	return b, nil
}

func newBox(c Config) *Box {
	b := &Box{c: c, env: map[string]string{}}
	for _, kv := range c.Env {
		name, value, _ := strings.Cut(kv, "=")
		b.env[name] = value
	}
	return b
}

// refuseLinks refuses a slot with a link where something is mounted, or on the way there: bubblewrap before 0.12 makes
// what is missing at the link's end, outside (CVE-2026-87766).
func (b *Box) refuseLinks() error {
	if b.c.Slot.Tree == "" || !b.c.Mounts() {
		return nil
	}
	for _, m := range b.mounts {
		if !within(m.path, b.c.Top) {
			continue
		}
		for path := m.path; path != b.c.Top; path = filepath.Dir(path) {
			if fi, err := os.Lstat(b.copied(path)); err == nil && fi.Mode()&os.ModeSymlink != 0 {
				name, _ := filepath.Rel(b.c.Top, path)
				return &CannotError{Why: name + " is a link in what the run starts from, and no sandbox can be put over it",
					Fix: "commit a file or folder in its place there"}
			}
		}
	}
	return nil
}

// confine names all places of a sandbox.
func (b *Box) confine() {
	b.findHome()
	for _, dir := range slices.Concat(b.caches(), b.at(kept()...), b.c.Write, []string{b.c.Top}) {
		if real, ok := b.resolve(dir); ok {
			b.written = append(b.written, [2]string{dir, real})
		}
	}
	b.hide()
	b.open()
	before := len(b.mounts)
	switch {
	case b.c.Slot.Tree == "":
		b.here()
	case b.c.Mounts():
		b.slot()
	default: // the copy is worked in where it lies
		b.add(b.c.Top, readable)
		b.add(b.c.Slot.Tree, writable)
	}
	b.own()
	b.shown()
	for i := range b.mounts {
		m := &b.mounts[i]
		m.sealed = b.c.Reads && m.how == writable && (i >= before || within(m.path, b.c.Top))
	}
	b.held()
	b.sockets()
	if b.c.Own {
		b.add(b.c.Self, readable)
	}
}

func (b *Box) findHome() {
	var err error
	home := b.env["HOME"]
	if b.home, err = filepath.EvalSymlinks(home); err != nil || b.home == "/" || !filepath.IsAbs(home) {
		b.home = ""
	}
}

// Wraps reports whether commands run in anything of the box's.
func (b *Box) Wraps() bool { return b.c.Mode != Off || len(b.mounts) > 0 }

// resolve is a place without links. It is false for one that does not exist, and for one that a link leads out of what
// commands write: an earlier command can have made it.
func (b *Box) resolve(path string) (real string, ok bool) {
	real, err := filepath.EvalSymlinks(path)
	return real, err == nil && filepath.IsAbs(real) && !slices.ContainsFunc(b.written, func(w [2]string) bool {
		return (within(path, w[0]) || within(path, w[1])) && !within(real, w[1])
	})
}

// add names an existing place. What it is in truth, links followed, is what a
// mount goes on.
func (b *Box) add(path string, what how) {
	real, ok := b.resolve(path)
	if !ok && (what != hidden || !filepath.IsAbs(real)) || real == "/" {
		return
	}
	info, err := os.Stat(real)
	if err != nil || what < hidden && !info.IsDir() && !info.Mode().IsRegular() && info.Mode()&os.ModeSocket == 0 {
		return
	}
	b.mounts = append(b.mounts, mount{path: real, how: what, file: !info.IsDir()})
}

// within reports whether path is dir or lies below it.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// order sorts the mounts, parents first, and keeps one for each place and none inside an empty folder that hides it
// anyway. It makes every folder between a writable place and a protected one inside it its own mount: otherwise it
// could be renamed and replaced.
func (b *Box) order() {
	b.mounts = slices.DeleteFunc(slices.Clone(b.mounts), func(m mount) bool {
		in, ok := b.nearest(filepath.Dir(m.path))
		return m.how == hidden && ok && in.how == hidden &&
			!slices.ContainsFunc(b.mounts, func(o mount) bool { return o.how != hidden && within(o.path, m.path) })
	})
	var between []mount
	for _, p := range b.mounts {
		if p.how.writes() {
			continue
		}
		for dir := filepath.Dir(p.path); ; dir = filepath.Dir(dir) {
			base, ok := b.nearest(dir)
			if !ok || !base.how.writes() {
				break
			} else if base.path == dir {
				continue
			}
			m := mount{path: dir, how: writable, sealed: base.sealed}
			if b.c.Slot.Tree != "" && b.c.Mounts() && within(dir, b.c.Top) {
				m.from = b.copied(dir)
				_ = os.MkdirAll(m.from, 0o777) // a mount needs a place
			}
			between = append(between, m)
		}
	}
	all := append(b.mounts, between...)
	slices.SortStableFunc(all, func(a, b mount) int {
		return cmp.Or(strings.Compare(a.path, b.path), int(b.how)-int(a.how))
	})
	b.mounts = slices.CompactFunc(all, func(a, b mount) bool { return a.path == b.path })
}

// nearest is the mount that a place is in.
func (b *Box) nearest(path string) (found mount, ok bool) {
	for _, m := range b.mounts {
		if within(path, m.path) && (!ok || len(m.path) > len(found.path) || len(m.path) == len(found.path) &&
			m.how > found.how) {
			found, ok = m, true
		}
	}
	return found, ok
}

// NetCommand is the hidden command of our own program that stands between a
// command and the proxy, see Netforward.
const NetCommand = "__net"

// Where things lie inside.
const (
	insideTmp    = "/tmp"
	insideVarTmp = "/var/tmp"
	insideSocket = "/run/descartes/.proxy"
	insideSelf   = "/run/descartes/" // and our program's own name
)

// Wrap is the command line up to the program of what holds it in. tmp is a folder for the command's temporary files,
// which the caller makes and removes. It is nil where nothing holds commands in.
func (b *Box) Wrap(tmp string) []string {
	switch {
	case !b.Wraps():
		return nil
	case b.c.Bwrap == "":
		return b.seatbelt(tmp)
	}
	v := []string{b.c.Bwrap}
	if b.c.Userns {
		v = append(v, "--unshare-user")
	}
	if b.c.Mode == Off {
		return b.mount(append(v, "--dev-bind", "/", "/"), tmp)
	}
	v = append(b.base(v), "--bind", filepath.Join(tmp, "tmp"), insideTmp, "--bind", filepath.Join(tmp, "var"),
		insideVarTmp)
	v = b.mount(v, tmp)
	for _, m := range b.mounts { // what was hidden is nobody's to fill
		if m.sealed || m.how == hidden && !m.file && m.path != b.home && !within(m.path, "/run") {
			v = append(v, "--remount-ro", m.path)
		}
	}
	if b.forwarded() {
		v = append(v, "--ro-bind", b.c.Socket, insideSocket, "--ro-bind", b.c.Self, insideSelf+filepath.Base(b.c.Self))
	}
	if b.c.Mode == Strict {
		v = append(v, "--remount-ro", "/")
	}
	for _, kv := range b.variables(insideTmp) {
		name, value, _ := strings.Cut(kv, "=")
		v = append(v, "--setenv", name, value)
	}
	return v
}

// TempOf is the folder of a command's temporary files, and its path inside; tmp and bare are as in process.Limits.
func TempOf(tmp string, bare bool) (dir, inside string) {
	if dir = filepath.Join(tmp, "tmp"); bare {
		return dir, dir
	}
	return dir, insideTmp
}

// mount adds the mounts to a command line.
func (b *Box) mount(v []string, tmp string) []string {
	for _, m := range b.mounts {
		from := cmp.Or(m.from, m.path)
		switch {
		case m.how.writes():
			v = append(v, "--bind", from, m.path)
		case m.how != hidden:
			v = append(v, "--ro-bind", from, m.path)
		case m.file:
			end := filepath.Ext(m.path)
			if blanks[end] == "" {
				end = ""
			}
			v = append(v, "--ro-bind", filepath.Join(tmp, "empty"+end), m.path)
		default:
			v = append(v, "--tmpfs", m.path)
		}
	}
	return v
}

// variables are those that a command gets in any sandbox, NAME=value; tmp is its folder of temporary files as it sees
// it.
func (b *Box) variables(tmp string) []string {
	v, caches := []string{"TMPDIR=" + tmp}, ""
	switch {
	case b.c.Role == HeldOut:
		caches = b.c.Held.builds()
	case b.c.Mode == Strict:
		caches = tmp
	}
	for _, name := range []string{"GOCACHE", "XDG_CACHE_HOME", "npm_config_cache", "PYTHONPYCACHEPREFIX"} {
		if caches != "" {
			v = append(v, name+"="+filepath.Join(caches, strings.ToLower(name)))
		}
	}
	return append(v, b.instead...)
}

// unset are variables that lead to places outside.
func unset() []string {
	return []string{"XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK", "GPG_AGENT_INFO", "TMP", "TEMP",
		"TEMPDIR"}
}

// blanks are the files that stand where one is hidden, by the ends of names: nothing, or the least that whoever reads
// it takes for a file of its kind. Maven and composer end with an error where theirs is empty.
var blanks = map[string]string{"": "", ".json": "{}\n", ".xml": "<settings/>\n"}

// base adds what holds for every place.
func (b *Box) base(v []string) []string {
	v = append(v, "--die-with-parent", "--new-session", "--unshare-pid", "--unshare-ipc", "--unshare-uts",
		"--unshare-cgroup-try")
	if b.c.Mode == Strict || b.c.Offline {
		v = append(v, "--unshare-net")
	}
	if b.c.UID == 0 && !b.c.Userns {
		// Root stays root to the files of the tree, whoever owns them. Everything that changes the machine is gone.
		v = append(v, "--cap-drop", "ALL")
		for _, c := range []string{"DAC_OVERRIDE", "CHOWN", "FOWNER", "FSETID", "SETUID", "SETGID", "KILL",
			"NET_BIND_SERVICE"} {
			v = append(v, "--cap-add", "CAP_"+c)
		}
		if b.c.Mode == Auto {
			v = append(v, "--cap-add", "CAP_SETFCAP") // without it no agent's own sandbox starts inside
		}
	}
	if b.c.Mode == Strict {
		for _, dir := range system() {
			v = append(v, "--ro-bind-try", dir, dir)
		}
	} else {
		v = append(v, "--ro-bind", "/", "/")
	}
	v = append(v, "--dev", "/dev", "--proc", procDir)
	// Root may write most of these without any right at all.
	for _, path := range []string{"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs",
		"/proc/scsi", "/proc/acpi"} {
		v = append(v, "--ro-bind-try", path, path)
	}
	if b.apart() {
		v = append(v, "--remount-ro", procDir) // or /proc/PID/mem could be written
	}
	for _, name := range unset() {
		v = append(v, "--unsetenv", name)
	}
	return v
}

// procDir in Config.Write leaves it writable, and the memory of other processes with it.
const procDir = "/proc"

// apart reports whether the kernel has to be told that no process of a check writes into the memory of another: code
// under test could make the shell, make or test runner that started it end well. Yama says so by itself from 1 on, to
// what a process has started; what is told makes no user namespaces, since their maps are in /proc.
func (b *Box) apart() bool {
	if b.c.Role == Agent || slices.Contains(b.c.Write, procDir) {
		return false
	}
	scope, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	return err != nil || strings.TrimSpace(string(scope)) == "0"
}

// forwarded reports whether a command reaches the network through the proxy.
func (b *Box) forwarded() bool {
	return b.c.Mode == Strict && b.c.Socket != "" && (b.c.Role == Agent || b.c.VerifyNetwork)
}

// Limits is Wrap, and what goes before the program inside: the way to the
// proxy, where there is one.
func (b *Box) Limits(tmp string) process.Limits {
	v := process.Limits{Wrap: b.Wrap(tmp), Bare: b.c.Bwrap == "", Apart: b.apart()}
	if b.c.Slot.Tree != "" && !v.Bare {
		v.Tree, v.Place, v.Layers = b.c.Slot.Tree, b.c.Top, b.c.Slot.Layers
	}
	v.Layers = slices.Concat(v.Layers, b.layers, b.warm())
	if b.forwarded() {
		self, socket := insideSelf+filepath.Base(b.c.Self), insideSocket
		if v.Bare {
			self, socket = b.c.Self, b.c.Socket
		}
		v.Inside = []string{self, NetCommand, socket, direct(b.c.Hosts), "--"}
	}
	return v
}
