package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"descartes/loop"
)

func newTasksShowCmd() *cobra.Command {
	var look looking
	cmd := &cobra.Command{
		Use:   "show <task>",
		Short: "Show everything about one task",
		Args:  takes(1, 1, "one task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := look.board(cmd)
			if err != nil {
				return err
			}
			t, err := b.need(args[0])
			if err != nil {
				return err
			}
			d := b.detail(t)
			if look.json {
				return writeJSON(cmd.OutOrStdout(), d)
			}
			return write(cmd.OutOrStdout(), d.text())
		},
	}
	look.register(cmd, "print the task as JSON")
	look.registerGraph(cmd)
	look.completeTask(cmd)
	return cmd
}

func (d *detailJSON) text() string {
	var s strings.Builder
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&s, "  %-13s %s\n", name+":", value)
		}
	}
	fmt.Fprintf(&s, "%s %s\n", clean(d.ID.ID), clean(d.Title))
	field("Status", clean(string(d.Status)))
	state := d.State
	if d.Cause != "" {
		state += " (" + clean(d.Cause) + ")"
	}
	field("State", state)
	if d.Wave > 0 {
		field("Wave", itoa(d.Wave))
	}
	field("Depends on", idList(d.DependsOn))
	if d.Parent != nil {
		field("Part of", clean(d.Parent.ID))
	}
	field("Subtasks", idList(d.Children))
	field("Priority", clean(d.Priority))
	field("Complexity", clean(string(d.Complexity)))
	field("Agent", d.Agent.String())
	field("Line", itoa(d.Line))
	for _, part := range []struct{ name, text string }{{"Description", d.Description}, {"Details", d.Details}, {"Test strategy", d.TestStrategy}} {
		if part.text != "" {
			fmt.Fprintf(&s, "\n%s\n  %s\n", part.name, strings.ReplaceAll(cleanLines(strings.TrimRight(part.text, "\n")), "\n", "\n  "))
		}
	}
	return s.String()
}

func idList(list []loop.TaskID) string {
	names := make([]string, 0, len(list))
	for _, id := range list {
		names = append(names, clean(id.ID))
	}
	return strings.Join(names, ", ")
}
