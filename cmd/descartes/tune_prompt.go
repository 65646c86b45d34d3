package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/loop"
)

// promptLoop is the prompt loop that is meant: the named one, or the last one where that is neither over a
// tag nor a tag or a task is named. nil is a tag.
func (t *tune) promptLoop(cmd *cobra.Command, args []string) (*loop.Saved, error) {
	f := cmd.Flags()
	if t.name == "" && (len(args) > 0 || f.Changed("scud-tag") || f.Changed("tasks-file")) {
		return nil, nil
	}
	root, err := findRoot(t.Dir)
	if err != nil {
		return nil, err
	}
	if t.name == "" {
		s, err := loop.NewHome(root).Last()
		if err != nil || s == nil || s.State.Kind == loop.KindTag {
			return nil, nil // the tag's own commands say what is wrong
		}
		return s, nil
	}
	s, err := lookUp(root, t.Dir, t.name, "")
	if err != nil {
		return nil, err
	}
	if s.State.Kind != loop.KindTag {
		if len(args) > 0 {
			return nil, badInput("leave the task out", "loop %s repeats a prompt, it has no task %q", s.State.ID, args[0])
		}
		return s, nil
	}
	return nil, f.Set("scud-tag", s.State.Tag)
}

// runPrompt shows the iterations of a prompt loop, or chooses the text of its next one.
func (t *tune) runPrompt(cmd *cobra.Command, s *loop.Saved) error {
	root, err := findRoot(t.Dir)
	if err != nil {
		return err
	}
	home := loop.NewHome(root)
	list, err := iterationsOf(cmd, root, s)
	if err != nil {
		return err
	}
	chosen, err := home.TunedPrompt(s.State.ID)
	if err != nil {
		return err
	}
	change := t.selected > 0 || t.edit || t.drop
	if !change || t.show {
		text, err := t.renderPrompt(s, list, chosen)
		if err == nil {
			err = write(cmd.OutOrStdout(), text)
		}
		if err != nil || !change {
			return err
		}
	}
	if s.State.Completed {
		return badInput("start another one", "loop %s has ended (%s)", s.State.ID, s.State.ExitReason.Type)
	}
	if t.drop {
		if err := home.TunePrompt(atomicfile.OS(), s.State.ID, ""); err != nil {
			return err
		}
		return write(cmd.ErrOrStderr(), fmt.Sprintf("loop %s: its next iteration is told what is made for it\n", s.State.ID))
	}
	return t.choosePrompt(cmd, home, s, list, chosen)
}

func (t *tune) choosePrompt(cmd *cobra.Command, home loop.Home, s *loop.Saved, list []variant, chosen string) error {
	text := orWord(chosen, s.State.Config.Prompt)
	if n := len(list); n > 0 && chosen == "" && list[n-1].Spec != "" {
		text = list[n-1].Spec
	}
	if t.selected > 0 {
		text = ""
		for _, v := range list {
			if v.Attempt == t.selected && v.Spec != "" {
				text = v.Spec
			}
		}
		if text == "" {
			return badInput("descartes loop tune --name "+s.State.ID+" shows those that there are", "loop %s has no text of an iteration %d", s.State.ID, t.selected)
		}
	}
	text, err := t.changed(cmd, "prompt.md", text)
	if text == "" || err != nil {
		return err
	}
	if err := home.TunePrompt(atomicfile.OS(), s.State.ID, text); err != nil {
		return badInput("", "%w", err)
	}
	note := fmt.Sprintf("loop %s: its next iteration is told the chosen text, word for word\n", s.State.ID)
	if !home.IsLive(*s) {
		note += "next: " + resumeOf(filepath.Dir(string(home)), s.State.ID, s.Path) + "\n"
	}
	return write(cmd.ErrOrStderr(), note)
}

// iterationsOf are the iterations of a prompt loop with all that is known of them.
func iterationsOf(cmd *cobra.Command, root string, s *loop.Saved) ([]variant, error) {
	home := loop.NewHome(root)
	found, err := home.Iterations(s.State.ID)
	if err != nil {
		return nil, err
	}
	var repo *gitops.Repo
	list := make([]variant, 0, len(found)) // never null in JSON
	for i, f := range found {
		v := variant{Loop: f.Loop, Attempt: f.Attempt, Try: f.Try, turn: true, Verdict: orWord(f.Verdict, "running"), Reason: f.Reason, Seconds: f.Seconds, Cost: f.Cost,
			Tuned: f.Tuned, Refinement: f.Refinement, Words: f.Words, Output: f.Output}
		v.Spec, v.Kept = home.IterationPrompt(f)
		if i > 0 && list[i-1].Spec != "" && v.Spec != "" {
			v.SpecDiff = changes(list[i-1].name(), list[i-1].Spec, v.name(), v.Spec)
		}
		if f.Before != "" && f.After != "" {
			if repo == nil {
				if repo, err = openRepo(cmd.Context(), root, nil); err != nil {
					return nil, err
				}
				defer repo.Close()
			}
			if v.Diff, err = repo.Patch(cmd.Context(), f.Before, f.After, shownDiff); err != nil {
				v.Diff = "" // trees that git has pruned
			}
		}
		list = append(list, v)
	}
	return list, nil
}

func (t *tune) renderPrompt(s *loop.Saved, list []variant, chosen string) (string, error) {
	var b strings.Builder
	if t.format == "json" {
		err := writeJSON(&b, list)
		return b.String(), err
	}
	m := t.format == "markdown"
	heading(&b, m, 1, fmt.Sprintf("loop %s: %s", s.State.ID, count(len(list), "iteration")))
	for _, v := range list {
		v.text(&b, m)
	}
	if chosen != "" {
		heading(&b, m, 2, "next iteration: a chosen text")
		block(&b, m, "it is told", chosen)
	}
	if !m && !s.State.Completed {
		fmt.Fprintf(&b, "\nnext: descartes loop tune --name %s --select N, or --edit\n", s.State.ID)
	}
	return b.String(), nil
}
