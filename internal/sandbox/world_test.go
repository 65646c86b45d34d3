//go:build linux

package sandbox

import (
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"descartes/agent/process"
	"descartes/internal/plainfile"
	"descartes/internal/proc"
)

// world is a home, a project, somebody else's repository and some services, outside of /tmp if that can be, and a shim
// to run commands in a sandbox of them.
type world struct {
	tb                                testing.TB
	base, home, project, other, aside string
	agent                             string
	tcp                               net.Listener
	abstract                          string
	victim                            *os.Process // of the host
	proxy                             *Proxy
	shim                              *proc.Shim
	box                               *Box
	runs                              int
}

// newWorld is nil where this machine has no sandbox, which the test's log then says.
func newWorld(tb testing.TB, mode Mode) *world {
	tb.Helper()
	base, err := os.MkdirTemp(".", ".world-")
	if err != nil {
		base = tb.TempDir()
	}
	if base, err = filepath.Abs(base); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = plainfile.RemoveAll(base) })
	w := &world{tb: tb, base: base, home: base + "/home", project: base + "/project", other: base + "/other",
		aside: base + "/aside", agent: "claude"}
	for _, repo := range []string{w.project, w.other} {
		for _, file := range []string{"hooks/pre-commit.sample", "info/exclude", "info/attributes", "objects/x",
			"refs/x", "index", "config", "modules/sub/config",
			"modules/sub/HEAD", "modules/sub/hooks/x", "worktrees/b/gitdir"} {
			w.write(repo+"/.git/"+file, "[core]\n")
		}
		w.write(repo+"/.git/HEAD", "ref: refs/heads/main\n")
		w.write(repo+"/file", "text\n")
	}
	w.write(w.project+"/.husky/pre-commit", "#!/bin/sh\n")
	w.write(w.project+"/.scud/tasks/t.json", "{}\n")
	w.write(w.project+"/.descartes/runs/r/events.ndjson", "{}\n")
	for _, file := range []string{".ssh/id_ed25519", ".aws/credentials", ".netrc", ".config/gh/hosts.yml",
		".gnupg/key", ".npmrc", ".kube/config", ".docker/config.json"} {
		w.write(w.home+"/"+file, "SECRET\n")
	}
	for _, file := range logins() {
		w.write(w.home+"/"+file, "SECRET\n")
	}
	w.write(w.home+"/.gradle/caches/x", "x\n")
	w.write(w.home+"/.bashrc", "# mine\n")
	w.write(w.home+"/.claude/settings.json", "{}\n")
	w.write(w.home+"/.cache/x", "x\n")
	w.write(w.base+"/prompt", "the prompt\n")
	w.services()
	w.start(mode)
	if _, err := w.box.Probe(tb.Context()); err != nil {
		tb.Logf("no sandbox on this machine: %v", err)
		return nil
	}
	return w
}

func (w *world) write(path, text string) {
	w.tb.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.tb.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.tb.Fatal(err)
	}
}

// services are what a machine has: ports, sockets, processes.
func (w *world) services() {
	w.abstract = "@descartes-test-" + rand.Text()
	for _, s := range []struct{ network, at string }{{"tcp", "127.0.0.1:0"}, {"unix", w.abstract}} {
		l, err := net.Listen(s.network, s.at)
		if err != nil {
			w.tb.Fatal(err)
		}
		w.tb.Cleanup(func() { l.Close() })
		if s.network == "tcp" {
			w.tcp = l
		}
	}
	w.socket(w.home + "/.docker/run/docker.sock")
	w.socket(w.aside + "/agent.sock")
	victim, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "sleep 1000"},
		&os.ProcAttr{Env: []string{"MINE=SECRET-of-the-host"}, Sys: &syscall.SysProcAttr{Setpgid: true}})
	if err != nil {
		w.tb.Fatal(err)
	}
	w.victim = victim
	w.tb.Cleanup(func() { _ = syscall.Kill(-victim.Pid, syscall.SIGKILL); _, _ = victim.Wait() })
}

// socket listens at a path that may be too long for one.
func (w *world) socket(path string) {
	w.write(path+".d/x", "")
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		w.tb.Fatal(err)
	}
	defer dir.Close()
	l, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
	if err != nil {
		w.tb.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	w.tb.Cleanup(func() { l.Close() })
}

func (w *world) env() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.home, "SSH_AUTH_SOCK=" + w.aside + "/agent.sock",
		"GORACE=atexit_sleep_ms=0"} // under the race detector every process sleeps a second before it exits
}

