// Command descartes runs coding agents over a graph of tasks until the work is verified and committed.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"descartes/agent"
	"descartes/agent/quota"
	"descartes/fleet/wire"
	"descartes/internal/acp"
	"descartes/internal/complete"
	"descartes/internal/config"
	"descartes/internal/proc"
	"descartes/internal/redact"
	"descartes/internal/report"
	"descartes/internal/sandbox"
	"descartes/internal/terminal"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program except os.Exit.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	// The supervising process is started once per loop and never reads flags.
	if len(args) == 1 && args[0] == proc.ShimCommand {
		return proc.Serve()
	}
	if len(args) > 1 && args[0] == sandbox.NetCommand {
		return sandbox.Netforward(args[1:], stderr)
	}
	proc.Anchor()
	if len(args) == 1 && args[0] == wire.Command {
		return wire.Main(ctx, wire.Serve, stdin, stdout, stderr)
	}
	if len(args) == 1 && args[0] == wire.RunCommand {
		return wire.Main(ctx, wire.Coordinate, stdin, stdout, stderr)
	}
	// So is the one that talks to an agent, once per attempt.
	if len(args) > 0 && args[0] == agent.ACPCommand {
		return acp.Serve(args[1:])
	}
	root := newRootCmd()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	w := redact.Of(new(config.Config).Secrets(os.Environ())).Writer(stderr)
	defer w.Flush()
	return printError(w, err)
}

func newVersionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  takes(0, 0, ""),
		RunE:  printVersion,
	}
}

func printVersion(cmd *cobra.Command, _ []string) error {
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "descartes %s\n", versionLine())
	return err
}

// Set by the linker for a release, see .goreleaser.yaml: version, commit and its date.
var release, commit, date string

// versionLine has the version, the commit with its date if known, and the build environment.
func versionLine() string {
	from, day := commit, date
	if info, ok := debug.ReadBuildInfo(); ok && from == "" {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				from = s.Value
			case "vcs.time":
				day = s.Value
			}
		}
	}
	if from != "" {
		from = fmt.Sprintf(" (%s, %s)", from[:min(12, len(from))], day[:min(10, len(day))])
	}
	return fmt.Sprintf("%s%s %s %s/%s", version(), from, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// version is the release's, the module's, or the commit a checkout was built from.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	v, dirty := "devel", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			v = "devel-" + s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	return v + dirty
}

func newRootCmd() *cobra.Command {
	root := &cobra.Command{
		Use:   "descartes",
		Short: "Run coding agents over a graph of tasks until the work is verified and committed",
		Long: `descartes runs coding agents over a graph of tasks until the work is verified
and committed.

  descartes demo                      see it work, in a temporary repository
  descartes doctor                    check what is missing here
  descartes waves --tag feature-x     look at what there is to do
  descartes run feature-x             do it

` + exitTable,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if told, err := cmd.Flags().GetBool("version"); err == nil && told {
				return printVersion(cmd, nil)
			}
			return groupRun(cmd, args)
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return runsOn(runtime.GOOS, cmd) },
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
	}
	root.SetHelpFunc(help)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return badInput(cmp.Or(nearFlag(cmd, err), cmd.CommandPath()+" --help"), "%w", err)
	})
	// --tag is --scud-tag, everywhere.
	root.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "tag" {
			name = "scud-tag"
		}
		return pflag.NormalizedName(name)
	})
	// Cobra would use a template for this, and with templates the linker keeps every method of every type.
	root.Flags().BoolP("version", "v", false, "version for descartes")
	// The most frequent commands also work without loop.
	root.AddCommand(newRunCmd(), newStartCmd(), newStepCmd(), newStatusCmd(), newResumeCmd(), newCancelCmd(), newPauseCmd(), newWatchCmd(), newListCmd(), newLogsCmd())
	root.AddCommand(newLoopCmd(), newPlanCmd(), newBuildCmd(), newPromptCmd(), newWavesCmd(), newSpecCmd(), newTasksCmd(), newAttemptsCmd(), newAnswerCmd(), newAcceptCmd(), newConfigCmd(), newWhyCmd(), newReceiptCmd(), newRecheckCmd(), newLimitsCmd(), newCleanupCmd(), newRewindCmd(), newTrustCmd(), newServeCmd(), newFleetCmd(), newReportCmd(), newDoctorCmd(), newInitCmd(), newDemoCmd(), newVersionCmd())
	root.AddCommand(&cobra.Command{Use: "exit-codes", Short: "What each exit code means", Long: exitTable})
	root.InitDefaultCompletionCmd("")
	explainCompletion(root)
	sortIntoGroups(root)
	complete.Project{Root: func(f *pflag.FlagSet) (string, error) {
		return findRoot(complete.Value(f, "working-dir"))
	}, List: listOf, Quota: func() *quota.Accounts { return accounts(nil, "", os.Getenv) }}.Attach(root)
	return root
}

