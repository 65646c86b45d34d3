package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"descartes/agent/process"
	"descartes/config"
	"descartes/internal/atomicfile"
	"descartes/internal/awake"
	"descartes/internal/oneline"
	"descartes/internal/redact"
	"descartes/internal/terminal"
	"descartes/launch"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/gate"
	"descartes/loop/journal"
	"descartes/loop/mode"
	"descartes/loop/store"
	"descartes/tasks"
	"descartes/view"
	"descartes/view/notify"
	"descartes/view/print"
)

// prepare is launch.Prepare, which a signal ends with what it has started: git may wait for a remote, or for a hook.
func prepare(ctx context.Context, w launch.Want) (*launch.Run, launch.Problems, error) {
	var signals []os.Signal
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		if !signal.Ignored(s) {
			signals = append(signals, s)
		}
	}
	if len(signals) == 0 { // NotifyContext would take that for all there are
		r, found := launch.Prepare(ctx, w)
		return r, found, nil
	}
	ctx, stop := signal.NotifyContext(ctx, signals...)
	defer stop()
	context.AfterFunc(ctx, stop) // the next one ends us at once
	r, found := launch.Prepare(ctx, w)
	if ctx.Err() == nil {
		return r, found, nil
	}
	return r, nil, interrupted(ctx, "interrupted while starting, nothing was started")
}

// execute prepares a run of any kind, does it, and reports.
func execute(cmd *cobra.Command, s *settings, w launch.Want) error {
	ctx := cmd.Context()
	p := newPrinter(cmd.OutOrStdout(), cmd.ErrOrStderr(), s.JSON, s.CI)
	p.times = s.Times
	defer p.close()
	w = s.want(cmd, w)
	w.Fetches = !s.DryRun
	r, found, err := prepare(ctx, w)
	defer r.Close()
	p.text.redact = r.Redact
	if err != nil {
		return err
	}
	if len(found) > 0 {
		return cmp.Or(s.reportIdle(r, p, problems(found)), error(problems(found)))
	}
	if r.Idle {
		where := ""
		if len(r.Tag.Ahead) > 0 {
			where = " on the branch " + r.Options.Branch
		}
		p.say("nothing left to do in tag %s%s: %s done", r.Name(), where,
			terminal.Count(r.Tag.Graph.Counts().Total, "task"))
		if r.Pushed != "" {
			p.say("the branch %s is pushed now, which an earlier run could not do", r.Pushed)
		}
		if r.Unpushed != "" {
			p.warn(r.Unpushed)
		}
		if text := r.Elsewhere(ctx); text != "" {
			p.say("%s", terminal.Clean(text))
		}
		if left := r.Tag.LeftOut(); tasks.LeftOpen(r.Tag.Account()) {
			return badInput("make tasks of these lines, or tick them; descartes tasks check"+
				listFlags(r.Root, r.Name(), r.Tag.Config.Scud.TasksFile)+" names them all", "nothing else is left to do, but %s", left)
		}
		return s.reportIdle(r, p, nil)
	}
	notices, err := noticesOf(r, p)
	if err != nil {
		return err
	}
	defer notices.End()
	if p.events.Usual = r.Config.Backend.Type; r.Tag != nil {
		p.events.Waves = len(r.Tag.Graph.Waves())
	}
	p.header(r)
	if s.DryRun {
		return dry(cmd, r, p, s.JSON)
	}
	var h *person
	if r.Tag != nil || r.Prompt.Gate != nil && !r.Config.Promised() {
		h = atTerminal(cmd, p, s.CI)
	}
	agrees(ctx, r, p, h)
	said := p.writer(cmd.ErrOrStderr())
	defer said.Flush()
	c := conduct{r: r, s: s, p: p, h: h, notices: notices}
	if c.once = mode.Kind(w.Kind); w.Once != "" || r.Mode != nil {
		c.log = &mode.Session{Root: r.Root, Kind: c.once, Run: r.Mode,
			Task: strings.TrimPrefix(r.Config.Git.CommitTemplate, "prompt: iteration 1 - "),
			Show: func(w io.Writer) mode.Shown { return readable(w, r.Backends[0].Format, r.Root) }, People: said,
			Redact: r.Redact, Began: time.Now()}
		c.said = said
	} else {
		c.once = ""
	}
	return c.run(cmd)
}

// want completes what a command wants run.
func (s *settings) want(cmd *cobra.Command, w launch.Want) launch.Want {
	w.Settings, w.Dir, w.Stdin, w.Fleet, w.VerifyFrom, w.Front = &s.Settings, s.dirPath(), cmd.InOrStdin(),
		&fleetRun{}, s.verifyFrom, s.front
	o := &w.Options
	o.Command, o.Own, o.Anew, o.Session = cmp.Or(o.Command, "loop"), s.reports(), s.asksAnew(), session()
	return w
}

