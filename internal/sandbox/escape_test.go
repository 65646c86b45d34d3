//go:build linux

package sandbox

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// escape is one way out that somebody may try. It counts as one where it prints escaped or changes what is guarded.
type escape struct {
	name   string
	script string   // for sh
	attack []string // for what no shell can do
	open   bool     // in auto, by decision: the network
}

func escapes(w *world) []escape {
	pid := strconv.Itoa(w.victim.Pid)
	secret := func(path string) string { return "grep -q SECRET " + path + " && echo " + escaped }
	return []escape{
		{name: "write outside of the tree", script: `echo x >"$HOME/.bashrc"; echo x >"$HOME/.profile"; mkdir "$HOME/.config/autostart"; mkdir -p "$HOME/.local/bin"
			mkdir -p "$HOME/.config/systemd/user" && echo x >"$HOME/.config/systemd/user/x.service"; systemctl --user daemon-reload && echo ` + escaped + `
			touch /etc/descartes-escaped /usr/bin/descartes-escaped /usr/local/bin/x && echo ` + escaped + `; echo x >>/etc/passwd && echo ` + escaped + `
			echo x >../other/file; echo x >../other/.git/config; rm -rf ../other`},
		{name: "the repository's settings, hooks and attributes", script: `echo x >.git/config; rm -f .git/config; chmod 777 .git/config; echo x >.git/hooks/pre-commit; rm -rf .git/hooks
			echo '* filter=x' >.git/info/attributes; rm -rf .git/info; echo x >.git/worktrees/b/gitdir; echo x >.git/worktrees/b/commondir
			echo x >.git/modules/sub/config; mv .git/modules/sub .git/modules/y; mv .git/modules .git/z
			git config core.hooksPath /tmp; git config --global core.hooksPath /tmp; git config core.fsmonitor true
			mv .git old && mkdir .git && echo x >.git/config && echo ` + escaped},
		{name: "what is ours and the user's in the tree", script: `echo x >.husky/pre-commit; mv .husky x; echo x >.scud/tasks/t.json; mv .scud x; rm -rf .scud
			echo x >.descartes/runs/r/events.ndjson; mv .descartes x; rm -rf .descartes`},
		{name: "a link out of the tree",
			script: `ln -s "$HOME" out; echo x >out/.bashrc; ln -s ../other/file f; echo x >f; rm out f`},
		{name: "a hard link to what is read-only",
			script: `ln .git/config c && echo x >c; ln "$HOME/.bashrc" b && echo x >b; ln ../other/file f && echo x >f`},
		{name: "a rename over what is read-only",
			script: `echo x >n; mv -f n .git/config; echo x >n; mv -f n "$HOME/.bashrc"; echo x >n; mv -f n .scud/tasks/t.json; rm -f n`},
		{name: "/proc/1/root", script: `echo x >/proc/1/root` + w.home + `/.bashrc; ` +
			secret("/proc/1/root"+w.home+"/.ssh/id_ed25519")},
		{name: "/proc of a process of the host", script: "ls /proc/" + pid + "/root && echo " + escaped +
			"; cat /proc/" + pid + "/environ && echo " + escaped},
		{name: "kill a process of the host", attack: []string{"kill", pid}},
		{name: "trace a process of the host", attack: []string{"ptrace", pid}},
		{name: "mount and make writable", attack: []string{"mount", "/", "/etc", w.home, w.project + "/.git/hooks",
			w.project + "/.scud", "/proc/sys"}},
		{name: "mount in a user namespace", script: `unshare -Urm sh -c 'for d in / /etc "$HOME" .git/hooks .scud "$HOME/.ssh"; do mount -o remount,bind,rw $d $d; umount -l $d; done
			echo x >.git/hooks/x; echo x >"$HOME/.bashrc"; echo x >.scud/x; grep -q SECRET "$HOME/.ssh/id_ed25519" && echo ` + escaped + `'`},
		{name: "chroot and back", attack: []string{"chroot", w.home + "/.bashrc", w.home + "/.ssh/id_ed25519"}},
		{name: "the disk by a device", attack: []string{"mknod"}},
		{name: "a file by its handle", attack: []string{"handle"}},
		{name: "a program with another's rights",
			script: "su -c id nobody </dev/null 2>&1 | grep -q 'uid=0' && [ $(id -u) != 0 ] && echo " + escaped +
				"; sudo -n true 2>/dev/null && [ $(id -u) != 0 ] && echo " + escaped +
				"; grep -q 'NoNewPrivs:.1' /proc/self/status || echo " + escaped},
		{name: "the kernel's switches", attack: []string{"kernel"}},
		{name: "docker's socket", attack: []string{"connect", "unix", w.home + "/.docker/run/docker.sock"}},
		{name: "docker's socket of the system", attack: []string{"connect", "unix", "/var/run/docker.sock"}},
		{name: "the ssh agent", attack: []string{"connect", "unix", "../aside/agent.sock"}},
		{name: "the session bus", script: `[ -n "$DBUS_SESSION_BUS_ADDRESS$SSH_AUTH_SOCK$XDG_RUNTIME_DIR" ] && echo ` +
			escaped + "; ls /run/user/* /run/dbus 2>/dev/null | grep -q . && echo " + escaped},
		{name: "an abstract socket", attack: []string{"connect", "unix", w.abstract}, open: true},
		{name: "a service of this machine", attack: []string{"connect", "tcp", w.tcp.Addr().String()}, open: true},
		{name: "the wide network", attack: []string{"connect", "tcp", "192.0.2.1:443"}, open: true},
		{name: "a name server", attack: []string{"connect", "tcp", "192.0.2.53:53"}, open: true},
		{name: "logins in the way of others",
			script: `cd "$HOME/.cache" && mv huggingface h && cat h/token; mv h huggingface; cd "$HOME/.gradle" && rm -f gradle.properties; cat gradle.properties | grep SECRET && echo ` + escaped},
		{name: "environment of the parents", attack: []string{"environ", "SECRET-of-the-host"}},
		{name: "the terminal", attack: []string{"terminal"}},
		{name: "the log's earlier bytes", attack: []string{"log"}},
		{name: "the prompt's file", attack: []string{"prompt"}},
		{name: "descriptors left open", attack: []string{"descriptors", w.home + "/.ssh/id_ed25519"}},
		{name: "crontab and at", script: "echo '* * * * * true' | crontab - && echo " + escaped +
			"; echo true | at now && echo " + escaped + "; echo x >/etc/cron.d/x && echo " + escaped +
			"; touch /var/spool/cron/x && echo " + escaped},
		{name: "another TMPDIR",
			script: `TMPDIR="$HOME"; export TMPDIR; f=$(mktemp) && echo x >$f; TMPDIR=../other; g=$(mktemp) && echo x >$g; TMPDIR=.git/hooks; h=$(mktemp) && echo x >$h`},
		{name: "a process that stays",
			script: "(setsid sh -c 'sleep 2; echo x >../other/file; touch escaped' &) ; setsid sleep 60 & true"},
		{name: "limits of others", script: "mkdir /sys/fs/cgroup/x /sys/fs/cgroup/memory/x && echo " + escaped +
			"; renice -n -5 -p " + pid + " && echo " + escaped},
	}
}

