package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"descartes/internal/proc"
	"descartes/internal/terminal"
	"descartes/tasks"
)

func newDemoCmd() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a sample tag from end to end in a temporary repository",
		Long: `Run a sample tag from end to end in a temporary repository.

The graph, the specs, the processes, the verification and the commits are real; only the agent is a
script. One task needs a second attempt, one stays blocked. The repository is kept, to look at.
Needs git, and Go to build the sample.`,
		Args: takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := &demo{out: cmd.OutOrStdout(), errs: cmd.ErrOrStderr()}
			d.paint = terminal.Colours(terminal.IsTerminal(d.out))
			err := d.run(cmd.Context(), dir)
			if q := quiet(0); err == nil || d.project == "" || errors.As(err, &q) {
				return err
			}
			return &failure{code: exitError, err: err, hint: "what there is so far is kept in " + d.project}
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "use this folder, new or empty, instead of a temporary one")
	return cmd
}

// demo is one run of the demo.
type demo struct {
	out, errs io.Writer
	paint     terminal.Paint
	project   string // the repository
	agent     string // the command line of the script
}

func (d *demo) run(ctx context.Context, dir string) error {
	if err := d.prepare(ctx, dir); err != nil {
		return err
	}
	d.say("A new repository with a plan, ten tasks and no program yet. This is what there is to do:")
	if err := d.descartes(ctx, exitDone, "waves", "--tag", "tally"); err != nil {
		return err
	}
	d.say("Every attempt at a task is a fresh run of the agent, here a script. A task is done when the project",
		"builds and its tests pass. Tasks 4 and 6 are not done at the first attempt.")
	if err := d.descartes(ctx, exitBlocked, "run", "tally", "--plan", "plan.md", "--command", d.agent); err != nil {
		return err
	}
	if err := d.check(ctx); err != nil {
		return err
	}
	for _, show := range []func(context.Context) error{d.retry, d.result, d.blocked, d.end} {
		if err := show(ctx); err != nil {
			return err
		}
	}
	return nil
}

// retry shows what the second attempt at task 4 learned from the first, and the result.
func (d *demo) retry(ctx context.Context) error {
	d.say("Task 4 failed once. Its second agent was a new process that knew nothing of the first. Its spec said:")
	d.typed("descartes", "spec", "4", "--attempt", "2")
	var spec strings.Builder
	if code := run(ctx, []string{"spec", "4", "--attempt", "2"}, noInput(), &spec, d.errs); code != exitDone {
		return fmt.Errorf("the demo went wrong: descartes spec ended with exit status %d", code)
	}
	_, told, found := strings.Cut(spec.String(), "\n## The last attempt")
	told, _, whole := strings.Cut(told, "\nThe last words")
	if !found || !whole || !strings.Contains(told, "want 20") {
		return errors.New("the demo went wrong: the second spec of task 4 does not say how the first attempt failed")
	}
	fmt.Fprintf(d.out, "...\n## The last attempt%s...\n", told)
	d.say("That was enough. This is what agent and verification printed then:")
	return d.descartes(ctx, exitDone, "logs", "4")
}

func (d *demo) result(ctx context.Context) error {
	d.say("Seven tasks are done, so there is a program:")
	return d.other(ctx, "go", "run", "./cmd/tally", "plan.md")
}

func (d *demo) blocked(ctx context.Context) error {
	d.say("Task 6 failed three times. Its files are what they were before, and what its agents wrote is kept:")
	return d.descartes(ctx, exitDone, "attempts", "6")
}

func (d *demo) end(ctx context.Context) error {
	d.say("There is one commit per wave, and the working tree is clean:")
	if err := d.other(ctx, "git", "log", "--graph", "--oneline"); err != nil {
		return err
	}
	d.say("In short:")
	if err := d.descartes(ctx, exitDone, "status"); err != nil {
		return err
	}
	d.say("The loop ended with exit code 3, because tasks are blocked. To look around in it:")
	d.where("waves", "watch    # its live view", "serve    # the same in a browser")
	d.removes()
	return nil
}

// noInput is the input of the demo's commands: with nobody to type, their output stays on the screen as lines.
func noInput() io.Reader { return strings.NewReader("") }

// where says how to continue from here by hand.
func (d *demo) where(commands ...string) {
	fmt.Fprintf(d.out, "\n  cd %s\n", terminal.Quote(d.project))
	for _, c := range commands {
		fmt.Fprintf(d.out, "  %s %s\n", selfName(), c)
	}
}

// removes says how to remove what the demo leaves.
func (d *demo) removes() {
	fmt.Fprintf(d.out, "\n  rm -rf %s     # when you have seen enough\n", terminal.Quote(filepath.Dir(d.project)))
}