// header tells what is about to run, and what is odd about it.
func (p *printer) header(r *launch.Run) {
	for _, l := range r.Lines() {
		p.say("%s: %s", l.Name, l.Text)
	}
	for _, n := range r.Notes {
		p.say("note: %s", terminal.Clean(n))
	}
	for _, w := range r.Warnings {
		p.warn(w)
	}
}

// dry tells the rest of what a run would do.
func dry(cmd *cobra.Command, r *launch.Run, p *printer, asJSON bool) error {
	var plan *view.GatePlan
	if g := r.Criteria(); g != nil {
		plan = view.NewGatePlan(g, *r.Config)
	}
	var b *view.Board
	if r.Tag != nil {
		var err error
		if b, err = view.NewBoard(r.Tag); err != nil {
			return err
		}
	}
	switch {
	case b != nil && asJSON:
		return writeJSON(cmd.OutOrStdout(), b.Report())
	case asJSON:
		w := r.Redact.Writer(cmd.OutOrStdout())
		err := writeJSON(w, struct {
			Kind    string         `json:"kind"`
			Root    string         `json:"root"`
			Command []string       `json:"command"`
			Config  *config.Config `json:"config"`
			Gate    *view.GatePlan `json:"gate,omitempty"`
		}{r.Kind, r.Root, r.Backends[0].Command, r.Config, plan})
		return errors.Join(err, w.Flush())
	case b != nil:
		p.say("")
		fmt.Fprint(p.text, print.Waves(b, p.paint, p.width))
	default:
		text := r.Config.Prompt
		if r.Mode != nil {
			text = cmp.Or(r.Mode.Preview(r.Config.MaxIterations), text)
		}
		p.say("\n%s", terminal.CleanLines(strings.TrimRight(text, "\n")))
		if plan != nil {
			p.tell(plan.Text())
		}
	}
	p.say("\ndry run: nothing was touched")
	return nil
}

// agrees asks a person at the terminal what is to become of a file that a criteria loop writes.
func agrees(ctx context.Context, r *launch.Run, p *printer, h *person) {
	c := r.Config
	switch {
	case !r.Anew || r.Tag != nil:
	case c.Gate != loop.GateCriteria:
	case h != nil && c.LoopState == "":
		yes, answered := h.ask(ctx, strings.TrimSuffix(gate.Disclosure, " [Y/n]"))
		if answered {
			c.LoopState = map[bool]string{true: loop.LoopStateDelete, false: loop.LoopStateKeep}[yes]
		}
	default:
		p.say("%s", map[string]string{loop.LoopStateDelete: gate.Disclosure + " y",
			loop.LoopStateKeep: gate.Disclosure + " n",
			"": gate.Disclosure +
				" n, but descartes cancel deletes it (--set loop_state=keep or delete answers otherwise)"}[c.LoopState])
	}
}

// noticesOf prepares the notices of a run. The caller ends them when everything is reported.
func noticesOf(r *launch.Run, p *printer) (*notify.Notifier, error) {
	bell := func() {
		if p.text.term != nil {
			_, _ = p.text.term.Write([]byte{'\a'}) // a screen never fails
		}
	}
	n, err := notify.New(notify.Options{Targets: r.Config.Notify, On: r.Config.NotifyOn, Env: os.Environ(),
		Redact: r.Redact, Bell: bell, Warn: p.warn, Confine: r.Notice})
	if err != nil {
		return nil, badInput("", "%w", err)
	}
	return n, nil
}

// conduct is a prepared run while it works, with everybody who follows it.
type conduct struct {
	r       *launch.Run
	s       *settings
	p       *printer
	h       *person
	notices *notify.Notifier
	once    mode.Kind     // of plan, build and prompt
	log     *mode.Session // nil for the others
	said    *liveWriter   // where what the agents say is printed as they say it; nil: nowhere
}

// code is the exit status of an outcome.
func (c *conduct) code(out loop.Outcome) int {
	if c.r.Tag != nil {
		return exitCode(out, out.Blocked)
	}
	return promptCode(c.once, out)
}

