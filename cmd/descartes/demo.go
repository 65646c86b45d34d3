package main

import (
	"cmp"
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
			d := &demo{cmd: cmd, out: cmd.OutOrStdout(), self: os.Args[0]}
			if strings.ContainsRune(d.self, filepath.Separator) { // it is not on PATH, and we go elsewhere
				if abs, err := filepath.Abs(d.self); err == nil {
					d.self = terminal.Quote(abs)
				}
			}
			err := d.run(dir)
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
	cmd     *cobra.Command
	out     io.Writer
	self    string // how a person calls this program
	project string // the repository
	agent   string // the command line of the script
}

func (d *demo) run(dir string) error {
	if err := d.prepare(dir); err != nil {
		return err
	}
	for _, step := range []struct {
		says string
		want int
		args []string
	}{
		{"A new repository with a plan, ten tasks and no program yet. This is what there is to do:", exitDone,
			[]string{"descartes", "waves", "--tag", "tally"}},
		{"Every attempt at a task is a fresh run of the agent, here a script. A task is done when the project\nbuilds and its tests pass. Tasks 4 and 6 are not done at the first attempt.",
			exitBlocked, []string{"descartes", "run", "tally", "--plan", "plan.md", "--command", d.agent}},
		{"Task 4 failed once. Its second agent was a new process that knew nothing of the first. Its spec said:",
			exitDone, []string{"descartes", "spec", "4", "--attempt", "2"}},
		{"That was enough. This is what agent and verification printed then:", exitDone,
			[]string{"descartes", "logs", "4"}},
		{"Seven tasks are done, so there is a program:", exitDone, []string{"go", "run", "./cmd/tally", "plan.md"}},
		{"Task 6 failed three times. Its files are what they were before, and what its agents wrote is kept:",
			exitDone, []string{"descartes", "why", "6"}},
		{"There is one commit per wave, and the working tree is clean:", exitDone,
			[]string{"git", "log", "--graph", "--oneline"}},
		{"In short:", exitDone, []string{"descartes", "status"}},
	} {
		d.say(step.says)
		words := make([]string, len(step.args))
		for i, word := range step.args {
			words[i] = terminal.Quote(word)
		}
		d.say(terminal.Colours(terminal.IsTerminal(d.out)).In(terminal.Bold, "$ "+strings.Join(words, " ")))
		code, err := d.types(step.args)
		switch {
		case err != nil:
			return err
		case code == exitInterrupted, code == exitTerminated:
			d.say("The demo stops here. Its repository is kept, and its run can be resumed:")
			d.where("resume")
			return quiet(code)
		case code != step.want:
			return fmt.Errorf("the demo went wrong: %s ended with exit status %d, it should be %d",
				strings.Join(words, " "), code, step.want)
		}
	}
	d.say("Two tasks were left, as planned: blocked tasks are exit code 3. To look around:")
	d.where("waves", "watch    # its live view", "serve    # the same in a browser")
	return nil
}

// types runs a command as if it had been typed. A run is shown live at a terminal; of a spec only what is said of the
// last attempt.
func (d *demo) types(args []string) (int, error) {
	ctx, in := d.cmd.Context(), io.Reader(strings.NewReader(""))
	switch {
	case args[0] != "descartes":
		out, err := d.output(ctx, args...)
		fmt.Fprint(d.out, terminal.CleanLines(string(out)))
		return exitDone, err
	case args[1] == "spec":
		var spec strings.Builder
		code := run(ctx, args[1:], in, &spec, d.cmd.ErrOrStderr())
		_, told, _ := strings.Cut(spec.String(), "\n## The last attempt")
		told, _, _ = strings.Cut(told, "\nThe last words")
		fmt.Fprintf(d.out, "...\n## The last attempt%s...\n", told)
		return code, nil
	case args[1] == "run":
		in = d.cmd.InOrStdin()
	}
	return run(ctx, args[1:], in, d.out, d.cmd.ErrOrStderr()), nil
}

func (d *demo) say(text string) { fmt.Fprintf(d.out, "\n%s\n", text) }

// where says how to go on by hand, and how to remove what the demo leaves.
func (d *demo) where(commands ...string) {
	fmt.Fprintf(d.out, "\n  cd %s\n", terminal.Quote(d.project))
	for _, c := range commands {
		fmt.Fprintf(d.out, "  %s %s\n", d.self, c)
	}
	fmt.Fprintf(d.out, "\n  rm -rf %s     # when you have seen enough\n", terminal.Quote(filepath.Dir(d.project)))
}

// prepare makes the repository and puts the agent beside it.
func (d *demo) prepare(dir string) error {
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
	if err := errors.Join(demoEnvironment(), os.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state")),
		os.Chdir(d.project)); err != nil {
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
		if _, err := d.output(d.cmd.Context(), append([]string{"git"}, args...)...); err != nil {
			return fmt.Errorf("prepare the demo: %w", err)
		}
	}
	return nil
}

// demoEnvironment keeps the person's own git and Go settings out of the demo, and the demo off the network. Its caller
// keeps remembered quotas out of both.
func demoEnvironment() error {
	var errs []error
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "GIT_") ||
			strings.HasPrefix(name, "DESCARTES_") {
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

func (d *demo) output(ctx context.Context, args ...string) ([]byte, error) {
	r, err := proc.Output(ctx, proc.Call{Argv: args, Dir: d.project, Env: os.Environ()})
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("%s: exit status %d: %s", strings.Join(args, " "), r.Code,
			strings.TrimSpace(string(r.Stderr)))
	}
	return r.Stdout, err
}

// demoFiles holds the demo's project and its agent. Go files and go.mod have the suffix .txt, so that they belong to
// the demo's module and not to ours.
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
	var err error
	if dir == "" {
		dir, err = os.MkdirTemp("", "descartes-demo-")
	} else if err = os.MkdirAll(dir, 0o755); err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return "", err
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		return "", cmp.Or(err, fmt.Errorf("%s is not empty", dir))
	}
	return filepath.EvalSymlinks(dir)
}