// explainCompletion says how to set up completion for each shell, in lines to copy.
func explainCompletion(root *cobra.Command) {
	how := map[string]string{
		"bash": `  echo 'source <(descartes completion bash)' >> ~/.bashrc

It needs the package bash-completion (macOS: brew install bash-completion@2).`,
		"zsh": `  mkdir -p ~/.zfunc && descartes completion zsh > ~/.zfunc/_descartes
  echo 'fpath+=~/.zfunc; autoload -Uz compinit; compinit' >> ~/.zshrc`,
		"fish": `  mkdir -p ~/.config/fish/completions
  descartes completion fish > ~/.config/fish/completions/descartes.fish`,
		"powershell": `  descartes completion powershell >> $PROFILE`,
	}
	cmd, _, err := root.Find([]string{"completion"})
	if err != nil {
		return
	}
	text := "Let your shell complete commands, flags, tags, tasks, loops, backends and settings.\nRun the lines for your shell once, then open a new one."
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		text += "\n\n" + shell + "\n\n" + how[shell]
	}
	cmd.Short, cmd.Long = "Let your shell complete what you type", text
	for _, c := range cmd.Commands() {
		c.Short = "Print the script for " + c.Name()
		c.Long = c.Short + ". To have it loaded by every new shell:\n\n" + how[c.Name()]
	}
}

// For systems on which no agent can be started, what works anyway.
const (
	noAgents = "descartes cannot run agents on Windows, only on Linux and macOS"
	noLoops  = "use WSL; waves, spec, tasks, report, config and init work here too"
)

// runsOn refuses a command that starts agents or verify commands, or changes the working tree, on a system where descartes cannot do that.
func runsOn(system string, cmd *cobra.Command) error {
	if system != "windows" {
		return nil
	}
	switch cmd.Name() {
	case "run", "start", "step", "resume", "plan", "build", "prompt", "demo", "accept", "recheck", "rewind":
		return &failure{code: exitAgent, err: errors.New(noAgents), hint: noLoops}
	}
	return nil
}

// groups are the parts of the list of commands, in the order in which help shows them.
func groups() [][]string {
	return [][]string{
		{"Run:", "run", "start", "step", "resume", "plan", "build", "prompt", "demo"},
		{"Watch:", "status", "watch", "logs", "list", "serve"},
		{"Decide:", "answer", "accept", "pause", "cancel", "rewind"},
		{"Look at what was done:", "why", "report", "attempts", "receipt", "recheck"},
		{"Look at what is to do:", "waves", "spec", "tasks"},
		{"Set up:", "init", "doctor", "config", "trust", "limits", "cleanup", "completion", "fleet", "version"},
		{"More:", "loop", "help"},
	}
}

