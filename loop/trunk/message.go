package trunk

import (
	"fmt"
	"slices"
	"strings"

	"descartes/gitops"
	"descartes/internal/oneline"
)

// Wave is what the commit of a wave says.
type Wave struct {
	Loop, Tag string
	List      string // where it is, as gitops.Named has it
	Number    int
	Done, Of  int  // of its tasks, without those that a person set aside
	Continued bool // something of it was committed before
	PerTask   bool // each task has a commit of its own
	Brings    []Item
	Unchanged []Item // done since the last commit without a change
	Blocked   []Item // given up since then
	Subject   string // in place of the usual one; "" for that
	Cost      string // of what it brings; "" says nothing of it
}

// Item is a task in the message of a commit.
type Item struct {
	ID, Title string
	Accepted  bool   // by a person
	Proof     string // what its tests came to, in words; "" says nothing of it
}

// Does are the tasks that are done by it.
func (w Wave) Does() (ids []string) {
	for _, i := range slices.Concat(w.Brings, w.Unchanged) {
		ids = append(ids, i.ID)
	}
	return ids
}

// Line is the subject: the title of the one task whose commit it is, or how far the wave is: complete if all its tasks
// are done. A commit that only records given-up tasks adds no feature.
func (w Wave) Line() string {
	switch {
	case w.Subject != "":
		return oneline.Text(w.Subject)
	case w.PerTask && len(w.Brings) == 1:
		return fmt.Sprintf("feat(%s): %s", w.Tag, oneline.Text(w.Brings[0].Title))
	}
	kind, more := "feat", ""
	if len(w.Brings) == 0 {
		kind = "chore"
	}
	if w.Continued && !w.PerTask {
		more = " continued"
	}
	switch what := fmt.Sprintf("%s(%s): ", kind, w.Tag); {
	case w.Done == w.Of && more != "":
		return fmt.Sprintf("%scomplete wave %d (continued)", what, w.Number)
	case w.Done == w.Of:
		return fmt.Sprintf("%scomplete wave %d", what, w.Number)
	case w.Done == 0:
		return fmt.Sprintf("%swave %d blocked", what, w.Number)
	default:
		return fmt.Sprintf("%swave %d%s, %d of %d tasks", what, w.Number, more, w.Done, w.Of)
	}
}

// Message is the whole of it. Its trailers name each task that is done by it, once.
func (w Wave) Message() string {
	var b strings.Builder
	b.WriteString(w.Line() + "\n\n")
	for _, i := range w.Brings {
		how := ""
		switch {
		case i.Accepted:
			how = " (accepted)"
		case i.Proof != "":
			how = " (" + oneline.Text(i.Proof) + ")"
		}
		fmt.Fprintf(&b, "- %s %s%s\n", i.ID, oneline.Text(i.Title), how)
	}
	for _, i := range w.Unchanged {
		fmt.Fprintf(&b, "- %s %s (unchanged)\n", i.ID, oneline.Text(i.Title))
	}
	for _, i := range w.Blocked { // why is in the report
		fmt.Fprintf(&b, "- %s %s (blocked)\n", i.ID, oneline.Text(i.Title))
	}
	fmt.Fprintf(&b, "\nDescartes-Loop: %s\nDescartes-Wave: %d\n", w.Loop, w.Number)
	for _, i := range slices.Concat(w.Brings, w.Unchanged) {
		b.WriteString(gitops.Named{Tag: w.Tag, Task: i.ID}.Trailer() + "\n")
	}
	b.WriteString(gitops.Named{List: w.List}.Place())
	if w.Cost != "" {
		fmt.Fprintf(&b, "Descartes-Cost: %s\n", w.Cost)
	}
	return b.String()
}
