package main

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"descartes/agent"
	"descartes/config"
	"descartes/internal/atomicfile"
	"descartes/internal/lazyregexp"
	"descartes/internal/plainfile"
	"descartes/internal/proc"
	"descartes/internal/terminal"
	"descartes/launch"
	"descartes/loop/source"
	"descartes/tasks"
	"descartes/tasks/front"
	"descartes/tasks/plan"
	"descartes/verify"
)

// initFiles holds what init writes, in folders named after the flag that writes them.
//
//go:embed all:init
var initFiles embed.FS

func newInitCmd() *cobra.Command {
	var dir string
	var claude, opencode, speckit, full, yes, force, dryRun bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write descartes.yaml: what to run, which agent, which check",
		Long: `Write a short descartes.yaml: what to run, which agent, and the command that decides whether a task is done. At a terminal it
asks, and offers what it finds in the project; it runs nothing of that. A project without tasks and without a plan gets a sample.
An existing file is left alone, unless --force replaces it.

  descartes init --yes         # what it finds, without questions
  descartes init --claude      # /ralph-wiggum:ralph-loop, :cancel-ralph, :help
  descartes init --opencode    # /ralph-wiggum/ralph-loop and so on
  descartes init --speckit     # the implement step of Spec Kit's workflow`,
		Args: takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := findRoot(dir)
			if err != nil {
				return err
			}
			w := initWriter{root: root, force: force, dryRun: dryRun}
			if claude {
				w.tree("claude", filepath.Join(".claude", "plugins"))
				w.next("in Claude Code: /plugin marketplace add ./.claude/plugins, then /plugin install ralph-wiggum@descartes",
					"or for one session: claude --plugin-dir .claude/plugins/ralph-wiggum")
			}
			if opencode {
				w.tree("opencode", filepath.Join(".opencode", "command"))
				w.next("in opencode: /ralph-wiggum/ralph-loop TAG")
			}
			if speckit {
				w.speckit()
			}
			if !claude && !opencode && !speckit {
				w.project(cmd, full, yes)
			}
			if w.err != nil {
				return w.err
			}
			return write(cmd.OutOrStdout(), w.text())
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "working-dir", ".", "write to the project of this `directory`")
	f.BoolVar(&claude, "claude", false, "write a plugin for Claude Code")
	f.BoolVar(&opencode, "opencode", false, "write commands for opencode")
	f.BoolVar(&speckit, "speckit", false, "have Spec Kit's workflow run its tasks with descartes")
	f.BoolVar(&full, "full", false, "write every setting, commented, instead of asking")
	f.BoolVarP(&yes, "yes", "y", false, "take what is found, and ask nothing")
	f.BoolVar(&force, "force", false, "replace existing files")
	f.BoolVar(&dryRun, "dry-run", false, "say what would be written, and write nothing")
	return cmd
}

// initWriter writes files below root and records what it did; the first error stops it.
type initWriter struct {
	root          string
	force, dryRun bool
	lines, steps  []string
	err           error
}

// project writes what a project needs to start: settings, and a sample if there is nothing to run.
func (w *initWriter) project(cmd *cobra.Command, full, yes bool) {
	a, typed := w.found(), false
	repo, err := openRepo(cmd.Context(), w.root)
	if err != nil { // which the next steps say
		repo = nil
	}
	proposed := launch.Propose(cmd.Context(), repo, w.root)
	if a.pool = proposed.Lines("# "); repo != nil {
		w.err = repo.Close()
	}
	if full {
		w.file("project/descartes.yaml", config.SettingsFile)
	} else {
		if h := newPerson(cmd.InOrStdin(), cmd.OutOrStdout()); h != nil && !yes && !w.dryRun {
			w.err = a.ask(cmd.Context(), h, w.root)
			typed = a.command != ""
		}
		w.put(config.SettingsFile, a.yaml())
	}
	if typed && slices.Contains(w.lines, "wrote "+config.SettingsFile) && byPerson("trust") == nil && w.err == nil {
		w.err = trustWritten(w.root)
	}
	if a.source == sampleTag && len(tasks.Known(w.root)) == 0 {
		w.file("project/sample.json", filepath.Join(".scud", "tasks", sampleTag+".json"))
	}
	if w.err != nil {
		return
	}
	if !full && !w.dryRun && a.source != sampleTag {
		if proposed.Setup != "" {
			w.lines = append(w.lines, "pool.setup stands in "+config.SettingsFile+" as a comment: "+proposed.Why+
				" is in no commit")
		}
		if a.verify == "" || a.verify == config.NoVerify {
			w.lines = append(w.lines, "no command decides yet whether a task is done: set verify in "+
				config.SettingsFile)
		} else { // it is the repository's, and this is no sandbox
			w.lines = append(w.lines, "verify: "+terminal.Clean(a.verify)+" (descartes doctor tries it)")
		}
	}
	w.next("descartes doctor")
	w.toRun(cmd.Context(), a, full)
}