// prepare makes the repository and puts the agent beside it.
func (d *demo) prepare(ctx context.Context, dir string) error {
	for _, program := range []string{"git", "go"} {
		if _, err := proc.Look(program, "", os.Environ()); err != nil {
			return badInput("the demo commits with git and its sample is built with Go", "%s is not on PATH", program)
		}
	}
	dir, err := emptyFolder(dir)
	if err != nil {
		return badInput("", "--dir: %w", err)
	}
	d.project = filepath.Join(dir, "tally")
	script := filepath.Join(dir, "agent")
	d.agent = "sh " + terminal.Quote(filepath.Join(script, "agent.sh"))
	if err := errors.Join(installDemo("project", d.project), installDemo("agent", script)); err != nil {
		return fmt.Errorf("prepare the demo: %w", err)
	}
	if err := errors.Join(demoEnvironment(), os.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state")), os.Chdir(d.project)); err != nil {
		return fmt.Errorf("prepare the demo: %w", err)
	}
	for _, args := range [][]string{
		{"init", "-q"},
		{"symbolic-ref", "HEAD", "refs/heads/main"},
		{"config", "user.name", "Demo"},
		{"config", "user.email", "demo@example.org"},
		{"add", "-A"},
		{"commit", "-q", "-m", "plan tally"},
	} {
		if _, err := d.output(ctx, append([]string{"git"}, args...)...); err != nil {
			return fmt.Errorf("prepare the demo: %w", err)
		}
	}
	return nil
}

// demoEnvironment keeps the person's own git and Go settings out of the demo, and the demo off the network. Its caller keeps remembered quotas out of
// both.
func demoEnvironment() error {
	var errs []error
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "GIT_") || strings.HasPrefix(name, "DESCARTES_") {
			errs = append(errs, os.Unsetenv(name))
		}
	}
	for name, value := range map[string]string{
		"GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_NOSYSTEM": "1",
		"DESCARTES_SANDBOX": "off", // a script of ours
		"GO111MODULE":       "on", "GOWORK": "off", "GOPROXY": "off", "GOTOOLCHAIN": "local",
		// Like our own make: the standard library is then in the cache, which halves the time of a first demo.
		"GOFLAGS": "-mod=mod -trimpath", "CGO_ENABLED": "0",
	} {
		errs = append(errs, os.Setenv(name, value))
	}
	return errors.Join(errs...)
}

// check makes sure that the run ended as the surrounding texts say.
func (d *demo) check(ctx context.Context) error {
	f, err := tasks.Open(d.project, "tally")
	if err != nil {
		return err
	}
	for _, t := range f.Tasks() {
		want := tasks.Done
		switch t.ID {
		case "6":
			want = tasks.Blocked
		case "8", "10":
			want = tasks.Pending
		}
		if t.Status != want {
			return fmt.Errorf("the demo went wrong: task %s is %s, it should be %s", t.ID, t.Status, want)
		}
	}
	left, err := d.output(ctx, "git", "status", "--porcelain")
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("the demo went wrong: the working tree is not clean:\n%s", left)
	}
	return err
}

func (d *demo) say(lines ...string) {
	fmt.Fprintf(d.out, "\n%s\n", strings.Join(lines, "\n"))
}

func (d *demo) typed(args ...string) {
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = terminal.Quote(a)
	}
	fmt.Fprintf(d.out, "\n%s\n", d.paint.In(terminal.Bold, "$ "+strings.Join(words, " ")))
}

// descartes runs one of our own commands as if it had been typed.
func (d *demo) descartes(ctx context.Context, want int, args ...string) error {
	d.typed(append([]string{"descartes"}, args...)...)
	switch code := run(ctx, args, noInput(), d.out, d.errs); code {
	case want:
		return nil
	case exitInterrupted, exitTerminated:
		d.say("The demo stops here. Its repository is kept, and its loop can be resumed:")
		d.where("loop resume")
		d.removes()
		return quiet(code)
	default:
		return fmt.Errorf("the demo went wrong: descartes %s ended with exit status %d, it should be %d", strings.Join(args, " "), code, want)
	}
}

// other runs another program and shows what it prints.
func (d *demo) other(ctx context.Context, args ...string) error {
	d.typed(args...)
	out, err := d.output(ctx, args...)
	fmt.Fprint(d.out, terminal.CleanLines(string(out)))
	return err
}

func (d *demo) output(ctx context.Context, args ...string) ([]byte, error) {
	r, err := proc.Output(ctx, proc.Call{Argv: args, Dir: d.project, Env: os.Environ()})
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("%s: exit status %d: %s", strings.Join(args, " "), r.Code, strings.TrimSpace(string(r.Stderr)))
	}
	return r.Stdout, err
}

// selfName is what a person types to run this program: its bare name if PATH finds it.
func selfName() string {
	self, err := os.Executable()
	if err != nil {
		return "descartes"
	}
	if found, err := proc.Look("descartes", "", os.Environ()); err == nil {
		a, errA := os.Stat(found)
		b, errB := os.Stat(self)
		if errA == nil && errB == nil && os.SameFile(a, b) {
			return "descartes"
		}
	}
	return terminal.Quote(self)
}

// demoFiles holds the demo's project and its agent. Go files and go.mod have the suffix .txt, so that they belong to the demo's module and not to
// ours.
//
//go:embed all:demo
var demoFiles embed.FS

// installDemo copies one folder of demoFiles to dir.
func installDemo(from, dir string) error {
	root := path.Join("demo", from)
	return fs.WalkDir(demoFiles, root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(name, root)))
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		text, err := demoFiles.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(strings.TrimSuffix(to, ".txt"), text, 0o644)
	})
}

// emptyFolder makes dir, which must be missing or empty. Without a name it makes a temporary folder.
func emptyFolder(dir string) (string, error) {
	if dir == "" {
		tmp, err := os.MkdirTemp("", "descartes-demo-")
		if err != nil {
			return "", err
		}
		return filepath.EvalSymlinks(tmp)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("%s is not empty", dir)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}
