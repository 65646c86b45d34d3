//go:build linux

package sandbox

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"descartes/agent/process"
	"descartes/internal/proc"
)

var profileRule = regexp.MustCompile(`^\((allow|deny) ([a-z*][a-z* -]*[a-z*])(?: \((.*)\))?\)$`)

// permits evaluates a profile as macOS does: of the rules for an operation whose place fits, the last one decides.
// Filters of other kinds than places fit nothing.
func permits(t *testing.T, profile, op, path string) bool {
	t.Helper()
	allowed := false
	for line := range strings.Lines(profile) {
		line = strings.TrimSpace(line)
		if line == "(version 1)" {
			continue
		}
		m := profileRule.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("no rule: %s", line)
		}
		named := slices.ContainsFunc(strings.Fields(m[2]), func(f string) bool {
			family, all := strings.CutSuffix(f, "*")
			return f == "default" || f == op || all && strings.HasPrefix(op, family)
		})
		if named && fits(t, m[3], path) {
			allowed = m[1] == "allow"
		}
	}
	return allowed
}

func fits(t *testing.T, filter, path string) bool {
	t.Helper()
	if filter == "" {
		return true
	}
	fitting := false
	for _, m := range regexp.MustCompile(`(subpath|literal|regex) (#?"(?:[^"\\]|\\.)*")`).FindAllStringSubmatch(filter,
		-1) {
		if m[1] == "regex" {
			fitting = fitting || regexp.MustCompile(strings.Trim(m[2], `#"`)).MatchString(path)
			continue
		}
		place, err := strconv.Unquote(m[2])
		if err != nil {
			t.Fatalf("%s: %v", m[2], err)
		}
		fitting = fitting || path == place || m[1] == "subpath" && within(path, place)
	}
	return fitting
}