// toRun says what to type until the first run.
func (w *initWriter) toRun(ctx context.Context, a *answers, full bool) {
	list, run := "descartes waves --tag "+terminal.Quote(a.source), "descartes run"
	if a.plan != "" {
		list = "descartes tasks import " + terminal.Quote(a.plan) + " --dry-run"
	}
	if full { // its settings are all comments
		run += " " + terminal.Quote(cmp.Or(a.plan, a.source))
	}
	if full && a.verify != "" {
		run += " --verify " + terminal.Quote(a.verify)
	}
	w.next(list)
	if _, err := os.Stat(filepath.Join(launch.GitTop(w.root), ".git")); err != nil {
		w.next("git init")
	}
	names := "-A" // the first commit; a later one leaves alone what a person is at
	if repo, err := openRepo(ctx, w.root); err == nil {
		if head, err := repo.Head(ctx); err == nil && head.Hash != "" {
			names = config.SettingsFile
		}
		w.err = repo.Close()
	}
	for _, name := range []string{a.plan, ".scud"} {
		if _, err := os.Stat(filepath.Join(w.root, name)); err == nil && name != "" && names != "-A" {
			names += " " + terminal.Quote(name)
		}
	}
	w.next("git add "+names+` && git commit -m "Before descartes"`, run)
}

// sampleTag is the list for a project without one, and sampleVerify its verify command.
const (
	sampleTag    = "sample"
	sampleVerify = "test -s greeting.txt"
)

// answers are the first settings.
type answers struct {
	source  string // tag
	plan    string // that it is made of; "" where there is a list
	agent   string // backend; "" with a command
	command string // agent's command line
	verify  string
	known   []string // tags
	pool    string   // lines about check trees and slots
}

// found returns what the project suggests.
func (w *initWriter) found() *answers {
	a := &answers{source: sampleTag, agent: "claude", known: tasks.Known(w.root)}
	if tag, _, ok := tasks.Active(w.root); ok {
		a.source = tag
	} else if len(a.known) > 0 {
		a.source = a.known[0]
	} else {
		a.takePlan(w.root, planHere(w.root))
	}
	for _, name := range []string{"claude", "codex", "opencode", "gemini", "qwen", "copilot"} {
		if b, ok := agent.Lookup(name); ok && len(b.Command) > 0 {
			if _, err := proc.Look(b.Command[0], w.root, os.Environ()); err == nil {
				a.agent = name
				break
			}
		}
	}
	if command, _, ok := verify.Detect(w.root); ok {
		a.verify = command
	} else if a.source == sampleTag {
		a.verify = sampleVerify
	}
	return a
}

// planHere returns the Markdown with tasks that a person would take for the project's plan, or "": one in a usual place,
// else one whose name says that it has tasks, else one in the top folder.
func planHere(root string) string {
	const most = 40 // files that are read
	names := []string{"plan.md", "PLAN.md", "docs/plan.md", "IMPLEMENTATION_PLAN.md"}
	var others []string
	for _, pattern := range []string{"*.md", ".*/*.md", "docs/*.md", "docs/plans/*.md", "plans/*.md", "tasks/*.md",
		"specs/*.md"} {
		found, _ := fs.Glob(os.DirFS(root), pattern)
		for _, name := range found {
			switch lower := strings.ToLower(name); {
			case slices.ContainsFunc([]string{"plan", "todo", "task", "roadmap", "backlog", "checklist", "milestone"},
				func(word string) bool { return strings.Contains(lower, word) }):
				names = append(names, name)
			case pattern == "*.md" && !notPlan.MatchString(lower):
				others = append(others, name)
			}
		}
	}
	names = append(names, others...)
	for _, name := range names[:min(len(names), most)] {
		if new(answers).takePlan(root, name) {
			return name
		}
	}
	return ""
}

