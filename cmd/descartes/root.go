package main

import (
	"strings"

	"github.com/spf13/cobra"

	"descartes/internal/config"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/tasks"
)

func newRootCmd() *cobra.Command {
	root := &cobra.Command{
		Use:   "descartes",
		Short: "Run coding agents over a graph of tasks until the work is verified and committed",
		Long: `descartes runs coding agents over a graph of tasks until the work is verified and committed.

Start by looking, then run:
  descartes waves --scud-tag feature-x
  descartes loop start --scud-tag feature-x --verify "make check test"

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
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return badInput(cmd.CommandPath()+" --help", "%w", err)
	})
	// By cobra's own means this would take a template, and with those the linker keeps every method of every type.
	root.Flags().BoolP("version", "v", false, "version for descartes")
	root.AddCommand(newLoopCmd(), newPlanCmd(), newBuildCmd(), newPromptCmd(), newWavesCmd(), newSpecCmd(), newTasksCmd(), newAttemptsCmd(), newAnswerCmd(), newConfigCmd(), newLimitsCmd(), newCleanupCmd(), newRewindCmd(), newDoctorCmd(), newInitCmd(), newDemoCmd(), newVersionCmd())
	return root
}

func newLoopCmd() *cobra.Command {
	cmd := newGroup("loop", "Start, watch, stop and go on with loops")
	cmd.AddCommand(newStartCmd(), newStepCmd(), newStatusCmd(), newResumeCmd(), newCancelCmd(), newPauseCmd(), newAttachCmd(), newListCmd(), newLogsCmd(), newTuneCmd())
	return cmd
}

func newTasksCmd() *cobra.Command {
	cmd := newGroup("tasks", "Look at, check, change and import the tasks of a tag")
	cmd.AddCommand(newTasksListCmd(), newTasksShowCmd(), newTasksNextCmd(), newTasksSetCmd(), newTasksCheckCmd(), newTasksImportCmd())
	return cmd
}

// newGroup is a command that only has others below it.
func newGroup(name, short string) *cobra.Command {
	return &cobra.Command{Use: name, Short: short, Args: cobra.ArbitraryArgs, RunE: groupRun}
}

// groupRun prints what there is, or refuses a word that is no command.
func groupRun(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	hint := cmd.CommandPath() + " --help"
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return badInput(hint, "%s: there is no command %q", cmd.CommandPath(), args[0])
}

// takes checks the number of a command's arguments; names are those of the arguments.
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

// completeWords lets a shell complete a flag that takes one of a few words.
func completeWords(cmd *cobra.Command, flag string, words ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is registered by the caller
	}
}

// taskIDs offers the ids of the list that the flags given so far mean, with their titles.
func taskIDs(cmd *cobra.Command, dir string) ([]string, cobra.ShellCompDirective) {
	look := looking{settings: settings{Settings: config.New()}}
	look.Dir = dir
	root, c, err := look.source(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	f, err := loop.OpenTasks(root, c)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out []string
	for _, t := range f.Tasks() {
		out = append(out, cobra.CompletionWithDesc(terminal.Clean(t.ID), terminal.Clean(t.Title)))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completeTask completes the first argument of a command, a task. more completes those after it.
func (l *looking) completeTask(cmd *cobra.Command, more ...string) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		switch len(args) {
		case 0:
			return taskIDs(cmd, l.Dir)
		case 1:
			return more, cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeTags lets a shell complete --scud-tag from the project's task files.
func completeTags(cmd *cobra.Command, dir *string) {
	known := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		root, err := findRoot(*dir)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return tasks.Known(root), cobra.ShellCompDirectiveNoFileComp
	}
	if err := cmd.RegisterFlagCompletionFunc("scud-tag", known); err != nil {
		panic(err) // the flag is registered by the caller
	}
}