// belt is a home and a project with what a profile is about, outside of /tmp if that can be.
func belt(t *testing.T) (home, project string) {
	t.Helper()
	base, err := os.MkdirTemp(".", ".belt-")
	if err != nil {
		base = t.TempDir()
	}
	if base, err = filepath.Abs(base); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	home, project = filepath.Join(base, "home"), filepath.Join(base, `pro "ject`)
	for _, file := range []string{home + "/.ssh/id", home + "/.bashrc", home + "/Library/Caches/go-build/x",
		home + "/Library/Keychains/login.keychain-db",
		home + "/Library/LaunchAgents/x.plist", home + "/.claude/settings.json", home + "/.codex/auth.json",
		home + "/notes/x", project + "/file", project + "/.git/config",
		project + "/.git/HEAD", project + "/.git/hooks/pre-commit", project + "/.scud/tasks/t.json",
		home + "/.local/state/descartes/pool/p/1/tree/file",
		home + "/.local/state/descartes/pool/p/1/tree/.scud/tasks/t.json",
		project + "/descartes.yaml", project + "/.env"} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("ref: refs/heads/main\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return home, project
}

// A profile allows and forbids what the mounts of bubblewrap do: each row is an operation on a place, in the home (~)
// or the project.
func TestProfile(t *testing.T) {
	t.Parallel()
	home, project := belt(t)
	const tmp, pool = "/private/tmp/descartes-1", "~/.local/state/descartes/pool/p/"
	slot := Slot{Tree: home + "/.local/state/descartes/pool/p/1/tree",
		Objects: map[string]string{home + "/.local/state/descartes/pool/p/objects": project + "/.git/objects"}}
	for _, test := range []struct {
		name       string
		c          Config
		yes, no    string // operation and place, comma-separated
		text, none string // lines that the profile has, and has not
	}{
		{name: "auto", c: Config{Mode: Auto},
			yes: "file-read-data file,file-write-data file,file-write-create new,file-link file,file-read-data .git/HEAD,file-read-data ~/.bashrc,file-read-data .git/config," +
				"file-write-data ~/Library/Caches/go-build/x,file-write-data ~/.claude/settings.json,file-read-data ~/Library/Keychains/login.keychain-db,file-read-data /usr/bin/true," +
				"file-write-data /dev/null,file-write-create /private/tmp/x,network-outbound /private/var/run/mDNSResponder,file-read-data .scud/tasks/t.json",
			no: "file-write-data ~/.bashrc,file-link ~/.bashrc,file-read-data ~/.ssh/id,file-link ~/.ssh/id,file-write-create ~/.ssh/new,file-read-data ~/.codex/auth.json," +
				"file-write-data .git/config,file-write-data .git/HEAD,file-write-unlink .git/config,file-write-create .git/hooks/x,file-write-data .scud/tasks/t.json,file-write-unlink .scud,file-write-unlink .git," +
				"file-write-data descartes.yaml,file-write-create ~/Library/LaunchAgents/y.plist,appleevent-send /,lsopen /,job-creation /,signal /,process-info-pidinfo /," +
				"file-write-create /usr/local/bin/x,file-write-unlink .",
			text: "(allow signal (target same-sandbox))", none: "(deny network*)"},
		{name: "strict", c: Config{Mode: Strict, Socket: "/private/var/folders/p.sock"},
			yes: "file-read-data file,file-write-data file,file-read-data ~/.claude/settings.json,file-read-data /usr/bin/true,network-outbound /private/var/folders/p.sock," +
				"file-write-create " + tmp + "/tmp/x,file-read-data " + tmp + "/tmp/x",
			no: "file-read-data ~/.bashrc,file-read-data ~/notes/x,file-write-data ~/Library/Caches/go-build/x,file-read-data /Users/other/x,file-read-data /private/tmp/x," +
				"file-write-create /private/tmp/x,network-outbound /private/var/run/docker.sock,network-outbound /private/var/run/mDNSResponder",
			text: `(allow network-outbound (remote ip "localhost:*"))`},
		{name: "verify", c: Config{Mode: Auto, Role: Verify}, yes: "file-write-data file",
			no: "file-read-data ~/.claude/settings.json,file-read-data ~/Library/Keychains/login.keychain-db"},
		{name: "reads", c: Config{Mode: Auto, Reads: true}, yes: "file-read-data file,file-read-data .git/HEAD",
			no: "file-write-data file,file-write-create new,file-write-data .git/HEAD,file-link file"},
		{name: "slot", c: Config{Mode: Auto, Slot: slot},
			yes: "file-write-data " + pool + "1/tree/file,file-read-data file,file-read-data " + pool +
				"1/tree/.scud/tasks/t.json,file-read-data " + pool + "objects",
			no: "file-write-data file,file-write-data .git/HEAD,file-write-create " + pool + "2,file-read-data " +
				pool + "2/tree/x,file-write-data " + pool + "1/tree/.scud/tasks/t.json,file-write-unlink " + pool +
				"1/tree"},
		{name: "named", c: Config{Mode: Auto, Write: []string{home + "/notes"}, Read: []string{home + "/.ssh"}},
			yes: "file-write-data ~/notes/x,file-read-data ~/.ssh/id", no: "file-write-data ~/.ssh/id"},
	} {
		c := test.c
		c.Root, c.Top, c.Env, c.Agent, c.UID, c.Seatbelt, c.Self = project, project,
			[]string{"HOME=" + home, "PATH=/usr/bin"}, "claude", 1000, SandboxExec, "/usr/local/bin/descartes"
		box, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		profile := box.Profile(tmp)
		for want, rows := range map[bool]string{true: test.yes, false: test.no} {
			for row := range strings.SplitSeq(rows, ",") {
				op, path, _ := strings.Cut(row, " ")
				if rest, ok := strings.CutPrefix(path, "~"); ok {
					path = home + rest
				} else if !filepath.IsAbs(path) {
					path = filepath.Join(project, path)
				}
				if permits(t, profile, op, path) != want {
					t.Errorf("%s: %s is %v, want %v, in\n%s", test.name, row, !want, want, profile)
				}
			}
		}
		if !strings.Contains(profile, test.text) || test.none != "" && strings.Contains(profile, test.none) {
			t.Errorf("%s: want %q and not %q in\n%s", test.name, test.text, test.none, profile)
		}
	}
}

// Through sandbox-exec, here a script that checks how it is called, how a command ends, what it prints and what it
// reads come through, and its variables lead to its own folder. A copy of the project is worked in where it lies.
func TestSeatbeltRuns(t *testing.T) {
	t.Parallel()
	home, project := belt(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	fake := filepath.Join(home, "sandbox-exec")
	if err := os.WriteFile(fake, []byte(`#!/bin/sh
test "$1" = -p && test "$3" = -- || { echo "sandbox-exec: wrong arguments" >&2; exit 64; }
case $2 in '(version 1)'*) ;; *) echo "sandbox-exec: no profile" >&2; exit 65 ;; esac
shift 3
exec "$@"
`), 0o755); err != nil {
		t.Fatal(err)
	}
	box, err := New(Config{Mode: Auto, Root: project, Top: project,
		Env: []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}, Agent: "claude", UID: 1000, Seatbelt: fake,
		Self: exe})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := box.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	shim, err := proc.Start(proc.ShimConfig{Argv: []string{exe, proc.ShimCommand},
		Env: append(os.Environ(), "SSH_AUTH_SOCK=/x", "TEMP=/x")})
	if err != nil {
		t.Fatal(err)
	}
	defer shim.Close()
	for _, test := range []struct {
		script, out string
		exit        process.Exit
	}{
		{"cat; echo ${SSH_AUTH_SOCK-none} ${TEMP-none}; test -d $TMPDIR && : >$TMPDIR/x", "input\nnone none\n",
			process.Exit{Why: process.Exited}},
		{"echo out; echo err >&2; exit 65", "out\nerr\n", process.Exit{Why: process.Exited, Code: 65}},
		{"kill -KILL $$", "", process.Exit{Why: process.Signaled, Signal: 9}},
	} {
		tmp, err := MakeTemp(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		in, out := filepath.Join(tmp, "in"), filepath.Join(tmp, "out")
		if err := os.WriteFile(in, []byte("input\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		exit, err := shim.Run(t.Context(), process.Command{Argv: []string{"sh", "-c", test.script}, Dir: project,
			Stdin: in, Stdout: out, Stderr: out, Limits: box.Limits(tmp)})
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(out)
		if err != nil || string(text) != test.out || exit.Why != test.exit.Why || exit.Code != test.exit.Code ||
			exit.Signal != test.exit.Signal {
			t.Errorf("%s: %v, %+v, printed %q", test.script, err, exit, text)
		}
	}
}

// A sandbox-exec that cannot start anything is no sandbox, and its own words say why.
func TestSeatbeltRefuses(t *testing.T) {
	t.Parallel()
	home, project := belt(t)
	fake := filepath.Join(home, "sandbox-exec")
	if err := os.WriteFile(fake,
		[]byte("#!/bin/sh\necho 'sandbox-exec: sandbox_apply: Operation not permitted' >&2\nexit 71\n"),
		0o755); err != nil {
		t.Fatal(err)
	}
	box, err := New(Config{Mode: Auto, Root: project, Top: project,
		Env: []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}, UID: 1000, Seatbelt: fake})
	if err != nil {
		t.Fatal(err)
	}
	_, err = box.Probe(t.Context())
	if want := "sandbox-exec cannot start anything here: sandbox_apply: Operation not permitted"; err == nil ||
		err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	for system, want := range map[string]string{"darwin": "sandbox-exec", "linux": "bubblewrap"} {
		if e := lacking(system); !strings.Contains(e.Why, want) || e.Fix == "" {
			t.Errorf("%s: %s; %s", system, e.Why, e.Fix)
		}
	}
}
