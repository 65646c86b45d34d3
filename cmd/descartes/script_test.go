//go:build unix

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"descartes/internal/docs"
	"descartes/internal/proc"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == proc.ShimCommand { // under whatever name a sandbox starts it
		os.Exit(proc.Serve())
	}
	if strings.HasSuffix(os.Args[0], ".test") {
		// A suite started in the background or by nohup has these ignored, and its programs would have them so
		// too: what is caught here is as usual there.
		for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
			if signal.Ignored(s) {
				signal.Notify(make(chan os.Signal, 1), s)
			}
		}
	}
	testscript.Main(stateless{m}, map[string]func(){
		"descartes":       main,
		"fakeagent":       fakeAgent,
		"outside":         outside,
		"descartes-fleet": directFleet,
	})
}

// stateless keeps what tests learn of quotas away from the user's own loops, and what those know from the tests.
type stateless struct{ m *testing.M }

func (s stateless) Run() int {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("descartes-test-state-%d", os.Getpid()))
	os.Setenv("XDG_STATE_HOME", dir)
	defer os.RemoveAll(dir)
	if dir := inMemory(); dir != "" {
		defer os.RemoveAll(dir)
		os.Setenv("DISK", os.TempDir())
		os.Setenv("TMPDIR", dir)
	}
	return s.m.Run()
}

// inMemory makes a folder on a disk in memory, where programs may run and there is room for them: the repositories of
// the tests come to a million files, which take a real disk twice the time. It returns "" where there is none.
func inMemory() string {
	dir, err := os.MkdirTemp("/dev/shm", "descartes-test-")
	if err != nil {
		return ""
	}
	if exec.Command("sh", "-c",
		`cp /bin/true "$0" && "$0"/true && test "$(df -Pk "$0" | awk 'END { print $4 }')" -gt 1500000`,
		dir).Run() != nil {
		os.RemoveAll(dir)
		return ""
	}
	return dir
}

// TestScript runs the real program against real repositories; only the agent is scripted.
func TestScript(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "testdata", "script", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	runScripts(t, testscript.Params{
		Files:               files,
		UpdateScripts:       *docs.Update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               setupScript,
		Condition:           condition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":  codeCmd,
			"init":  initCmd,
			"clean": cleanCmd,
			"json":  jsonCmd,
			"await": awaitCmd,
			"lines": linesCmd,
			"junit": junitCmd,
			"job":   jobCmd,
			"typed": typedCmd,
		},
	})
}

// runScripts runs each script in a folder of its own: in memory, except where it tries the sandbox, which hides what
// is below /dev.
func runScripts(t *testing.T, p testscript.Params) {
	t.Helper()
	var sandboxed []string
	p.Files = slices.DeleteFunc(p.Files, func(file string) bool {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := bytes.Contains(text, []byte("sandbox]"))
		if found {
			sandboxed = append(sandboxed, file)
		}
		return found
	})
	testscript.Run(t, p)
	p.Files = sandboxed
	before := os.Getenv("GOTMPDIR") // where testscript makes its folders
	os.Setenv("GOTMPDIR", cmp.Or(os.Getenv("DISK"), before))
	testscript.Run(t, p)
	os.Setenv("GOTMPDIR", before)
}

// setupScript gives each script a home of its own and an author.
func setupScript(env *testscript.Env) error {
	env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
	env.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	env.Setenv("TERM", "dumb")
	// No program of a script lives long enough to want its garbage collected, which is a tenth of its time.
	env.Setenv("GOGC", "off")
	env.Setenv("GOMEMLIMIT", "256MiB")
	// Scripted agents write outside the repository, and scripts hand them variables of their own.
	env.Setenv("DESCARTES_SANDBOX", "off")
	// Many verify commands of scripts look for what the agents are to write.
	env.Setenv("DESCARTES_BASELINE", "off")
	env.Setenv("DESCARTES_TIMES", "false") // and lines of any length: a few scripts ask for both
	env.Setenv("DESCARTES_KEEP_AWAKE", "false")
	env.Setenv("COLUMNS", "1000")
	env.Setenv("DESCARTES_ENV_PASS", "AGENT,WORK,OUTSIDE,TEST_*,FAKE_*")
	libraries, err := filepath.Abs(filepath.Join("..", "..", "testdata"))
	if err != nil {
		return err
	}
	env.Setenv("BOTH", filepath.Join(libraries, "both.sh"))
	env.Setenv("SHAPES", filepath.Join(libraries, "shapes.sh"))
	env.Setenv("AGENT", filepath.Join(env.WorkDir, "agent"))
	config := "[user]\n\tname = Test\n\temail = test@example.org\n[init]\n\tdefaultBranch = main\n\ttemplateDir = ~/.template\n[advice]\n\tdetachedHead = false\n[maintenance]\n\tauto = false\n"
	// Repositories without git's dozen sample hooks.
	for _, dir := range []string{"hooks", "info"} {
		if err := os.MkdirAll(filepath.Join(env.WorkDir, "home", ".template", dir), 0o777); err != nil {
			return err
		}
	}
	if err := runErrands(env); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(env.WorkDir, "home", ".gitconfig"), []byte(config), 0o666)
}

