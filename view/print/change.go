package print

import (
	"fmt"
	"slices"
	"strings"

	"descartes/internal/terminal"
	"descartes/tasks"
)

// Change is how a task list would differ from what it is. Its lists hold ids.
type Change struct {
	Added   []string       `json:"added"`
	Removed []string       `json:"removed"`
	Changed []ChangedField `json:"changed"`

	was, now *tasks.File // was is nil for a list that does not exist yet
}

// ChangedField is what becomes of a task that stays.
type ChangedField struct {
	Task  string `json:"task"`
	Field string `json:"field"`
	From  string `json:"from"`
	To    string `json:"to"`
}

// ChangeOf compares two states of a list; was is nil for one that is made.
func ChangeOf(was, now *tasks.File) Change {
	c := Change{Added: []string{}, Removed: []string{}, Changed: []ChangedField{}, was: was, now: now}
	for i := range now.Tasks() {
		t := &now.Tasks()[i]
		var old *tasks.Task
		if was != nil {
			old, _ = was.Task(t.ID)
		}
		if old == nil {
			c.Added = append(c.Added, t.ID)
			continue
		}
		for _, f := range []ChangedField{{t.ID, "status", string(old.Status), string(t.Status)},
			{t.ID, "title", old.Title, t.Title}, {t.ID, "depends on", strings.Join(old.DependsOn, ", "),
				strings.Join(t.DependsOn, ", ")}} {
			if f.From != f.To {
				c.Changed = append(c.Changed, f)
			}
		}
	}
	if was != nil {
		for i := range was.Tasks() {
			if t := &was.Tasks()[i]; !slices.Contains(c.Removed, t.ID) {
				if _, stays := now.Task(t.ID); !stays {
					c.Removed = append(c.Removed, t.ID)
				}
			}
		}
	}
	return c
}

// shownText is how many lines of a task's description a person is shown.
const shownText = 3

// Text is the change for a person, in lines of so many columns.
func (c Change) Text(p terminal.Paint, width int) string {
	var s strings.Builder
	for _, id := range c.Removed {
		t, _ := c.was.Task(id)
		fmt.Fprintf(&s, "%s %s  %s\n", p.In(terminal.Red, "-"), terminal.Clean(id), terminal.Clean(t.Title))
	}
	for _, f := range c.Changed {
		fmt.Fprintf(&s, "%s %s  %s: %s -> %s\n", p.In(terminal.Yellow, "~"), terminal.Clean(f.Task), f.Field,
			terminal.Clean(f.From), terminal.Clean(f.To))
	}
	for _, id := range c.Added {
		t, _ := c.now.Task(id)
		fmt.Fprintf(&s, "%s %s  %s%s\n", p.In(terminal.Green, "+"), terminal.Clean(id), terminal.Clean(t.Title),
			terminal.Clean(aside(t)))
		text := t.Description
		if text == "" || !c.now.Holds(tasks.Blocked) && t.Details != "" { // a Markdown list has the headings there
			text = t.Details
		}
		lines := terminal.Wrap(strings.Join(strings.Fields(terminal.CleanLines(text)), " "), max(20, width-6))
		if len(lines) > shownText {
			lines = append(lines[:shownText:shownText], "[...]")
		}
		for _, line := range lines {
			fmt.Fprintf(&s, "      %s\n", line)
		}
	}
	return s.String()
}

// aside is what else a line says of a task.
func aside(t *tasks.Task) string {
	var parts []string
	if t.Priority != "" && t.Priority != "medium" {
		parts = append(parts, t.Priority)
	}
	if t.Complexity != "" && t.Complexity != "0" {
		parts = append(parts, "complexity "+t.Complexity)
	}
	if len(t.DependsOn) > 0 {
		parts = append(parts, "after "+strings.Join(t.DependsOn, ", "))
	}
	if len(parts) == 0 {
		return ""
	}
	return "  (" + strings.Join(parts, "; ") + ")"
}