// sortIntoGroups assigns every command to its part of the list.
func sortIntoGroups(root *cobra.Command) {
	of := map[string]string{}
	for _, g := range groups() {
		root.AddGroup(&cobra.Group{ID: g[0], Title: g[0]})
		for _, name := range g[1:] {
			of[name] = g[0]
		}
	}
	for _, c := range root.Commands() {
		c.GroupID = of[c.Name()]
	}
	root.SetHelpCommandGroupID(of["help"])
	root.SetCompletionCommandGroupID(of["completion"])
}

// helpWidth is the width of help in columns.
const helpWidth = 80

// help prints a command's text, how to call it, the commands below it by group, its flags, and last the exit codes.
func help(cmd *cobra.Command, _ []string) {
	w := cmd.OutOrStdout()
	text, codes := strings.CutSuffix(cmp.Or(cmd.Long, cmd.Short), exitTable)
	if text == "" { // of the topic
		fmt.Fprint(w, exitTable)
		return
	}
	fmt.Fprintf(w, "%s\n\nUsage:\n", inColumns(strings.TrimRight(text, "\n ")))
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "  %s [command]\n", cmd.CommandPath())
	} else {
		fmt.Fprintf(w, "  %s\n", cmd.UseLine())
	}
	for _, g := range append(cmd.Groups(), &cobra.Group{Title: "Commands:"}) {
		title := "\n" + g.Title + "\n"
		for _, c := range inOrder(cmd.Commands()) {
			if !c.Hidden && c.GroupID == g.ID && !c.IsAdditionalHelpTopicCommand() {
				fmt.Fprint(w, title)
				helpLine(w, c.Name(), 12, c.Short)
				title = ""
			}
		}
	}
	helpFlags(w, cmd.LocalFlags())
	if codes {
		fmt.Fprint(w, "\n"+exitTable)
	}
	if !cmd.HasParent() {
		fmt.Fprint(w, "\ndescartes COMMAND --help says more about a command.\n")
	}
}

// inColumns fills the paragraphs of a text. An example, which is indented, gets its explanation on the next line if it is too long.
func inColumns(text string) string {
	var out []string
	for part := range strings.SplitSeq(text, "\n\n") {
		if !strings.HasPrefix(part, " ") {
			out = append(out, strings.Join(terminal.Wrap(strings.ReplaceAll(part, "\n", " "), helpWidth), "\n"))
			continue
		}
		lines := strings.Split(part, "\n")
		for i, line := range lines {
			if at := strings.LastIndex(line, "   "); at > 0 && terminal.Width(line) > helpWidth {
				lines[i] = strings.TrimRight(line[:at], " ") + "\n" + strings.Join(terminal.Wrap("      "+line[at+3:], helpWidth), "\n")
			}
		}
		out = append(out, strings.Join(lines, "\n"))
	}
	return strings.Join(out, "\n\n")
}

// inOrder sorts commands as in their group, and others by name.
func inOrder(list []*cobra.Command) []*cobra.Command {
	place := map[string]int{}
	for _, g := range groups() {
		for i, name := range g {
			place[name] = i
		}
	}
	return slices.SortedStableFunc(slices.Values(list), func(a, b *cobra.Command) int { return place[a.Name()] - place[b.Name()] })
}