// notPlan are documents that every project has.
var notPlan = lazyregexp.New(
	`^(readme|changelog|changes|history|contributing|contributors|code_of_conduct|security|license|agents|claude|gemini|support|governance|prompt)`)

// hintOfTasks is what to type in a project without a task list.
func hintOfTasks(root string) string {
	if name := planHere(root); name != "" {
		return "descartes run " + terminal.Quote(name) + " runs the tasks of that plan"
	}
	return "descartes init makes a sample list; descartes tasks import plan.md makes one of a plan"
}

// takePlan chooses a plan to run, if it is one.
func (a *answers) takePlan(root, name string) bool {
	text, err := source.PlanText(root, name)
	if err != nil {
		return false
	}
	tag, err := tagOfPlan(name)
	doc, perr := plan.Parse(name, []byte(text))
	if perr == nil {
		_, perr = doc.Tasks()
	}
	if err != nil || perr != nil {
		return false
	}
	if matter, _ := front.Read([]byte(text)); matter.Tag != "" {
		tag = matter.Tag
	}
	a.source, a.plan = tag, name
	return true
}

// ask asks a person for the three answers; an empty line accepts the suggestion.
func (a *answers) ask(ctx context.Context, h *person, root string) error {
	what := cmp.Or(a.plan, a.source)
	names := slices.DeleteFunc(agent.Names(), func(name string) bool { return name == "generic" })
	for _, q := range []struct {
		question, offered string
		take              func(string) error
	}{{"What should be done? A tag, or a plan's file", what, func(s string) error {
		if slices.Contains(a.known, s) || s == sampleTag {
			a.source, a.plan = s, ""
		} else if !a.takePlan(root, s) {
			return fmt.Errorf("%s is neither a tag (%s) nor a plan with tasks", s,
				strings.Join(append(a.known, sampleTag), ", "))
		}
		return nil
	}}, {"Which agent? " + strings.Join(names, ", ") + ", or a command line", a.agent,
		func(s string) error { return a.takeAgent(s, root) }},
		{"Which command decides whether a task is done?", a.verify,
			func(s string) error { a.verify = s; return nil }}} {
		err := errors.New("")
		for try := 0; err != nil; try++ {
			answer, ok := h.line(ctx, fmt.Sprintf("%s [%s]", q.question, cmp.Or(q.offered, "none")))
			if !ok || try == 5 {
				return badInput("descartes init --yes asks nothing",
					"init was left before its end: nothing is written")
			}
			if answer == "" {
				break
			}
			if err = q.take(answer); err != nil {
				fmt.Fprintf(h.out, "%s\n", terminal.Clean(err.Error()))
			}
		}
	}
	return nil
}

// takeAgent chooses a backend, or the program of a command line, as the agent.
func (a *answers) takeAgent(s, root string) error {
	b, known := agent.Lookup(s)
	if known && len(b.Command) > 0 {
		a.agent, a.command = s, ""
		return nil
	}
	words, err := config.SplitCommand("command", s)
	if err != nil {
		return err
	}
	if _, err := proc.Look(words[0], root, os.Environ()); err != nil || known {
		return fmt.Errorf("%s is neither a backend nor a program on PATH; a command line looks like: my-agent --yes",
			words[0])
	}
	a.agent, a.command = "", s
	return nil
}

