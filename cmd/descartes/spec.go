package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"descartes/gitops"
	"descartes/internal/config"
	"descartes/internal/proc"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/store"
	"descartes/specbuild"
	"descartes/view"
)

func newSpecCmd() *cobra.Command {
	s := &settings{}
	var explain, asJSON bool
	var attempt int
	cmd := &cobra.Command{
		Use:   "spec <task>",
		Short: "Print the exact prompt that a task's agent gets",
		Long: `Print the exact prompt that a task's agent gets.

Plan, spec files and limits come from the flags and from descartes.yaml, as for loop start; without
them, from the last loop over the tag. From the second attempt on, the prompt has what that loop
recorded of the attempt before.`,
		Args: takes(1, 1, "one task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := s.spec(cmd, args[0], attempt)
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			switch {
			case asJSON:
				return writeJSON(w, jsonOf(spec))
			case explain:
				return write(w, explained(spec))
			}
			if spec.Over {
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: about %d tokens, over --max-spec-tokens %d\n", spec.Tokens, s.Scud.Spec.MaxSpecTokens)
			}
			if spec.Thin {
				fmt.Fprintln(cmd.ErrOrStderr(), "warning: this spec is thin: the task has only a title, and no plan section is about it")
				fmt.Fprintln(cmd.ErrOrStderr(), "hint: give the task a description, or name a plan that has a section about it with --plan")
			}
			return write(&terminal.Writer{W: w}, spec.Text) // as the agent gets it with --json
		},
	}
	s.registerSource(cmd)
	f := cmd.Flags()
	f.IntVar(&attempt, "attempt", 0, "`number` of the attempt, as attempts lists it (default: the next one)")
	f.BoolVar(&explain, "explain", false, "print where each part came from instead")
	f.BoolVar(&asJSON, "json", false, "print text and sources as JSON")
	return cmd
}

// specSource is what specs are made of: a tag, and what its last loop knows.
type specSource struct {
	home store.Home
	last *store.Saved // the tag's last loop; nil if there was none
	job  *loop.Job
	refs []gitops.Ref // the attempts of all loops
	*view.Board
}

// specSource reads the tag, with what neither flag nor file says taken from its last loop.
func (s *settings) specSource(cmd *cobra.Command) (*specSource, error) {
	root, err := s.load()
	if err != nil {
		return nil, err
	}
	if err := chooseSource(cmd.ErrOrStderr(), root, &s.Scud); err != nil {
		return nil, err
	}
	src := &specSource{home: store.NewHome(root)}
	if src.last, err = src.home.LastOf(s.Scud.Tag); err != nil {
		return nil, err
	}
	if src.last != nil {
		s.Adopt(src.last.State.Config, "completion_promise", "baseline", "verify", "scud.verification_command", "scud.plan_path", "scud.handoff_path", "scud.max_iterations_per_task",
			"scud.spec.spec_template", "scud.spec.additional_specs", "scud.spec.max_spec_tokens", "scud.spec.cut")
	}
	if s.Scud.VerificationCommand == "" && len(s.Checks) == 0 {
		s.Scud.VerificationCommand, _, _ = detect(root)
	}
	var found []loop.Problem
	if src.job, found = loop.Load(root, s.Config); len(found) > 0 {
		return nil, problems(found)
	}
	if src.refs, err = keptRefs(cmd.Context(), root); err != nil {
		return nil, err
	}
	src.Board, err = view.NewBoard(src.job)
	if err == nil {
		src.Here = fromHere(root, src.Scud.TasksFile)
	}
	return src, err
}

// keptRefs are those of a repository, if there is one.
func keptRefs(ctx context.Context, root string) ([]gitops.Ref, error) {
	repo, err := openRepo(ctx, root, nil)
	if err != nil {
		return nil, nil // nothing is kept outside a repository
	}
	defer repo.Close()
	return repo.Refs(ctx, "refs/descartes/")
}

