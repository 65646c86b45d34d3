package sandbox

import (
	"os"
	"path/filepath"

	"descartes/internal/proc"
)

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

// kept are the rights that root keeps: to be root to the files of the tree,
// whoever owns them. Everything that changes the machine is gone.
func kept(m Mode) []string {
	list := []string{"CAP_DAC_OVERRIDE", "CAP_CHOWN", "CAP_FOWNER", "CAP_FSETID", "CAP_SETUID", "CAP_SETGID", "CAP_KILL", "CAP_NET_BIND_SERVICE"}
	if m == Auto {
		list = append(list, "CAP_SETFCAP") // without it no agent's own sandbox starts inside
	}
	return list
}

// Wrap is bubblewrap's command line up to the program. tmp is a folder for the command's temporary files, which the caller
// makes and removes. It is nil where nothing holds commands in.
func (b *Box) Wrap(tmp string) []string {
	if b.c.Mode == Off || b.c.Bwrap == "" {
		return nil
	}
	v := b.base()
	v = append(v, "--bind", filepath.Join(tmp, "tmp"), insideTmp, "--bind", filepath.Join(tmp, "var"), insideVarTmp, "--setenv", "TMPDIR", insideTmp)
	for _, m := range b.mounts {
		switch m.how {
		case writable, granted:
			v = append(v, "--bind", m.source(), m.path)
		case readable, regained:
			v = append(v, "--ro-bind", m.source(), m.path)
		case emptied:
			v = append(v, "--tmpfs", m.path)
		case blanked:
			v = append(v, "--ro-bind", blank(tmp, m.path), m.path)
		}
	}
	if b.c.Own {
		v = append(v, "--ro-bind", b.c.Self, b.c.Self)
	}
	for _, m := range b.mounts { // what was hidden is nobody's to fill
		if m.how == emptied && m.path != b.home && !within(m.path, "/run") {
			v = append(v, "--remount-ro", m.path)
		}
	}
	if b.forwarded() {
		v = append(v, "--ro-bind", b.c.Socket, insideSocket, "--ro-bind", b.c.Self, insideSelf+filepath.Base(b.c.Self))
	}
	if b.c.Mode == Strict {
		v = append(v, "--remount-ro", "/", "--setenv", "GOCACHE", insideTmp+"/go-build", "--setenv", "XDG_CACHE_HOME", insideTmp+"/cache",
			"--setenv", "npm_config_cache", insideTmp+"/npm")
	}
	return append(v, b.instead...)
}

// blank is the file that stands where one is hidden: nothing, or the least that
// whoever reads it takes for a file of its kind. Maven and composer end with an
// error where theirs is empty.
func blank(tmp, path string) string {
	empty := filepath.Join(tmp, "empty")
	text, ok := map[string]string{".json": "{}\n", ".xml": "<settings/>\n"}[filepath.Ext(path)]
	if !ok {
		return empty
	}
	file := empty + filepath.Ext(path)
	if _, err := os.Lstat(file); err == nil {
		return file
	}
	if err := os.WriteFile(file, []byte(text), 0o444); err != nil {
		return empty
	}
	return file
}

// base is what holds for every place.
func (b *Box) base() []string {
	v := []string{b.c.Bwrap, "--die-with-parent", "--new-session", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"}
	if b.c.Mode == Strict {
		v = append(v, "--unshare-net")
	}
	switch {
	case b.c.Userns:
		v = append(v, "--unshare-user")
	case b.c.UID == 0:
		v = append(v, "--cap-drop", "ALL")
		for _, c := range kept(b.c.Mode) {
			v = append(v, "--cap-add", c)
		}
	}
	if b.c.Mode == Strict {
		for _, dir := range system() {
			v = append(v, "--ro-bind-try", dir, dir)
		}
	} else {
		v = append(v, "--ro-bind", "/", "/")
	}
	v = append(v, "--dev", "/dev", "--proc", "/proc")
	// Root may write most of these without any right at all.
	for _, path := range []string{"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/scsi", "/proc/acpi"} {
		v = append(v, "--ro-bind-try", path, path)
	}
	for _, name := range []string{"XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK", "GPG_AGENT_INFO", "TMP", "TEMP", "TEMPDIR"} {
		v = append(v, "--unsetenv", name)
	}
	return v
}

// forwarded reports whether a command reaches the network through the proxy.
func (b *Box) forwarded() bool {
	return b.c.Mode == Strict && b.c.Socket != "" && (b.c.Role == Agent || b.c.VerifyNetwork)
}

// Limits is Wrap, and what goes before the program inside: the way to the
// proxy, where there is one.
func (b *Box) Limits(tmp string) proc.Limits {
	v := proc.Limits{Wrap: b.Wrap(tmp)}
	if v.Wrap != nil && b.forwarded() {
		v.Inside = []string{insideSelf + filepath.Base(b.c.Self), NetCommand, insideSocket, direct(b.c.Hosts), "--"}
	}
	return v
}