// yaml is the settings file.
func (a *answers) yaml() []byte {
	var b strings.Builder
	set := func(key, value string) {
		if text, err := yaml.Marshal(value); err == nil && value != "" {
			fmt.Fprintf(&b, "%s: %s\n", key, bytes.TrimSpace(text))
		}
	}
	b.WriteString("# Settings of descartes. To see them all with their current values: descartes config show\nscud:\n")
	set("  tag", a.source)
	set("  plan_path", a.plan)
	if a.command == "" {
		b.WriteString("backend:\n")
		set("  backend_type", a.agent)
	}
	set("command", a.command)
	words, _ := config.SplitCommand("command", a.command) // takeAgent could
	var named []string                                    // shown as if they were typed for a run
	for _, word := range words {
		if info, err := os.Stat(word); err == nil && filepath.IsAbs(word) && info.Mode().IsRegular() {
			named = append(named, word)
		}
	}
	if text, err := yaml.Marshal(map[string][]string{"sandbox_read": named}); err == nil && len(named) > 0 {
		b.Write(text)
	}
	if set("verify", a.verify); a.verify == "" {
		b.WriteString("# verify: make test    # the command that decides whether a task is done\n")
	} else if a.verify == sampleVerify {
		b.WriteString("baseline: warn         # the sample's file does not exist yet\n")
	}
	b.WriteString("# parallel: 4          # agents at the same time, each in a copy of the project\n")
	b.WriteString(a.pool)
	return []byte(b.String())
}

// speckit makes descartes a step of Spec Kit's workflow: a step type, and an overlay that puts it in place of
// implement.
func (w *initWriter) speckit() {
	if fi, err := os.Stat(filepath.Join(w.root, ".specify")); err != nil || !fi.IsDir() {
		w.err = badInput("specify init --here makes it one",
			"init --speckit: %s is not a Spec Kit project: it has no folder .specify", w.root)
		return
	}
	w.tree("speckit", filepath.Join(".specify", "workflows"))
	if _, err := os.Stat(filepath.Join(w.root, ".specify", "workflows", "speckit", "workflow.yml")); err != nil {
		w.next("specify workflow add speckit")
	}
	if _, err := os.Stat(filepath.Join(w.root, config.SettingsFile)); err != nil {
		w.next("descartes init")
	}
	w.next(`specify workflow run speckit --input spec="what is to be built"`)
}

// tree writes all files of one folder of initFiles.
func (w *initWriter) tree(from, to string) {
	from = path.Join("init", from)
	err := fs.WalkDir(initFiles, from, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel := strings.TrimPrefix(name, from+"/")
			w.file(strings.TrimPrefix(name, "init/"), filepath.Join(to, filepath.FromSlash(rel)))
		}
		return err
	})
	w.err = errors.Join(w.err, err)
}

// file writes one file, unless something else is in its place. It never writes through a link.
func (w *initWriter) file(from, to string) {
	if w.err != nil {
		return
	}
	text, err := initFiles.ReadFile(path.Join("init", from))
	if err != nil {
		w.err = err
		return
	}
	w.put(to, text)
}

// put writes a text like file.
func (w *initWriter) put(to string, text []byte) {
	if w.err != nil {
		return
	}
	full := filepath.Join(w.root, to)
	if err := plainfile.Writable(w.root, full); err != nil {
		w.err = badInput("remove it first", "init: %w", err)
		return
	}
	old, err := plainfile.Read(w.root, full, config.MaxFile)
	verb := "wrote "
	switch {
	case err == nil && bytes.Equal(old, text):
		verb = "unchanged "
	case err == nil && !w.force:
		w.lines = append(w.lines, "kept "+to+", which differs (--force replaces it)")
		return
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		w.err = badInput("", "init: %w", err)
		return
	case w.dryRun:
		verb = "would write "
	default:
		err = os.MkdirAll(filepath.Dir(full), 0o755)
		if err == nil {
			err = atomicfile.Write(atomicfile.OS(), full, text, 0o644)
		}
		if err != nil {
			w.err = badInput("", "init: %w", err)
			return
		}
	}
	w.lines = append(w.lines, verb+to)
}

func (w *initWriter) next(steps ...string) { w.steps = append(w.steps, steps...) }

func (w *initWriter) text() string {
	var b strings.Builder
	for _, l := range w.lines {
		b.WriteString(terminal.Clean(l) + "\n")
	}
	b.WriteString("\nNext:\n")
	for _, s := range w.steps {
		b.WriteString("  " + terminal.Clean(s) + "\n")
	}
	return b.String()
}
