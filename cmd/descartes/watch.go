package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"descartes/agent/render"
	"descartes/gitops"
	"descartes/internal/plainfile"
	"descartes/internal/terminal"
	"descartes/launch"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/view"
	"descartes/view/tui"
)

func newWatchCmd() *cobra.Command {
	var a app
	var plain bool
	cmd := &cobra.Command{
		Use: "watch [run]", Aliases: []string{"attach"}, // which was plain
		Short: "Show a run live: what is done, what runs, logs, specs and diffs",
		Long: `Show a run live: the one named, the one under way, or the last. It is the view that run has at a
terminal; ? there lists its keys. Leaving it does not stop the run.

Without a terminal, and with --plain, it prints a line for each event until the run ends; --plain ends with the
run's exit code.
`,
		Args: takes(0, 1, "at most one run"),
		RunE: a.does(func(args []string) error {
			name := oneArg(args, "")
			if _, _, err := liveOne(a.home, name); err != nil { // several
				return err
			}
			s, err := a.loop(name)
			if err != nil {
				return err
			}
			return a.watch(s, plain || a.cmd.CalledAs() == "attach")
		}),
	}
	a.flags(cmd, "print the events as JSON lines, until the run ends")
	cmd.Flags().BoolVar(&plain, "plain", false, "a line for each event, even at a terminal")
	return cmd
}

