package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"descartes/internal/terminal"
)

func newWavesCmd() *cobra.Command {
	var look looking
	var dot, mermaid bool
	cmd := &cobra.Command{
		Use:   "waves",
		Short: "Show the plan of a tag: waves, what is ready, what is held and why",
		Args:  takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := look.board(cmd)
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			switch {
			case look.json && !dot && !mermaid:
				return writeJSON(w, b.report())
			case dot && !look.json && !mermaid:
				return write(w, b.dot())
			case mermaid && !look.json && !dot:
				return write(w, b.mermaid())
			case look.json || dot || mermaid:
				return badInput("", "choose one of --json, --dot and --mermaid")
			}
			return write(w, b.text(terminal.Colours(terminal.IsTerminal(w))))
		},
	}
	look.register(cmd, "print waves and problems as JSON")
	look.registerGraph(cmd)
	cmd.Flags().BoolVar(&dot, "dot", false, "print the graph for Graphviz")
	cmd.Flags().BoolVar(&mermaid, "mermaid", false, "print the graph for Mermaid")
	return cmd
}

func write(w io.Writer, s string) error {
	_, err := io.WriteString(w, s)
	return err
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

type wavesJSON struct {
	Tag      string        `json:"tag"`
	Source   string        `json:"source"`
	Waves    []waveJSON    `json:"waves"`
	Added    []addedJSON   `json:"added,omitempty"` // dependencies that only the plan states
	Problems []problemJSON `json:"problems"`
}

func (b *board) report() wavesJSON {
	return wavesJSON{Tag: b.file.Tag(), Source: shown(b.root, b.file.Path()), Waves: b.waves(), Added: b.added(), Problems: b.problems()}
}

// text is the plan for a person.
func (b *board) text(p terminal.Paint) string {
	var s strings.Builder
	waves := b.waves()
	fmt.Fprintf(&s, "%s: %s in %s (%s)%s\n", b.file.Tag(), terminal.Count(b.graph.Counts().Total, "task"), terminal.Count(len(waves), "wave"),
		terminal.Clean(shown(b.root, b.file.Path())), b.tally())
	commits := b.committed()
	ids := 0
	for _, w := range waves {
		for _, t := range w.Tasks {
			ids = max(ids, terminal.Width(terminal.Clean(t.ID.ID)))
		}
	}
	for _, w := range waves {
		commit := ""
		if hash := commits[w.Number]; hash != "" {
			commit = "  committed " + short(hash)
		}
		fmt.Fprintf(&s, "\n%s%s\n", p.In(terminal.Bold, fmt.Sprintf("Wave %d", w.Number)), commit)
		for _, t := range w.Tasks {
			if b.interrupted(t.ID.ID) {
				t.State = "interrupted"
			}
			writeTaskLine(&s, p, t, ids)
		}
	}
	for i, d := range b.added() {
		if i == 0 {
			fmt.Fprintf(&s, "\nAdded by %s\n", terminal.Clean(b.scud.PlanPath))
		}
		fmt.Fprintf(&s, "  %s waits for %s\n", terminal.Clean(d.Task.ID), terminal.Clean(d.On.ID))
	}
	for i, problem := range b.problems() {
		if i == 0 {
			s.WriteString("\nProblems\n")
		}
		fmt.Fprintf(&s, "  %s: %s\n", p.In(terminal.Yellow, problem.Kind), terminal.Clean(problem.Message))
	}
	return s.String()
}

func writeTaskLine(s *strings.Builder, p terminal.Paint, t taskJSON, ids int) {
	id := terminal.Clean(t.ID.ID)
	fmt.Fprintf(s, "  %s%s  %s%s  %s", id, strings.Repeat(" ", ids-terminal.Width(id)), p.In(stateColour(t.State), t.State),
		strings.Repeat(" ", max(0, 7-len(t.State))), terminal.Clean(t.Title))
	switch {
	case t.Cause != "":
		fmt.Fprintf(s, "  (%s)", terminal.Clean(t.Cause))
	case t.State == "other":
		fmt.Fprintf(s, "  (status %s)", terminal.Clean(string(t.Status)))
	}
	if t.Agent != nil && t.State != "done" {
		fmt.Fprintf(s, "  [%s]", t.Agent)
	}
	s.WriteString("\n")
}

func stateColour(state string) string {
	switch state {
	case "done":
		return terminal.Green
	case "blocked":
		return terminal.Red
	case "held", "other", "interrupted":
		return terminal.Yellow
	}
	return terminal.Faint
}

// tally counts what is not simply waiting.
func (b *board) tally() string {
	c := b.graph.Counts()
	off, other := b.setAside()
	var parts []string
	for _, x := range []struct {
		n    int
		word string
	}{{c.Done, "done"}, {c.InProgress, "in progress"}, {c.Blocked, "blocked"}, {c.Held, "held"}, {off, "set aside"}, {other, "not run"}} {
		if x.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", x.n, x.word))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

func short(hash string) string { return hash[:min(7, len(hash))] }

// dot is the graph for Graphviz, arrows from what comes first.
func (b *board) dot() string {
	var s strings.Builder
	fmt.Fprintf(&s, "digraph %s {\n  rankdir=LR;\n  node [shape=box];\n", dotQuote(b.file.Tag()))
	waves := b.waves()
	for _, w := range waves {
		fmt.Fprintf(&s, "  subgraph cluster_%d {\n    label=\"Wave %d\";\n", w.Number, w.Number)
		for _, t := range w.Tasks {
			fmt.Fprintf(&s, "    %s [label=%s, class=%s];\n", dotQuote(t.ID.ID), dotQuote(t.ID.ID+" "+t.Title), dotQuote(t.State))
		}
		s.WriteString("  }\n")
	}
	for _, w := range waves {
		for _, t := range w.Tasks {
			for _, d := range b.graph.Deps(t.ID.ID) {
				fmt.Fprintf(&s, "  %s -> %s;\n", dotQuote(d), dotQuote(t.ID.ID))
			}
		}
	}
	s.WriteString("}\n")
	return s.String()
}

func dotQuote(s string) string {
	return `"` + strings.ReplaceAll(strings.ReplaceAll(terminal.Clean(s), `\`, `\\`), `"`, `\"`) + `"`
}

// mermaid is the graph for Mermaid. Ids are numbered, because Mermaid takes few characters in them.
func (b *board) mermaid() string {
	var s strings.Builder
	s.WriteString("flowchart LR\n")
	node := map[string]string{}
	waves := b.waves()
	for _, w := range waves {
		fmt.Fprintf(&s, "  subgraph wave%d [Wave %d]\n", w.Number, w.Number)
		for _, t := range w.Tasks {
			node[t.ID.ID] = fmt.Sprintf("t%d", len(node)+1)
			fmt.Fprintf(&s, "    %s[\"%s\"]:::%s\n", node[t.ID.ID], mermaidText(t.ID.ID+" "+t.Title), t.State)
		}
		s.WriteString("  end\n")
	}
	for _, w := range waves {
		for _, t := range w.Tasks {
			for _, d := range b.graph.Deps(t.ID.ID) {
				if from := node[d]; from != "" {
					fmt.Fprintf(&s, "  %s --> %s\n", from, node[t.ID.ID])
				}
			}
		}
	}
	return s.String()
}

func mermaidText(s string) string {
	return strings.NewReplacer("&", "&amp;", `"`, "&quot;", "<", "&lt;", ">", "&gt;", "#", "&#35;").Replace(terminal.Clean(s))
}