// condition knows root, we are the superuser, and sandbox, bubblewrap is there and works.
func condition(name string) (bool, error) {
	switch name {
	case "root":
		return os.Geteuid() == 0, nil
	case "sandbox":
		return confines(), nil
	}
	return false, fmt.Errorf("unknown condition %s", name)
}

var confines = sync.OnceValue(func() bool {
	return exec.Command("bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid",
		"true").Run() == nil
})

// codeCmd is "code N program args": run it, and it must exit with N. -1 is the end by a signal.
func codeCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N program args...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var ee *exec.ExitError
		if !errors.As(err, &ee) {
			ts.Fatalf("%v", err)
		}
		got = ee.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// initCmd makes the current directory a repository that holds everything in it.
func initCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: init")
	}
	for _, a := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-q", "-m", "start"}} {
		ts.Check(ts.Exec("git", a...))
	}
}

// cleanCmd checks that git finds nothing changed and nothing broken.
func cleanCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: clean")
	}
	for _, a := range [][]string{{"status", "--porcelain"},
		// Without processes of their own for two kinds of file that nothing writes here.
		{"-c", "core.commitGraph=false", "-c", "core.multiPackIndex=false", "fsck", "--strict", "--no-dangling"}} {
		ts.Check(ts.Exec("git", a...))
		if out := ts.ReadFile("stdout") + ts.ReadFile("stderr"); out != "" {
			ts.Fatalf("git %s says:\n%s", strings.Join(a, " "), out)
		}
	}
}

// jsonCmd is "json FILE path value": the member at a path like tasks.0.id must be that JSON, or that text.
func jsonCmd(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: json FILE path value")
	}
	var v any
	d := json.NewDecoder(strings.NewReader(ts.ReadFile(args[0])))
	d.UseNumber()
	ts.Check(d.Decode(&v))
	for part := range strings.SplitSeq(args[1], ".") {
		switch x := v.(type) {
		case map[string]any:
			member, ok := x[part]
			if !ok {
				ts.Fatalf("%s: no member %q", args[1], part)
			}
			v = member
		case []any:
			i, err := strconv.Atoi(part)
			if part == "len" {
				v = json.Number(strconv.Itoa(len(x)))
			} else if err != nil || i >= len(x) {
				ts.Fatalf("%s: no element %q in %d", args[1], part, len(x))
			} else {
				v = x[i]
			}
		default:
			ts.Fatalf("%s: nothing below %v", args[1], v)
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	ts.Check(e.Encode(v))
	got := strings.TrimSpace(b.String())
	if text, ok := v.(string); ok && args[2] != got {
		got = text
	}
	if (got == args[2]) == neg {
		ts.Fatalf("%s is %s, want %s", args[1], got, args[2])
	}
}

// awaitCmd waits until a file exists.
func awaitCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await FILE")
	}
	ts.Check(await(ts.MkAbs(args[0])))
}

func await(path string) error {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s does not appear", path)
}

// linesCmd is "lines FILE N": the file has N lines.
func linesCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: lines FILE N")
	}
	if n := strings.Count(ts.ReadFile(args[0]), "\n"); strconv.Itoa(n) != args[1] {
		ts.Fatalf("%s has %d lines, want %s", args[0], n, args[1])
	}
}
