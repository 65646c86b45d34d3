package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"descartes/config"
	"descartes/internal/proc"
	"descartes/internal/terminal"
	"descartes/loop/source"
	"descartes/specbuild"
	"descartes/verify"
	"descartes/view"
)

func newSpecCmd() *cobra.Command {
	var a app
	var explain bool
	var attempt int
	cmd := &cobra.Command{
		Use:   "spec <task>",
		Short: "Print the exact prompt that a task's agent gets",
		Long: `Print the exact prompt that a task's agent gets.

Plan, spec files and limits come from the flags and from descartes.yaml, as for start; without
them, from the last run over the tag. From the second attempt on, the prompt has what that run
recorded of the attempt before.`,
		Args: takes(1, 1, "one task"),
		RunE: a.does(func(args []string) error {
			spec, err := a.spec(args[0], attempt)
			switch {
			case err != nil:
				return err
			case a.json:
				spec.Cut, spec.Sources = append([]string{}, spec.Cut...), append([]specbuild.Source{}, spec.Sources...)
				return a.show(spec, "")
			case explain:
				return a.print(explained(spec))
			}
			if spec.Over {
				a.warn(fmt.Sprintf("about %d tokens, over --max-spec-tokens %d", spec.Tokens,
					a.Scud.Spec.MaxSpecTokens))
			}
			if spec.Thin {
				a.warn("this spec is thin: the task has only a title, and no plan section is about it; give the task a description, or name a plan with --plan")
			}
			return write(&terminal.Writer{W: a.out()}, spec.Text) // as the agent gets it with --json
		}),
	}
	a.settings.register(cmd, func(one *config.Setting) bool { return one.Is("spec") })
	f := cmd.Flags()
	f.Lookup("tag").Usage = "tag of the task (default: the active one, or the only one)"
	f.IntVar(&attempt, "attempt", 0, "`number` of the attempt, as why lists it (default: the next one)")
	f.BoolVar(&explain, "explain", false, "print where each part came from instead")
	f.BoolVar(&a.json, "json", false, "print text and sources as JSON")
	return cmd
}

// spec builds the text of a task's next attempt, or of the one asked for. What neither flag nor file says is that of
// the tag's last loop.
func (a *app) spec(id string, attempt int) (spec specbuild.Spec, err error) {
	if attempt < 0 {
		return spec, badInput("", "--attempt %d: must be at least 1", attempt)
	}
	if _, err = a.load(); err != nil {
		return spec, err
	}
	if err = chooseSource(a.cmd.ErrOrStderr(), a.root, &a.Scud); err != nil {
		return spec, err
	}
	last, err := a.home.LastOf(source.Key(a.root, a.Scud))
	if err != nil {
		return spec, err
	}
	of := ""
	if last != nil {
		of = last.State.ID
		a.Adopt(last.State.Config, "completion_promise", "baseline", "verify", "scud.verification_command",
			"scud.plan_path", "scud.handoff_path", "scud.max_iterations_per_task",
			"scud.spec.spec_template", "scud.spec.additional_specs", "scud.spec.max_spec_tokens", "scud.spec.cut")
	}
	if a.Scud.VerificationCommand == "" && len(a.Checks) == 0 {
		a.Scud.VerificationCommand, _, _ = verify.Detect(a.root)
	}
	job, found := loads(a.root, a.Config)
	if len(found) > 0 {
		return spec, problems(found)
	}
	b, err := view.NewBoard(job)
	if err != nil {
		return spec, err
	}
	b.Here = fromHere(a.root, b.Scud.TasksFile)
	t, err := leaf(b, id)
	if err != nil {
		return spec, err
	}
	if _, own := b.Own(t.ID); own {
		return spec, badInput("descartes logs "+terminal.Quote(t.ID)+b.Named(),
			"task %s is a run's own: it is given what the run knows of %s while it works on it", t.ID, t.Title)
	}
	kept, err := a.kept(b.File)
	if err != nil {
		return spec, err
	}
	req, err := source.NextSpec(a.home, of, kept.List, t.ID, attempt, kept.Refs)
	if err != nil {
		return spec, err
	}
	return job.Spec(req)
}

// explained is a spec's source map: one line for each part.
func explained(spec specbuild.Spec) string {
	var s strings.Builder
	for _, src := range spec.Sources {
		fmt.Fprintf(&s, "%-12s %6d tokens", src.Part, src.Tokens)
		if src.File != "" {
			fmt.Fprintf(&s, "  %s", filepath.ToSlash(src.File))
			if src.FirstLine > 0 {
				fmt.Fprintf(&s, ":%d-%d", src.FirstLine, src.LastLine)
			}
		}
		if src.Rule != "" {
			fmt.Fprintf(&s, "  [%s]", src.Rule)
		}
		if len(src.Heading) > 0 {
			fmt.Fprintf(&s, "  %s", strings.Join(src.Heading, " > "))
		}
		s.WriteString("\n")
	}
	fmt.Fprintf(&s, "%-12s %6d tokens\n", "total", spec.Tokens)
	for _, c := range spec.Cut {
		fmt.Fprintf(&s, "left out: %s\n", c)
	}
	if spec.Over {
		s.WriteString("over the budget\n")
	}
	return terminal.CleanLines(s.String())
}

// edited lets a person change a text in their editor: $VISUAL, else $EDITOR, else vi. name is that of the
// file it is shown in. A text of which the editor says that it failed is not taken.
func edited(ctx context.Context, name, text string) (string, error) {
	line := cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"))
	if line == "" && !terminal.IsTerminal(os.Stdin) {
		return "", badInput("type the answer after the task", "--edit: there is no terminal for an editor")
	}
	line = cmp.Or(line, "vi")
	argv, err := config.SplitCommand("EDITOR", line)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "descartes-edit-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", err
	}
	code, err := proc.Attend(ctx, append(argv, path), "", nil)
	if err == nil && code != 0 {
		err = fmt.Errorf("exit status %d", code)
	}
	if err != nil {
		return "", badInput("set EDITOR to one that is installed", "editor %s: %w; nothing was changed", line, err)
	}
	b, err := os.ReadFile(path)
	return string(b), err
}
