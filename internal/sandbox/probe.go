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

	"descartes/internal/proc"
)

// probeBound is how long a probe may take.
const probeBound = 10 * time.Second

// CannotError says why there is no sandbox here, and what to do about it.
type CannotError struct{ Why, Fix string }

func (e *CannotError) Error() string { return e.Why }

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

// lacking says that a system has nothing to hold commands in.
func lacking(system string) *CannotError {
	if system == "darwin" {
		return &CannotError{Why: "there is no " + SandboxExec + " here", Fix: "macOS brings it; run in a container or a virtual machine instead"}
	}
	return &CannotError{Why: "bubblewrap (bwrap) is not on PATH", Fix: installFix}
}

// SandboxExec is where macOS has its program.
const SandboxExec = "/usr/bin/sandbox-exec"

// try starts a program that does nothing.
func (b *Box) try(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeBound)
	defer cancel()
	tmp, err := MakeTemp("")
	if err != nil {
		return &CannotError{Why: err.Error(), Fix: "make room for temporary files, or set TMPDIR"}
	}
	defer os.RemoveAll(tmp)
	quiet := *b
	quiet.c.Socket = "" // nobody listens yet
	argv := quiet.Wrap(tmp)
	nothing, err := proc.Look("true", "/", b.c.Env)
	if err != nil {
		return &CannotError{Why: err.Error(), Fix: "install coreutils"}
	}
	reply, err := proc.Output(ctx, proc.Call{Argv: append(argv, "--", nothing), Dir: b.c.Top, Env: []string{}})
	switch {
	case b.c.Bwrap == "" && err != nil:
		return &CannotError{Why: "sandbox-exec does not run: " + err.Error(), Fix: seatbeltFix}
	case b.c.Bwrap == "" && reply.Code != 0:
		return &CannotError{Why: "sandbox-exec cannot start anything here: " + strings.TrimPrefix(strings.TrimSpace(string(reply.Stderr)), "sandbox-exec: "), Fix: seatbeltFix}
	case err != nil:
		return &CannotError{Why: "bubblewrap does not run: " + err.Error(), Fix: installFix}
	case reply.Code != 0:
		return refusal(strings.TrimSpace(string(reply.Stderr)))
	}
	return nil
}

const seatbeltFix = "see what " + SandboxExec + " -p '(version 1)(allow default)' /usr/bin/true says; one sandbox cannot start in another"

const installFix = "install bubblewrap (apt, dnf, pacman, apk and zypper all call it that)"

// refusal is what bubblewrap said, and what helps against it.
func refusal(words string) *CannotError {
	line := words
	if at := strings.LastIndexByte(words, '\n'); at >= 0 {
		line = words[at+1:]
	}
	e := &CannotError{Why: "bubblewrap cannot start anything here: " + strings.TrimPrefix(line, "bwrap: ")}
	denied := strings.Contains(words, "ermission denied") || strings.Contains(words, "not permitted") || strings.Contains(words, "No permissions")
	switch {
	case !denied:
		e.Fix = "see what bwrap --ro-bind / / true says"
	case sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1":
		e.Fix = "AppArmor forbids it: as root write the three lines 'abi <abi/4.0>,' 'include <tunables/global>' " +
			"'profile bwrap /usr/bin/bwrap flags=(unconfined) { userns, }' to /etc/apparmor.d/bwrap, then run apparmor_parser -r /etc/apparmor.d/bwrap"
	case sysctl("kernel/unprivileged_userns_clone") == "0":
		e.Fix = "the system forbids user namespaces: as root run sysctl kernel.unprivileged_userns_clone=1"
	case sysctl("user/max_user_namespaces") == "0":
		e.Fix = "the system forbids user namespaces: as root run sysctl user.max_user_namespaces=15000"
	default:
		e.Fix = "in a container, start it with --security-opt seccomp=unconfined and --cap-add SYS_ADMIN, or let the container be the sandbox with --sandbox off"
	}
	return e
}

func sysctl(name string) string {
	b, err := os.ReadFile(filepath.Join("/proc/sys", name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// MakeTemp makes a folder for a command's temporary files below dir, "" for
// the system's. Its path is absolute.
func MakeTemp(dir string) (tmp string, err error) {
	if dir != "" {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		tmp, err = os.MkdirTemp(dir, "descartes-")
	}
	if err == nil {
		tmp, err = filepath.EvalSymlinks(tmp)
	}
	for _, dir := range below(tmp, []string{"tmp", "var"}) {
		if err == nil { // nobody else comes through the folder above
			err = errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777|os.ModeSticky))
		}
	}
	for end, text := range blanks {
		if err == nil {
			err = os.WriteFile(filepath.Join(tmp, "empty"+end), []byte(text), 0o444)
		}
	}
	if err != nil {
		return "", fmt.Errorf("make a folder for temporary files: %w", err)
	}
	return tmp, nil
}