// registerSource binds the flags that say what specs are made of.
func (s *settings) registerSource(cmd *cobra.Command) {
	s.register(cmd, func(one *config.Setting) bool { return one.Is("spec") })
	cmd.Flags().Lookup("tag").Usage = "tag of the task (default: the active one, or the only one)"
}

// spec builds the text of a task's next attempt, or of the one asked for.
func (s *settings) spec(cmd *cobra.Command, id string, attempt int) (specbuild.Spec, error) {
	var none specbuild.Spec
	src, err := s.specSource(cmd)
	if err != nil {
		return none, err
	}
	t, err := leaf(src.Board, id)
	if err != nil {
		return none, err
	}
	if attempt < 0 {
		return none, badInput("", "--attempt %d: must be at least 1", attempt)
	}
	last := ""
	if src.last != nil {
		last = src.last.State.ID
	}
	req, err := loop.NextSpec(src.home, last, src.File.Tag(), t.ID, attempt, src.refs)
	if err != nil {
		return none, err
	}
	return src.job.Spec(req)
}

// explained is a spec's source map: one line for each part.
func explained(spec specbuild.Spec) string {
	var s strings.Builder
	for _, src := range spec.Sources {
		fmt.Fprintf(&s, "%-12s %6d tokens", src.Part, src.Tokens)
		if src.File != "" {
			fmt.Fprintf(&s, "  %s", terminal.Clean(filepath.ToSlash(src.File)))
			if src.FirstLine > 0 {
				fmt.Fprintf(&s, ":%d-%d", src.FirstLine, src.LastLine)
			}
		}
		if src.Rule != "" {
			fmt.Fprintf(&s, "  [%s]", terminal.Clean(src.Rule))
		}
		if len(src.Heading) > 0 {
			fmt.Fprintf(&s, "  %s", terminal.Clean(strings.Join(src.Heading, " > ")))
		}
		s.WriteString("\n")
	}
	fmt.Fprintf(&s, "%-12s %6d tokens\n", "total", spec.Tokens)
	for _, c := range spec.Cut {
		fmt.Fprintf(&s, "left out: %s\n", terminal.Clean(c))
	}
	if spec.Over {
		s.WriteString("over the budget\n")
	}
	return s.String()
}

type specJSON struct {
	Text    string       `json:"text"`
	Tokens  int          `json:"tokens"`
	Over    bool         `json:"over"`
	Thin    bool         `json:"thin"`
	Cut     []string     `json:"cut"`
	Sources []sourceJSON `json:"sources"`
}

type sourceJSON struct {
	Part      string   `json:"part"`
	File      string   `json:"file,omitempty"`
	FirstLine int      `json:"first_line,omitempty"`
	LastLine  int      `json:"last_line,omitempty"`
	Tokens    int      `json:"tokens"`
	Rule      string   `json:"rule,omitempty"`
	Heading   []string `json:"heading,omitempty"`
}

func jsonOf(spec specbuild.Spec) specJSON {
	out := specJSON{Text: spec.Text, Tokens: spec.Tokens, Over: spec.Over, Thin: spec.Thin, Cut: append([]string{}, spec.Cut...), Sources: []sourceJSON{}}
	for _, src := range spec.Sources {
		out.Sources = append(out.Sources, sourceJSON(src))
	}
	return out
}

// edited lets a person change a text in their editor: $VISUAL, else $EDITOR, else vi. name is that of the
// file it is shown in. A text of which the editor says that it failed is not taken.
func edited(ctx context.Context, name, text string) (string, error) {
	line := cmp.Or(os.Getenv("VISUAL"), cmp.Or(os.Getenv("EDITOR"), "vi"))
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
	if err != nil {
		return "", badInput("set EDITOR to one that is installed", "editor: %w", err)
	}
	if code != 0 {
		return "", badInput("nothing was changed", "the editor %s ended with exit status %d", line, code)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read what was edited: %w", err)
	}
	return string(b), nil
}