// TestEscapes tries each way in both modes. In auto the network is open, and nothing else.
func TestEscapes(t *testing.T) {
	for _, mode := range []Mode{Auto, Strict} {
		t.Run(string(mode), func(t *testing.T) {
			w := newWorld(t, mode)
			if w == nil {
				return
			}
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			list := escapes(w)
			before := w.guarded()
			passwd := hostFiles(t)
			for _, e := range list {
				argv := []string{"sh", "-c", e.script}
				if e.attack != nil {
					argv = append([]string{self, "__attack"}, e.attack...)
				}
				exit, text := w.run(argv...)
				if e.attack != nil && (exit.Code != 0 || exit.Signal != 0) {
					t.Errorf("%s: it was not tried: %v\n%s", e.name, exit, text)
				}
				if got, want := strings.Contains(text, escaped), e.open && mode == Auto; got && !want {
					t.Errorf("%s: it got out:\n%s", e.name, text)
				}
				if after := w.guarded(); !maps.Equal(before, after) {
					t.Errorf("%s: it changed %v\n%s", e.name, changed(before, after), text)
					before = after
				}
			}
			if err := w.victim.Signal(syscall.Signal(0)); err != nil {
				t.Errorf("a process of the host is gone: %v", err)
			}
			if got := hostFiles(t); got != passwd {
				t.Errorf("files of the system were changed: %q, were %q", got, passwd)
			}
			t.Logf("%d ways tried in %s", len(list), mode)
		})
	}
}

func changed(a, b map[string]string) (list []string) {
	for name := range a {
		if a[name] != b[name] {
			list = append(list, name)
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			list = append(list, "+"+name)
		}
	}
	slices.Sort(list)
	return list
}

// hostFiles are a few of those that break a machine.
func hostFiles(t *testing.T) (out string) {
	t.Helper()
	for _, name := range []string{"/etc/passwd", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Log(err)
		}
		out += string(b)
	}
	return out
}