// flagGroups are the parts of a long list of flags.
func flagGroups() [][]string {
	return [][]string{
		{"Task list:", "scud-tag", "tasks-file", "plan", "task", "open-in-done", "retry-blocked"},
		{"What the agent is given:", "spec-file", "spec-template", "spec-budget", "max-spec-tokens", "handoff", "chain"},
		{"Agent:", "backend", "command", "model", "prompt-mode", "fallback", "on-limit", "max-wait"},
		{"When a task is done:", "verify", "verify-timeout", "verify-idle-timeout", "all-checks", "baseline", "require", "protect-mode", "prove", "mutants", "review"},
		{"Limits:", "max-attempts", "max-total-iterations", "max-cost", "max-cost-per-task", "deadline", "breaker", "timeout", "idle-timeout", "start-timeout", "exit-grace", "spin-limit", "max-memory", "max-procs", "min-free-disk"},
		{"Several at a time:", "parallel", "fleet", "fleet-remote", "isolate", "in-place", "barrier", "respect-scope", "candidates", "pick"},
		{"Git:", "branch", "create-branch", "branch-template", "auto-commit", "no-commit", "commit-template", "cost-trailer", "allow-dirty", "hooks", "hook-timeout", "push"},
		{"Sandbox:", "sandbox", "env", "env-pass", "trust"},
		{"Reports:", "json", "junit", "summary", "notify", "notify-on", "ci", "ok-exit", "plain", "times"},
		{"Only where a prompt is repeated:", "prompt", "prompt-file", "completion-promise", "max-iterations", "gate", "criterion", "shape", "shape-file", "reversibility", "precheck", "no-confirm", "cooldown", "max-file-edits", "loop-state", "isolated", "continue", "iteration-context", "replan"},
		{"The run:", "name", "last", "step", "state-file", "config", "working-dir", "detach", "dry-run", "yes", "help"},
	}
}

// fewFlags is up to how many flags make one list.
const fewFlags = 20

// helpFlags prints flags, in groups if they are many.
func helpFlags(w io.Writer, flags *pflag.FlagSet) {
	left := map[string]*pflag.Flag{}
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Deprecated == "" {
			left[f.Name] = f
		}
	})
	if len(left) > fewFlags {
		for _, g := range flagGroups() {
			title := "\n" + g[0] + "\n"
			for _, name := range g[1:] {
				if f := left[name]; f != nil {
					fmt.Fprint(w, title)
					title = ""
					helpFlag(w, f)
					delete(left, name)
				}
			}
		}
	}
	if len(left) > 0 {
		fmt.Fprint(w, "\nFlags:\n")
		for _, name := range slices.Sorted(maps.Keys(left)) {
			helpFlag(w, left[name])
		}
	}
}

// helpFlag prints a flag as pflag does, with its type and its default.
func helpFlag(w io.Writer, f *pflag.Flag) {
	one := pflag.NewFlagSet("", pflag.ContinueOnError)
	one.AddFlag(f)
	if name, text, ok := strings.Cut(strings.TrimSpace(one.FlagUsages()), "   "); ok {
		if f.Shorthand == "" {
			name = "    " + name
		}
		helpLine(w, name, 26, strings.TrimSpace(text))
	}
}

// helpLine prints a name and its explanation, which begins in that column, or on the next line if the name is longer.
func helpLine(w io.Writer, name string, column int, text string) {
	for i, line := range terminal.Wrap(text, helpWidth-2-column) {
		switch {
		case i > 0:
			name = ""
		case len(name)+2 > column:
			fmt.Fprintf(w, "  %s\n", name)
			name = ""
		}
		fmt.Fprintf(w, "  %-*s%s\n", column, name, line)
	}
}

func newLoopCmd() *cobra.Command {
	cmd := newGroup("loop", "Start, watch, stop and resume loops")
	cmd.AddCommand(newStartCmd(), newStepCmd(), newStatusCmd(), newResumeCmd(), newCancelCmd(), newPauseCmd(), newAttachCmd(), newWatchCmd(), newListCmd(), newLogsCmd())
	return cmd
}

func newTasksCmd() *cobra.Command {
	cmd := newGroup("tasks", "Look at, check, change, import and plan the tasks of a tag")
	cmd.AddCommand(newTasksListCmd(), newTasksShowCmd(), newTasksNextCmd(), newTasksSetCmd(), newTasksCheckCmd(), newTasksImportCmd(), newTasksPlanCmd())
	return cmd
}

// newGroup is a command that only has others below it.
func newGroup(name, short string) *cobra.Command {
	return &cobra.Command{Use: name, Short: short, Args: cobra.ArbitraryArgs, RunE: groupRun}
}