// run does the run and tells how it ended.
func (c *conduct) run(cmd *cobra.Command) error {
	r, p, s := c.r, c.p, c.s
	e, took, err := c.work(cmd)
	if e.State == nil {
		return err
	}
	ctx := context.WithoutCancel(cmd.Context())
	more, board := view.Closing{Step: r.Options.Scope.Step, Took: took, Later: r.Tag != nil && !r.Anew,
		Update: r.Updates(ctx, e)}, (*view.Board)(nil)
	if n := r.Occupied(); n > 1<<30 {
		more.Pool = process.Size(n)
	}
	if r.Tag != nil {
		board = boardAfter(r, e.State)
		said, serr := store.NewHome(r.Root).Said(r.Tag.Key())
		if serr != nil {
			p.warn(serr.Error())
		}
		board.Hear(said.Asked)
	}
	if r.Repo != nil && (len(e.State.BlockedTasks) > 0 || e.Ending == journal.GitRefused ||
		e.Ending == journal.TrunkGone) {
		refs, rerr := r.Repo.Refs(ctx, "refs/descartes/"+e.ID+"/")
		if rerr != nil {
			p.warn(rerr.Error())
		}
		more.Kept = refs
	}
	sum := view.Ended(c.reported(e), board, more)
	lookAround(ctx, sum)
	if e.Baseline == nil {
		p.tell(print.Summary(sum, p.paint, p.box))
	}
	code := c.code(e.Outcome)
	if c.log != nil {
		switch path, err := c.log.Close(e.Outcome, code); {
		case err != nil:
			p.warn(err.Error())
		case path != "":
			p.say("session log: %s", store.Relative(r.Root, path))
		}
	}
	p.close()
	if err = errors.Join(err, s.report(sum, p, r.Redact)); err != nil || code == exitDone {
		return err
	}
	return s.ends(code, p)
}

// reported is a run that is over as its reports take it.
func (c *conduct) reported(e launch.Ended) view.Run {
	return view.Run{Here: fromHere(c.r.Root), Root: c.r.Root, Outcome: e.Outcome, ID: e.ID, Path: e.Path,
		State: e.State, History: e.History, Loose: e.Loose}
}

// keepAwake keeps the machine awake until release is called, where the settings want it, and says so. A CI job's machine
// has nobody's lid.
func (c *conduct) keepAwake() (release func()) {
	if !c.s.KeepAwake || c.s.CI {
		return func() {}
	}
	release, held := awake.Hold(c.r.Root)
	if held {
		c.p.say("this machine stays awake while the run works (--keep-awake=false lets it sleep)")
	}
	return release
}

// boardAfter is the board when a run is over: the graph was kept up to date by the run itself.
func boardAfter(r *launch.Run, st *store.State) *view.Board {
	return &view.Board{Root: r.Root, Scud: r.Config.Scud, File: r.Tag.File, Graph: r.Tag.Graph,
		Commits: st.WaveCommits, Grades: st.Grades, Here: fromHere(r.Root, r.Config.Scud.TasksFile)}
}

// work runs it, and reports to people meanwhile.
func (c *conduct) work(cmd *cobra.Command) (e launch.Ended, took time.Duration, err error) {
	r, p := c.r, c.p
	home, began := store.NewHome(r.Root), time.Now()
	in := interrupts{unit: view.Unit(r.Kind)}
	p.view = c.view(cmd, &in)
	ctx, stop := in.watch(cmd.Context(), func(text string) { p.say("%s", text) })
	defer p.view.end(ctx)
	waits := context.AfterFunc(ctx, func() { close(p.cut) })
	var followers inOrder
	asked, first := func() {}, sync.Once{}
	h := launch.Hooks{Soft: in.soft, Program: "descartes " + version(),
		Code: func(out loop.Outcome) int { return c.s.exits(c.code(out)) }}
	observe := c.s.letGo(r.Root, p, func(e journal.Event) {
		p.view.begin(e.Loop)
		c.notices.Begin(r.Root, e.Loop)
		p.observe(e)
		if c.log != nil {
			c.log.Observe(e)
		}
	})
	h.Observe = func(e journal.Event) {
		in.saw(e)
		first.Do(func() {
			asked = (&requestTeller{home: home, id: e.Loop, kind: r.Kind, say: func(text string, args ...any) {
				followers.add(func() { p.say(text, args...) })
			}}).watch(in.underway.Load)
		})
		if e.Type == journal.LoopPaused || e.Type == journal.LoopFinished { // the run forgets a request as it ends
			asked()
		}
		followers.add(func() { observe(e) })
	}
	if c.h != nil {
		c.h.soft, h.Ask = in.soft, func(ctx context.Context, question string) (yes, answered bool) {
			followers.reach() // the view may be about to begin
			return c.h.ask(ctx, question)
		}
	}
	release := c.keepAwake()
	e, err = r.Do(ctx, h)
	release()
	asked()
	followers.wait()
	p.view.end(ctx)
	cut := context.Cause(ctx)
	waits()
	stop()
	if e.State == nil {
		return e, 0, cutShort(cut, err)
	}
	if b := e.Baseline; b != nil {
		p.close()
		log := home.NamedLog(e.ID, "baseline")
		var denied []string
		if r.Config.Confined() {
			denied = attempt.Denied(r.Root, nil, log, nil)
		}
		tellBaseline(r.Redact.Writer(cmd.ErrOrStderr()), b, store.Relative(r.Root, log), denied)
	}
	return e, time.Since(began), err
}

