package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"descartes/internal/plainfile"
	"descartes/internal/proc"
)

// probeBound is how long a probe may take.
const probeBound = 10 * time.Second

// CannotError says why there is no sandbox here, and what to do about it.
type CannotError struct{ Why, Fix string }

func (e *CannotError) Error() string { return e.Why }

// Next is what to do about it.
func (e *CannotError) Next() string { return e.Fix }

// Old says of what bubblewrap answers to --version that it makes a missing mount point through a link outside
// (CVE-2026-87766), as those before 0.12 do. What is no version of it is not old.
func Old(answer string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(answer, "bubblewrap %d.%d", &major, &minor)
	return n == 2 && major == 0 && minor < 12
}

// Probe runs bubblewrap, or sandbox-exec, once, with every mount of an agent's run. That a
// program of its name is there says nothing: half of the machines forbid it to
// make namespaces. userns says that it works with Config.Userns only. What
// keeps it from working is a *CannotError.
func (b *Box) Probe(ctx context.Context) (userns bool, err error) {
	if !b.Wraps() {
		return false, nil
	}
	if b.c.Bwrap == "" && b.c.Seatbelt == "" {
		return false, lacking(runtime.GOOS)
	}
	err = b.try(ctx)
	if err != nil && b.c.UID == 0 && b.c.Bwrap != "" {
		again := *b
		again.c.Userns = true // a root without CAP_SYS_ADMIN, as in most containers
		if again.try(ctx) == nil {
			return true, nil
		}
	}
	return false, err
}

// Layers reports whether a slot's tree can be made of layers that lie in a folder.
func (c Config) Layers(ctx context.Context, dir string) bool {
	return c.Mounts() && proc.CanLayer(ctx, c.Self, dir, c.bare())
}

// LayersCaches reports whether layers of the run's, which lie in dir, can be had over the user's caches.
func (c Config) LayersCaches(ctx context.Context, dir string) bool {
	if c.Mode != Auto || !c.Mounts() {
		return false
	}
	c.Role, c.Cache, c.CacheLayers = Verify, "", dir
	defer plainfile.RemoveAll(dir)
	b, err := New(c)
	return err == nil && proc.CanMount(ctx, c.Self, b.layers, c.bare())
}

// bare is bubblewrap's command line with nothing confined.
func (c Config) bare() []string {
	wrap := []string{c.Bwrap}
	if c.Userns {
		wrap = append(wrap, "--unshare-user")
	}
	return append(wrap, "--dev-bind", "/", "/")
}

// lacking says that a system has nothing to hold commands in.
func lacking(system string) *CannotError {
	if system == "darwin" {
		return &CannotError{Why: "there is no " + SandboxExec + " here",
			Fix: "macOS brings it; run in a container or a virtual machine instead"}
	}
	return &CannotError{Why: "bubblewrap (bwrap) is not on PATH", Fix: installFix}
}

// SandboxExec is where macOS has its program.
const SandboxExec = "/usr/bin/sandbox-exec"

// try starts a program that does nothing.
func (b *Box) try(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeBound)
	defer cancel()
	tmp, err := MakeTemp(os.TempDir())
	if err != nil {
		return &CannotError{Why: err.Error(), Fix: "make room for temporary files, or set TMPDIR"}
	}
	defer os.RemoveAll(tmp)
	nothing, err := proc.Look("true", "/", b.c.Env)
	if err != nil {
		return &CannotError{Why: err.Error(), Fix: "install coreutils"}
	}
	name, fix := "bubblewrap", installFix
	if b.c.Bwrap == "" {
		name, fix = "sandbox-exec", seatbeltFix
	}
	reply, err := proc.Output(ctx, proc.Call{Argv: append(b.Wrap(tmp), "--", nothing), Dir: b.c.Top, Env: []string{}})
	if err != nil {
		return &CannotError{Why: name + " does not run: " + err.Error(), Fix: fix}
	}
	if reply.Code == 0 {
		return nil
	}
	words := strings.TrimSpace(string(reply.Stderr))
	if b.c.Bwrap != "" {
		fix = remedy(words)
	}
	line := words[strings.LastIndexByte(words, '\n')+1:]
	return &CannotError{Why: name + " cannot start anything here: " +
		strings.TrimPrefix(strings.TrimPrefix(line, "bwrap: "), "sandbox-exec: "), Fix: fix}
}

const seatbeltFix = "see what " + SandboxExec +
	" -p '(version 1)(allow default)' /usr/bin/true says; one sandbox cannot start in another"

const installFix = "install bubblewrap (apt, dnf, pacman, apk and zypper all call it that)"

// remedy is what helps against what bubblewrap said.
func remedy(words string) string {
	denied := strings.Contains(words, "ermission denied") || strings.Contains(words, "not permitted") ||
		strings.Contains(words, "No permissions")
	switch {
	case !denied:
		return "see what bwrap --ro-bind / / true says"
	case sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1":
		return "AppArmor forbids it: as root write the three lines 'abi <abi/4.0>,' 'include <tunables/global>' " +
			"'profile bwrap /usr/bin/bwrap flags=(unconfined) { userns, }' to /etc/apparmor.d/bwrap, then run apparmor_parser -r /etc/apparmor.d/bwrap"
	case sysctl("kernel/unprivileged_userns_clone") == "0":
		return "the system forbids user namespaces: as root run sysctl kernel.unprivileged_userns_clone=1"
	case sysctl("user/max_user_namespaces") == "0":
		return "the system forbids user namespaces: as root run sysctl user.max_user_namespaces=15000"
	}
	return "in a container, start it with --security-opt seccomp=unconfined and --cap-add SYS_ADMIN, or let the container be the sandbox with --sandbox off"
}

func sysctl(name string) string {
	b, _ := os.ReadFile("/proc/sys/" + name)
	return strings.TrimSpace(string(b))
}

// MakeTemp makes a folder for a command's temporary files below dir. Its path has no links.
func MakeTemp(dir string) (tmp string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if tmp, err = os.MkdirTemp(dir, "descartes-"); err != nil {
		return "", err
	}
	for _, dir := range below(tmp, []string{"tmp", "var"}) { // nobody else comes through the folder above
		err = errors.Join(err, os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777|os.ModeSticky))
	}
	for end, text := range blanks {
		err = errors.Join(err, os.WriteFile(filepath.Join(tmp, "empty"+end), []byte(text), 0o444))
	}
	real, bad := filepath.EvalSymlinks(tmp)
	return real, errors.Join(err, bad)
}