// groupRun prints help, or refuses a word that is no command.
func groupRun(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	var names []string
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	return badInput(cmp.Or(didYouMean(args[0], names), cmd.CommandPath()+" --help"), "%s: there is no command %q", cmd.CommandPath(), args[0])
}

// didYouMean is a hint at known words close to a wrong one, or "". Closeness is cobra's, which has it for commands.
func didYouMean(wrong string, known []string) string {
	if len(wrong) < 3 { // near to everything
		return ""
	}
	words := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, k := range known {
		words.AddCommand(&cobra.Command{Use: k, Run: func(*cobra.Command, []string) {}})
	}
	near := words.SuggestionsFor(wrong)
	if len(near) == 0 || len(near) > 5 {
		return ""
	}
	return "did you mean " + terminal.Clean(strings.Join(near, " or ")) + "?"
}

// nearFlag is a hint at the flags close to an unknown one, or "".
func nearFlag(cmd *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || len(unknown.GetSpecifiedName()) < 2 {
		return ""
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, "--"+f.Name)
		}
	})
	if cmd.Flags().Lookup("scud-tag") != nil {
		names = append(names, "--tag") // the same
	}
	return didYouMean("--"+unknown.GetSpecifiedName(), names)
}

// takes checks the number of a command's arguments; names describes them.
func takes(least, most int, names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		hint := cmd.CommandPath() + " --help"
		switch {
		case most == 0 && len(args) > 0:
			return badInput(hint, "%s takes no arguments, got %q", cmd.CommandPath(), args[0])
		case len(args) > most:
			return badInput(hint, "%s takes %s, got %d arguments", cmd.CommandPath(), names, len(args))
		case len(args) < least:
			return badInput(hint, "%s needs %s", cmd.CommandPath(), names)
		}
		return nil
	}
}

func registerDir(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "working-dir", ".", "work as if started in this `directory`")
}

func write(w io.Writer, s string) error {
	_, err := io.WriteString(w, s)
	return err
}

// show prints v as JSON, or the text for people.
func show(w io.Writer, asJSON bool, v any, text string) error {
	if asJSON {
		return writeJSON(w, v)
	}
	return write(w, text)
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// findRoot returns the project's folder: the nearest one with .scud at or above dir, up to the top of the git working tree; else that top; without
// git, dir itself.
func findRoot(dir string) (string, error) {
	dir, err := realDir(dir)
	if err != nil {
		return "", err
	}
	fi, err := os.Stat(dir)
	switch {
	case err != nil:
		return "", err
	case !fi.IsDir():
		return "", badInput("", "working directory %s is not a directory", dir)
	}
	top := ""
	for d := dir; ; d = filepath.Dir(d) {
		if fi, err := os.Stat(filepath.Join(d, ".scud")); err == nil && fi.IsDir() {
			return d, hasRoom(d)
		}
		if _, err := os.Lstat(filepath.Join(d, ".git")); err == nil {
			top = d
			break
		}
		if d == filepath.Dir(d) {
			break
		}
	}
	top = cmp.Or(top, dir)
	return top, hasRoom(top)
}

// hasRoom refuses a project in which .descartes is something else than a folder of ours.
func hasRoom(root string) error {
	path := filepath.Join(root, ".descartes")
	if fi, err := os.Stat(path); err == nil && !fi.IsDir() {
		return badInput("move it away: descartes keeps its files in a directory of that name", "%s is not a directory", path)
	}
	return nil
}

// realDir is dir without symbolic links, as git sees it: paths are compared with git's.
func realDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	dir, err = filepath.EvalSymlinks(abs)
	if errors.Is(err, fs.ErrNotExist) {
		return "", badInput("", "working directory %s: no such directory", abs)
	}
	return dir, err
}

// inProject makes a path typed in dir relative to root, if it is below root.
func inProject(root, dir, path string) string {
	if path == "" {
		return ""
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	return report.Relative(root, path)
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