// inOrder does one thing after the other in a goroutine of its own: a run never waits for those who follow it.
type inOrder struct {
	mu   sync.Mutex
	next []func() // what is being done first
	work sync.WaitGroup
}

func (q *inOrder) add(do func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.next = append(q.next, do); len(q.next) == 1 {
		q.work.Go(q.run)
	}
}

func (q *inOrder) run() {
	for more := true; more; {
		q.mu.Lock()
		do := q.next[0]
		q.mu.Unlock()
		do()
		q.mu.Lock()
		q.next = q.next[1:]
		more = len(q.next) > 0
		q.mu.Unlock()
	}
}

// reach returns when everything is done that was added before.
func (q *inOrder) reach() {
	done := make(chan struct{})
	q.add(func() { close(done) })
	<-done
}

// wait returns when everything is done.
func (q *inOrder) wait() { q.work.Wait() }

// view is that of the run; nil where lines are printed.
func (c *conduct) view(cmd *cobra.Command, in *interrupts) *runView {
	tty, ok := viewable(cmd, c.p, c.s.Plain || c.s.CI)
	if !ok {
		return nil
	}
	v := &runView{p: c.p}
	if c.said != nil && c.said.term != nil { // else it is read elsewhere, and goes on there
		v.said = c.said
	}
	home := store.NewHome(c.r.Root)
	v.opt = viewed{c.r.Root, func() (*store.Saved, error) { return home.Find(v.id) }}.options(tty, c.p)
	v.opt.Here, v.opt.Interrupt = true, in.press
	return v
}

// tellBaseline says why a run was refused whose verify command fails before any task.
func tellBaseline(w *redact.Writer, b *loop.Baseline, log string, denied []string) {
	fmt.Fprintf(w, "error: %s\n", terminal.Clean(b.Reason()))
	lines := b.Output()
	// the line that says how
	if why := b.Result.Why; why != "" && !slices.ContainsFunc(lines,
		func(l string) bool { return strings.Contains(l, why) }) {
		lines = append([]string{why, "..."}, lines...)
	}
	for _, line := range lines {
		fmt.Fprintf(w, "  %s\n", terminal.Clean(line))
	}
	fmt.Fprintf(w, "all of it: %s\n", terminal.Clean(log))
	for _, line := range denied {
		fmt.Fprintf(w, "the sandbox refused %s\n", terminal.Clean(line))
	}
	if len(b.Dangling) > 0 {
		fmt.Fprintf(w, "links that lead somewhere in your tree and nowhere in slot %d: %s\n", b.Slot,
			terminal.Clean(oneline.List(b.Dangling)))
	}
	if b.Slot > 0 {
		fmt.Fprintf(w, "it ran in slot %d, a copy of the project: if it passes in your own tree, the copy lacks something\n", b.Slot)
	}
	fmt.Fprintf(w, "no agent ran\nhint: %s\n", terminal.Clean(b.Hint()))
	_ = w.Flush()
}

// reportIdle writes the reports that were asked for where no loop runs because none is needed, or because everything
// left is blocked: a nightly job collects them each night.
func (s *settings) reportIdle(r *launch.Run, p *printer, refused problems) error {
	none := len(refused) > 0 && refused.code() == exitBlocked
	if s.DryRun || r.Tag == nil || len(refused) > 0 && !none {
		return nil
	}
	e := view.Run{Here: fromHere(r.Root), Root: r.Root, Outcome: loop.Outcome{Ending: journal.AllDone,
		Message: "nothing left to do"}, History: journal.NewState(),
		State: &store.State{Tag: r.Name(), Config: *r.Config}}
	if none {
		e.Outcome = loop.Outcome{Ending: journal.TasksBlocked, Message: refused[0].Message}
	}
	for _, path := range s.reports() {
		if _, in := launch.Below(filepath.Join(r.Root, ".descartes"), path); !in {
			continue
		}
		if err := store.NewHome(r.Root).Make(atomicfile.OS()); err != nil { // a fresh clone has none
			return err
		}
	}
	return s.report(view.Ended(e, boardAfter(r, e.State), view.Closing{}), p, r.Redact)
}

// requestTeller shows what another terminal asks of a live loop, once.
type requestTeller struct {
	home     store.Home
	id, kind string
	say      func(string, ...any)
	told     string
}

// tell shows a request that was not shown yet.
func (t *requestTeller) tell(p view.Pending) {
	p.Asked, p.Now = t.home.Asked(t.id)
	p.Kind = t.kind
	if text := p.Text(); text != "" && text != t.told {
		t.told = text
		t.say("%s", text)
	}
}

// watch tells until stop is called, which is told what the loop may have seen first.
func (t *requestTeller) watch(underway func() bool) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(300 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				if t.told == "" {
					t.tell(view.Pending{Underway: underway()})
				}
				return
			case <-tick.C:
				t.tell(view.Pending{Underway: underway()})
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(quit)
		<-done
	})
}
