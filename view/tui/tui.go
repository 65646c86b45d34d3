// Package tui owns the live view of a loop on a terminal: the waves of a tag, or the iterations of a prompt. It
// follows the loop's journal and nothing else, so that it shows a loop of this process, one in the background or in
// another terminal, and one that has ended, in the same way, and none of them waits for it.
package tui

import (
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/view"
)

// Options say what is shown, where, and what a person can do from there. A function that is nil is not offered.
type Options struct {
	Root string
	Find func() (*store.Saved, error) // the loop; nil while it has no state file yet
	Here bool                         // it runs in this process: whoever leaves decides what becomes of it

	In  *os.File
	Out io.Writer
	Env []string
	Now func() time.Time

	// what Ctrl-C does; nil: it leaves the view
	Interrupt func()
	Request   func(r store.Request, now bool) (said string, err error) // pause, cancel
	// what was asked, as long as it has not happened
	TakeBack func(r store.Request) (said string, err error)
	// what its agent asked; a blocked task is tried again with it, or with ""
	Answer func(task, text string) (said string, err error)
	// a loop whose gate asks is resumed with yes, in the background
	Proceed func() (said string, err error)
	Spec    func(ctx context.Context, a *journal.Attempt) (string, error) // what its agent was given
	Diff    func(ctx context.Context, a *journal.Attempt) (string, error) // what it changed
	Log     func(a *journal.Attempt, width int) (string, error)           // the end of what it printed
	Action  func(a *journal.Attempt) string                               // what it does now, in a line
}

// View is a live view on a terminal.
type View struct {
	program *tea.Program
	over    chan struct{}
	work    sync.WaitGroup
	err     error
}

// Start shows a loop. The caller closes the view.
func Start(opt Options) *View {
	v := &View{over: make(chan struct{})}
	m := newModel(opt, unicodeIn(opt.Env))
	v.program = tea.NewProgram(m, tea.WithInput(opt.In), tea.WithOutput(opt.Out), tea.WithEnvironment(opt.Env),
		tea.WithoutSignalHandler())
	ctx, stop := context.WithCancel(context.Background())
	v.work.Go(func() { v.follow(ctx, opt) })
	go func() {
		defer close(v.over)
		_, v.err = v.program.Run()
		stop()
		v.work.Wait()
	}()
	return v
}

// follow sends the model the run once it has a state file, and then what is written to its journal.
func (v *View) follow(ctx context.Context, opt Options) {
	view.Follow(ctx, opt.Root, opt.Find, func(l *view.Loop, events []journal.Event, err error) {
		v.program.Send(seenMsg{l, events, err})
	})
}

// Done is closed when the view is gone: a person left it, or the terminal is gone.
func (v *View) Done() <-chan struct{} { return v.over }

// Close ends the view once nobody writes an answer any more, or ctx ends. The terminal is what it was when it returns.
func (v *View) Close(ctx context.Context) error {
	defer context.AfterFunc(ctx, v.program.Quit)()
	v.program.Send(closeMsg{})
	<-v.over
	return v.err
}

// Say shows a line that a person should read.
func (v *View) Say(text string) { go v.program.Send(sayMsg(text)) }

// Ask asks a question whose usual answer is yes. gone says that the view ended before it was answered.
func (v *View) Ask(ctx context.Context, question string, stop <-chan struct{}) (yes, answered, gone bool) {
	reply := make(chan bool, 1)
	go v.program.Send(askMsg{question, reply})
	select {
	case yes = <-reply:
		return yes, true, false
	case <-v.over:
		return false, false, true
	case <-ctx.Done():
	case <-stop:
	}
	go v.program.Send(askMsg{})
	return false, false, false
}

// unicodeIn reports whether the locale of an environment has more letters than ASCII.
func unicodeIn(env []string) bool {
	set := map[string]string{}
	for _, line := range env {
		name, value, _ := strings.Cut(line, "=")
		set[name] = value
	}
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := set[name]; v != "" {
			v = strings.ToLower(strings.ReplaceAll(v, "-", ""))
			return strings.Contains(v, "utf8")
		}
	}
	return false
}

type (
	seenMsg struct { // of its journal
		loop   *view.Loop // nil with an error
		events []journal.Event
		err    error
	}
	sayMsg   string
	closeMsg struct{} // the run is over
	askMsg   struct {
		question string // "": nobody waits for the answer any more
		reply    chan<- bool
	}
	actionsMsg map[journal.Key]string
	textMsg    struct { // what a page shows
		page *page
		of   *journal.Attempt
		text string
		err  error
	}
	doneMsg struct { // of something that a person asked for
		said string
		err  error
	}
)