// watch shows a loop until it ends, or until a person leaves.
func (a *app) watch(s *store.Saved, plain bool) error {
	p := newPrinter(a.out(), a.cmd.ErrOrStderr(), a.json, false)
	defer p.close()
	f := &follower{root: a.root, home: a.home, saved: s, p: p, run: journal.NewState(), ends: plain || a.json}
	in, ok := viewable(a.cmd, p, plain)
	if !ok {
		return f.follow(a.ctx())
	}
	opt := viewed{a.root, func() (*store.Saved, error) { return s, nil }}.options(in, p)
	ctx, stop := signal.NotifyContext(a.ctx(), syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	v := tui.Start(opt)
	select {
	case <-v.Done():
	case <-ctx.Done():
	}
	if err := v.Close(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("show the run: %w", err)
	}
	if a.home.IsLive(*s) {
		p.say("%s", f.leaves())
		return nil
	}
	events, err := journal.ReadEvents(a.home.Events(s.State.ID))
	if err != nil {
		return err
	}
	for _, e := range events {
		f.see(e)
	}
	return f.over(ctx)
}

// viewable is the terminal that a view reads keys from; ok is false where there is no person, or one who wants plain
// lines, and where the terminal cannot do more than those.
func viewable(cmd *cobra.Command, p *printer, plain bool) (in *os.File, ok bool) {
	in, ok = cmd.InOrStdin().(*os.File)
	term := os.Getenv("TERM")
	ok = ok && !plain && p.lines == nil && p.text.term != nil && terminal.IsTerminal(in) && term != "" &&
		term != "dumb" && terminal.Columns(in) > 0
	return in, ok
}

// runView is the view of a run of this process, from its first event on. A nil one is no view.
type runView struct {
	opt  tui.Options
	p    *printer
	said *liveWriter // what the agents say; nil where that is not printed
	id   string
	view atomic.Pointer[tui.View]
	over atomic.Bool // the run has ended
	left sync.WaitGroup
	late *time.Timer
	once sync.Once
}

// viewAfter is how long a run lasts before it is shown: one that ends at once would only flash.
const viewAfter = 300 * time.Millisecond

// begin has the loop shown when it has lasted a moment.
func (v *runView) begin(id string) {
	if v != nil && v.id == "" {
		v.id = id
		v.late = time.AfterFunc(viewAfter, func() { v.once.Do(v.start) })
	}
}

func (v *runView) start() {
	for _, w := range v.writers() {
		w.Flush()
		w.hold()
	}
	view := tui.Start(v.opt)
	v.view.Store(view)
	v.left.Go(func() {
		<-view.Done()
		v.view.Store(nil)
		over := v.over.Load()
		for _, w := range v.writers() {
			w.release(!over)
		}
		if !over {
			v.p.tell("the run keeps running here, in plain lines; descartes watch shows it again\n")
		}
	})
}

// writers are those that the view takes the terminal from.
func (v *runView) writers() []*liveWriter {
	if v.said == nil {
		return []*liveWriter{v.p.text}
	}
	return []*liveWriter{v.p.text, v.said}
}

// end takes the view away: the run is over. An answer that is being written may be finished, until ctx ends.
func (v *runView) end(ctx context.Context) {
	if v == nil || v.late == nil {
		return
	}
	v.over.Store(true)
	v.once.Do(func() {}) // it has not begun, and does not any more
	if view := v.view.Load(); view != nil {
		if err := view.Close(ctx); err != nil {
			v.p.text.release(false)
			v.p.warn("the live view: " + err.Error())
		}
	}
	v.left.Wait()
}

func (v *runView) say(text string) {
	if v == nil {
		return
	}
	if view := v.view.Load(); view != nil {
		view.Say(text)
	}
}

// ask asks the person who looks at the view; asked is false where nobody does any more.
func (v *runView) ask(ctx context.Context, question string, stop <-chan struct{}) (yes, answered, asked bool) {
	if v == nil || v.late == nil {
		return false, false, false
	}
	v.once.Do(v.start)
	view := v.view.Load()
	if view == nil {
		return false, false, false
	}
	yes, answered, gone := view.Ask(ctx, question, stop)
	if gone {
		v.left.Wait()
	}
	return yes, answered, !gone
}

// viewed is a loop that is shown.
type viewed struct {
	root string
	find func() (*store.Saved, error) // nil while it has no state file
}

// options are what the view shows, and what can be done from there: with the commands that a person would type.
func (v viewed) options(in *os.File, p *printer) tui.Options {
	request := func(r store.Request, flags ...string) (string, error) {
		return v.runs("", func(s *store.Saved) []string { return append([]string{string(r), s.State.ID}, flags...) })
	}
	return tui.Options{Root: v.root, In: in, Out: viewScreen{p.text.term, p.text.term.W.(*os.File)}, Env: os.Environ(),
		Find: v.find,
		Request: func(r store.Request, now bool) (string, error) {
			return request(r, map[bool][]string{true: {"--now"}}[now]...)
		},
		TakeBack: func(r store.Request) (string, error) { return request(r, "--undo") },
		Proceed: func() (string, error) {
			return v.runs("", func(s *store.Saved) []string {
				return []string{"resume", "--name", s.State.ID, "--yes", "--detach"}
			})
		},
		Answer: func(task, text string) (string, error) {
			return v.runs(cmp.Or(text, "Try it again."), func(s *store.Saved) []string {
				c := view.ListOf(s.State)
				args := []string{"answer", "--tag", c.Tag}
				if c.TasksFile != "" {
					args = append(args, "--tasks-file", c.TasksFile)
				}
				return append(args, "--", task, "-")
			})
		},
		Spec: v.spec, Diff: v.diff, Log: v.log, Action: v.action,
	}
}

// viewScreen is the terminal as the view writes to it: writes never block.
type viewScreen struct {
	*terminal.Screen
	*os.File
}

func (s viewScreen) Write(p []byte) (int, error) { return s.Screen.Write(p) }

func (v viewed) found() (*store.Saved, error) {
	s, err := v.find()
	if err == nil && s == nil {
		err = errors.New("the run is still starting")
	}
	return s, err
}

// runs types a command about the loop, and returns what it prints as one line.
func (v viewed) runs(stdin string, args func(*store.Saved) []string) (string, error) {
	s, err := v.found()
	if err != nil {
		return "", err
	}
	text, err := runSelf(context.Background(), v.root, stdin, args(s)...)
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", "; "), err
}

// spec is what the agent of an attempt was given, or of the task's next one.
func (v viewed) spec(ctx context.Context, a *journal.Attempt) (string, error) {
	s, err := v.found()
	if err != nil {
		return "", err
	}
	home := store.NewHome(v.root)
	if a.Iteration > 0 {
		return loop.IterationPrompt(home, launch.PoolOf(v.root), s.State, a)
	}
	job, found := source.Load(v.root, s.State.Config)
	if job == nil {
		return "", problems(found)
	}
	var kept view.Kept
	if repo, rerr := openRepo(ctx, v.root); rerr == nil {
		kept.List = store.ListOf(job.File, repo.Root())
		kept.Refs, err = repo.Refs(ctx, "refs/descartes/")
		if err = errors.Join(err, repo.Close()); err != nil {
			return "", err
		}
	}
	req, err := source.NextSpec(home, s.State.ID, kept.List, a.Task, a.Number, kept.Refs)
	if err != nil {
		return "", err
	}
	spec, err := job.Spec(req)
	return spec.Text, err
}

// maxPatch is how much of a diff is shown.
const maxPatch = 1 << 20

// diff is what an attempt changed.
func (v viewed) diff(ctx context.Context, a *journal.Attempt) (string, error) {
	if a.After == "" || a.Before == "" {
		return "the diff is there when the attempt has ended", nil
	}
	repo, err := openRepo(ctx, v.root)
	if err != nil {
		return "", err
	}
	defer repo.Close()
	text, err := repo.Patch(ctx, gitops.Tree(a.Before), gitops.Tree(a.After), maxPatch)
	if err == nil && text == "" {
		text = "no file was changed"
	}
	return text, err
}

// How much of the end of a log is read: for a page, and for what an agent does now.
const (
	logTail    = 512 << 10
	actionTail = 64 << 10
)

// log is the end of what an attempt printed, as a person reads it.
func (v viewed) log(a *journal.Attempt, width int) (string, error) {
	var b strings.Builder
	cut, err := v.render(a, logTail, func(i render.Item) {
		for _, l := range i.Lines(width) {
			b.WriteString(l + "\n")
		}
	})
	if cut {
		return "… what came before: descartes logs\n" + b.String(), err
	}
	return b.String(), err
}

// action is what an agent does now, in a line; "" where nobody knows.
func (v viewed) action(a *journal.Attempt) (last string) {
	_, _ = v.render(a, actionTail, func(i render.Item) { // what cannot be read is not known
		lines := i.Lines(0)
		if i.Kind == render.Result || i.Kind == render.Note || len(lines) == 0 {
			return
		}
		last = cmp.Or(strings.TrimSpace(lines[len(lines)-1]), last)
	})
	return last
}

// render reads the end of an attempt's log; cut says that there is more before it.
func (v viewed) render(a *journal.Attempt, tail int64, show func(render.Item)) (cut bool, err error) {
	s, err := v.found()
	if err != nil {
		return false, err
	}
	f, err := plainfile.Open("", logOf(store.NewHome(v.root), s.State.ID, a))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return false, err
	}
	from := max(0, fi.Size()-tail)
	data, err := io.ReadAll(io.NewSectionReader(f, from, tail))
	if err != nil {
		return false, err
	}
	if from > 0 { // begin with a whole line
		_, data, _ = bytes.Cut(data, []byte{'\n'})
	}
	r, err := newLogReader(v.root, s.State)
	if err != nil {
		return false, err
	}
	text := r.read(a.Backend, show)
	_, err = text.Write(data)
	return from > 0, errors.Join(err, text.Close())
}