func (w *world) config(mode Mode) Config {
	self, err := os.Executable()
	if err != nil {
		w.tb.Fatal(err)
	}
	c := Config{Mode: mode, Root: w.project, Top: w.project, Env: w.env(), Agent: w.agent, Program: self, Self: self,
		UID: os.Geteuid(), Cache: w.base + "/tmp/cache", Keep: []string{w.project + "/.husky"}}
	if path, err := proc.Look("bwrap", "/", os.Environ()); err == nil {
		c.Bwrap = path
	}
	if dir := w.base + "/tmp/layers"; c.LayersCaches(w.tb.Context(), dir+"/probe") {
		c.CacheLayers = dir
	}
	return c
}

func (w *world) start(mode Mode) {
	c := w.config(mode)
	var err error
	if mode == Strict {
		if w.proxy, err = StartProxy([]string{"allowed.test", "*.below.test"}); err != nil {
			w.tb.Fatal(err)
		}
		w.tb.Cleanup(func() { _ = w.proxy.Close() })
		c.Socket = w.proxy.Socket()
	}
	if w.box, err = New(c); err != nil {
		w.tb.Fatal(err)
	}
	if c.Bwrap != "" {
		if c.Userns, err = w.box.Probe(w.tb.Context()); err == nil && c.Userns {
			w.box.c.Userns = true
		}
	}
	if w.shim, err = proc.Start(proc.ShimConfig{Argv: []string{c.Self, proc.ShimCommand}, Env: w.env(),
		Cookie: rand.Text()}); err != nil {
		w.tb.Fatal(err)
	}
	w.tb.Cleanup(func() { _ = w.shim.Close() })
}

// use makes the sandbox one of another configuration.
func (w *world) use(c Config) {
	w.tb.Helper()
	c.Userns = w.box.c.Userns
	var err error
	if w.box, err = New(c); err != nil {
		w.tb.Fatal(err)
	}
}

// run runs a program inside and returns how it ended and all that is in its log.
func (w *world) run(argv ...string) (process.Exit, string) {
	w.tb.Helper()
	tmp, err := MakeTemp(w.base + "/tmp")
	if err != nil {
		w.tb.Fatal(err)
	}
	defer func() {
		if err := plainfile.RemoveAll(tmp); err != nil {
			w.tb.Error(err)
		}
	}()
	w.runs++
	log, in := fmt.Sprintf("%s/log-%d", w.base, w.runs), w.base+"/prompt"
	w.write(log, "earlier\n")
	w.write(in, "the prompt\n")
	e, err := w.shim.Run(context.Background(), process.Command{Label: "x", Argv: argv, Dir: w.project, Stdin: in,
		Stdout: log, Stderr: log, Limits: w.box.Limits(tmp)})
	if err != nil {
		w.tb.Fatal(err)
	}
	b, err := os.ReadFile(log)
	if err != nil {
		w.tb.Fatal(err)
	}
	if given, err := os.ReadFile(in); err != nil || string(given) != "the prompt\n" {
		w.tb.Errorf("the prompt was changed: %q, %v", given, err)
	}
	text, ok := strings.CutPrefix(string(b), "earlier\n")
	if !ok {
		w.tb.Errorf("what was in the log is not any more: %q", b)
	}
	return e, text
}

// guarded is what no run may change: all but the working tree and the agent's own.
func (w *world) guarded() map[string]string {
	w.tb.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(w.base, func(path string, d fs.DirEntry, err error) error {
		rel := strings.TrimPrefix(path, w.base+"/")
		if rel == "tmp/layers" { // what the kernel makes there nobody can read
			return fs.SkipDir
		}
		if err != nil {
			return err
		}
		open := strings.HasPrefix(rel, "log-") || strings.HasPrefix(rel, "tmp") || rel == "." || rel == w.base
		if inside, ok := strings.CutPrefix(rel, "project/"); ok {
			open = !strings.HasPrefix(inside, ".scud") && !strings.HasPrefix(inside, ".descartes") &&
				!strings.HasPrefix(inside, ".husky") && !strings.HasPrefix(inside, ".git")
		}
		if open || strings.HasPrefix(rel, "home/.claude") {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := ""
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = string(b)
		}
		out[rel] = fmt.Sprint(info.Mode(), " ", text)
		return nil
	})
	if err != nil {
		w.tb.Fatal(err)
	}
	return out
}
