package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"descartes/agent"
	"descartes/config"
	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/slot"
	"descartes/verify"
)

// Client is the side of a run whose attempts are made elsewhere: a loop.Away. It can be given to the loop before
// Start, which needs the loop's locks and id.
type Client struct {
	opt     Options
	url     string
	remote  *remote
	release func()

	gone atomic.Pointer[error] // why the run has to end

	mu   sync.Mutex
	last map[int]*progress // attempt of each slot: when that has another one, the journal has its end
}

// Options say where a Client's orders go.
type Options struct {
	Repo    *gitops.Repo
	Remote  string        // name or URL
	Config  config.Config // without secrets
	Carrier Carrier
	Hello   Hello
	Note    func(string) // hears what a person should know while the run lasts
}

// Start makes the run the only one of its tag, and sees that the remote takes what it puts there. Close is for after
// that.
func (c *Client) Start(ctx context.Context, o Options) (err error) {
	c.opt, c.remote, c.last = o, newRemote(o.Repo, o.Remote, o.Note), map[int]*progress{}
	if c.url, _, err = o.Repo.RemoteURL(ctx, o.Remote); err != nil {
		return err
	}
	prefix, err := below(o.Hello.Loop)
	if err != nil {
		return err
	}
	o.Hello.Remote = c.url
	c.release, err = o.Carrier.Claim(ctx, o.Hello, o.Note, func(err error) { c.gone.Store(&err) })
	if err != nil {
		return err
	}
	head, _ := o.Repo.Head(ctx) // with the history that orders build on, where there is one
	ref := prefix + "run"
	if _, err = o.Repo.Keep(ctx, ref, o.Repo.EmptyTree(), []string{head.Hash},
		"descartes: a fleet works on this run"); err == nil {
		if err = o.Repo.Send(ctx, o.Remote, "+"+ref+":"+ref); err != nil {
			err = &slot.GitError{What: fmt.Sprintf("push to the remote %s, below refs/descartes", o.Remote),
				Err: err}
		}
	}
	if err != nil {
		c.release()
	}
	return err
}

// over is why the run has to end, or nil.
func (c *Client) over() error {
	if err := c.gone.Load(); err != nil {
		return *err
	}
	return nil
}

// Run has an attempt made.
func (c *Client) Run(ctx context.Context, o loop.Order, observe func(*attempt.Step) error) (res attempt.Result,
	err error) {
	ask := Ask{Remote: c.url, Loop: c.opt.Hello.Loop, Tag: o.Tag, Task: o.Task, Title: cut(o.Title, maxTitle),
		Wave: o.Wave, Try: o.Try, Limit: limit(&o.Input), Rank: o.Rank, Backend: o.Input.Backend}
	if ask.Needs, err = Labels(o.Input.Needs); err != nil {
		return res, fmt.Errorf("the needs of task %s: %w", o.Task, err)
	}
	if err := c.over(); err != nil {
		return res, err
	}
	p := &progress{c: c, o: o, observe: observe, run: o.Ref, n: o.Steps, answered: o.Told}
	if p.ref, err = refOf(ask.Loop, o.Task, o.Try); err != nil {
		return res, err
	}
	there := false
	if o.Again { // whoever was killed had kept it here before anybody could make it
		if ask.Commit, err = c.opt.Repo.RefCommit(p.ref); err == nil && ask.Commit == "" {
			return p.lost("descartes was stopped before the attempt was ordered")
		}
		_ = os.Remove(o.Input.Log) // all of it comes again
		p.ordered = ask.Commit
		if err == nil {
			err = c.remote.Do(ctx, reachFor, func() (err error) { there, err = c.remote.there(ctx, p.ref); return err })
		}
		if there {
			if out, err := p.fetch(ctx, &p.tip); err == nil && out.Result != nil {
				return p.take(ctx, &out)
			}
		}
	} else {
		ask.Commit, err = c.keep(ctx, p.ref, o)
	}
	if p.ordered = ask.Commit; err == nil {
		err = c.send(ctx, p, there)
	}
	switch {
	case err == nil:
	case ctx.Err() == nil:
		return res, &slot.GitError{What: fmt.Sprintf("send the order of task %s to the remote %s", o.Task,
			c.opt.Remote), Err: err}
	case o.Again: // it is for the next resume
		return res, err
	default:
		return p.lost("it was cancelled")
	}
	began := time.Now()
	var stop error              // why nobody waits for it any more
	var refused *attempt.Result // of an attempt that would wait for a quota longer than the run may
	kept, err := c.opt.Carrier.Carry(ctx, ask, func(r Report) error {
		if stop = c.over(); stop != nil {
			return stop
		}
		if r.Live.Run != "" {
			stop = p.live(ctx, r.Live)
		} else if stop = observe(&attempt.Step{Moment: attempt.Waits, Who: r.Wait.For,
			Until: r.Wait.Until}); stop == nil {
			p.placed = false
			if refused = c.tooLong(&r.Wait, began); refused != nil {
				return ErrDropped
			}
		}
		return stop
	})
	if refused != nil {
		return p.ended(*refused)
	}
	if stop != nil {
		return res, stop
	}
	gctx, done := attempt.Linger(ctx)
	defer done()
	var out Outcome
	p.tip = kept.Commit
	got := c.remote.Do(gctx, reachFor, func() (err error) { out, err = p.fetch(gctx, &p.tip); return err })
	switch {
	case got == nil && out.Result != nil: // also where the server did not hear of it
		return p.take(gctx, &out)
	case err != nil:
		return p.lost(cut(err.Error(), 1000))
	case gitops.Unreachable(got):
		return res, &slot.GitError{What: fmt.Sprintf("fetch the result of task %s from the remote %s", o.Task,
			c.opt.Remote), Err: got}
	case got == nil:
		return p.lost("its worker left no result on the remote " + c.opt.Remote)
	}
	return p.lost("its result cannot be taken: " + got.Error()) // it is gone, or not what was named
}

// send puts an order on the remote if it is not there, in the place of the attempt that the slot had before.
func (c *Client) send(ctx context.Context, p *progress, there bool) error {
	c.mu.Lock()
	before := c.last[p.o.Slot]
	c.last[p.o.Slot] = p
	c.mu.Unlock()
	if there {
		return nil
	}
	refspecs := []string{p.ordered + ":" + p.ref}
	if before != nil {
		refspecs = append(refspecs, ":"+before.ref)
		c.remote.forget(ctx, before.ref)
	}
	return c.remote.send(ctx, refspecs...)
}

// limit is after how many seconds an attempt is over at the latest, whatever becomes of its worker.
func limit(in *attempt.Input) int {
	// a check is run again where it is flaky
	sum := cmp.Or(in.Agent.Timeout, 24*time.Hour) +
		time.Duration(2*len(in.Checks))*cmp.Or(in.Clocks.Timeout, 24*time.Hour)
	return int((2*sum + time.Hour).Seconds())
}

// keep makes the commit of an order. What the attempt begins with is its parent, mostly the trunk's commit, and its
// folders: who fetches it has all that, and git, which looks for what the other side has in a commit's parents alone,
// sends none of it again with the result.
func (c *Client) keep(ctx context.Context, ref string, o loop.Order) (commit string, err error) {
	b, err := json.Marshal(Order{Version: version, Order: o, Config: c.opt.Config})
	if err != nil {
		return "", err
	}
	if len(b) > maxOrder {
		return "", fmt.Errorf("the order of task %s has %d bytes, more than %d", o.Task, len(b), maxOrder)
	}
	trees := []gitops.Tree{o.Start.Before, o.Start.Base, o.Input.Base}
	slices.Sort(trees)
	tree, err := c.opt.Repo.Bundle(ctx, map[string][]byte{orderFile: b}, slices.Compact(trees)...)
	if err != nil {
		return "", err
	}
	return c.opt.Repo.Keep(ctx, ref, tree, []string{o.At.Hash},
		fmt.Sprintf("descartes: attempt %d at task %s", o.Try, o.Task))
}

// take reports the steps that led to a result, and settles that.
func (p *progress) take(ctx context.Context, out *Outcome) (res attempt.Result, err error) {
	ctx = context.WithoutCancel(ctx) // it is made
	if err = p.place(out.Host, out.Run); err == nil {
		err = p.logs(ctx, out)
	}
	if err == nil {
		err = p.tell(out)
	}
	if err != nil {
		return *out.Result, err
	}
	return p.settle(ctx, out.Host, *out.Result)
}

// settle makes of a worker's result what the same attempt could have come to here: its work is all that differs from
// what it was given, without what no attempt may change, and the guard has seen it. A tree that nobody could check out
// fails the attempt.
func (p *progress) settle(ctx context.Context, host string, res attempt.Result) (attempt.Result, error) {
	repo, work, o := p.c.opt.Repo, &res.Work, &p.o
	res.Untaken = "" // that is not the worker's to say
	work.Before = o.Start.Before
	if o.Start.Whole && o.Start.Base != "" {
		work.Before = o.Start.Base
	}
	// no agent made them there
	if !hash.MatchString(work.Commits) || (o.At.Hash == "" || !repo.LeadsTo(ctx, work.Commits, o.At.Hash)) {
		work.Commits = ""
	}
	var undone []string
	same := work.Seen == work.After
	for _, tree := range []*gitops.Tree{&work.Seen, &work.After} {
		if same && tree == &work.After {
			work.After = work.Seen
			break
		}
		var err error
		*tree, undone, err = repo.Received(ctx, work.Before, cmp.Or(*tree, work.Before))
		if bad, ok := errors.AsType[*gitops.ReceivedError](err); ok {
			res.Work, res.Changed = slot.Result{Before: work.Before, Seen: work.Before, After: work.Before}, 0
			res.Untaken = fmt.Sprintf("the result of %s cannot be taken: %v", host, bad)
			if res.Verdict == verify.Verified || res.Verdict == verify.Failed {
				res.Verdict, res.Grade, res.Objection, res.Reason = verify.Failed, "", nil, res.Untaken
			}
			return res, nil
		}
		if err != nil {
			return res, err
		}
	}
	if len(undone) > 0 {
		line := fmt.Sprintf("the attempt on %s changed what no attempt may change, which was undone: %s", host,
			oneline.List(undone))
		if err := p.observe(&attempt.Step{Moment: attempt.Noted, Lines: []string{line}}); err != nil {
			return res, err
		}
	}
	changed, err := repo.Changed(ctx, work.Before, work.After)
	if err != nil {
		return res, err
	}
	work.Changed = slices.DeleteFunc(changed, func(one gitops.Change) bool {
		return slices.Contains(work.Left, one.Path)
	})
	return res, attempt.Again(ctx, repo, &o.Input, &res, p.observe)
}

// tooLong is the result of an attempt that would wait for a quota longer than the run waits; nil where it waits.
func (c *Client) tooLong(w *Wait, began time.Time) *attempt.Result {
	cfg := &c.opt.Config
	if w.Reason == "" || cfg.OnLimit != config.OnLimitStop && cfg.OnLimit != config.OnLimitFallback &&
		(cfg.MaxWaitSecs <= 0 || !w.Until.After(began.Add(time.Duration(cfg.MaxWaitSecs)*time.Second))) &&
		(cfg.Deadline == nil || !w.Until.After(*cfg.Deadline)) {
		return nil
	}
	return &attempt.Result{Agent: agent.Result{End: agent.Limited, Code: -1, Until: w.Until, Reason: w.Reason},
		Verdict: verify.Limited, Reason: w.Reason}
}

// lost is the result of an attempt that no worker brought to an end: it counts as interrupted.
func (p *progress) lost(why string) (attempt.Result, error) {
	return p.ended(attempt.Result{Agent: agent.Result{End: agent.Cancelled, Code: -1, Reason: why},
		Verdict: verify.Cancelled, Reason: why})
}

// ended is the result of an attempt that no worker began or brought to an end.
func (p *progress) ended(res attempt.Result) (attempt.Result, error) {
	res.Work.Before, res.Work.Seen, res.Work.After = p.o.Start.Before, p.o.Start.Before, p.o.Start.Before
	if p.answered {
		return res, nil
	}
	return res, p.observe(&attempt.Step{Moment: attempt.Answered, Result: &res})
}

// Close releases the tag. Where the run has ended, it removes from the remote what nobody needs there any more.
func (c *Client) Close(ctx context.Context, ended bool) error {
	defer c.release()
	if !ended {
		return nil
	}
	ctx, done := context.WithTimeout(ctx, patience)
	defer done()
	if err := c.remote.Do(ctx, patience, func() error { return c.clear(ctx) }); err != nil {
		c.opt.Note(fmt.Sprintf("what the run had put on the remote %s could not be removed (refs/descartes/%s/fleet): %v", c.opt.Remote, LoopName(c.opt.Hello.Loop), err))
	}
	return nil
}

// patience is how long the end of a run waits for the remote.
const patience = 20 * time.Second

// clear removes the attempts of a run that has ended: what came of them is kept under refs of the run's own.
func (c *Client) clear(ctx context.Context) error {
	prefix, err := below(c.opt.Hello.Loop)
	if err != nil {
		return err
	}
	there, err := c.opt.Repo.RemoteRefs(ctx, c.opt.Remote, prefix+"*")
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk(slices.Sorted(maps.Keys(there)), 100) {
		var gone []string
		for _, name := range chunk {
			gone = append(gone, ":"+name)
		}
		if err := c.opt.Repo.Send(ctx, c.opt.Remote, gone...); err != nil {
			return err
		}
	}
	refs, err := c.opt.Repo.Refs(ctx, prefix)
	if err != nil {
		return err
	}
	var mine []string
	for _, r := range refs {
		mine = append(mine, r.Name)
	}
	return c.opt.Repo.DeleteRefs(ctx, mine...)
}

// progress reports the steps of an attempt to its run, each of them once. Those of a worker that was lost are taken
// back when another one has the attempt.
type progress struct {
	c        *Client
	o        loop.Order
	observe  func(*attempt.Step) error
	ref      string
	ordered  string // commit of the order
	tip      string // of what is known
	run      string // of the worker whose steps the run knows
	n        int    // how many of them
	answered bool   // the agent's end is one of them
	placed   bool   // the run knows who has it
	size     int    // bytes of the worker's log that are here
}

// fetch brings the attempt's ref here, if it is still the commit that was named, and comes from the order.
func (p *progress) fetch(ctx context.Context, commit *string) (out Outcome, err error) {
	if err = p.c.remote.pull.move(ctx, p.ref+":"+p.ref); err == nil {
		err = p.c.remote.at(ctx, p.ref, p.ordered, commit)
	}
	if err != nil {
		return out, err
	}
	return outcomeAt(ctx, p.c.opt.Repo, *commit)
}

// place reports which worker has the attempt.
func (p *progress) place(host, run string) error {
	if p.placed && run == p.run {
		return nil
	}
	if p.placed = true; run != p.run {
		p.run, p.n, p.answered = run, 0, false
		if p.size > 0 {
			// as the log
			_ = write(p.o.Input.Log, os.O_APPEND, []byte("\n--- the worker was lost; "+host+" begins anew ---\n"))
			p.size = 0
		}
	}
	return p.observe(&attempt.Step{Moment: attempt.Placed, Who: host, Ref: run})
}

// live takes in what a worker reports so far. What cannot be read now comes with the result.
func (p *progress) live(ctx context.Context, l Live) error {
	if !runName.MatchString(l.Run) {
		return nil
	}
	if err := p.place(l.Host, l.Run); err != nil || l.Commit == "" {
		return err
	}
	p.tip = l.Commit
	out, err := p.fetch(ctx, &p.tip)
	if err != nil || out.Result != nil {
		return nil
	}
	_ = p.logs(ctx, &out)
	return p.tell(&out)
}

// tell reports those of a worker's steps that the run does not know.
func (p *progress) tell(out *Outcome) error {
	for i := p.n; i < len(out.Steps); i++ {
		s := &out.Steps[i]
		if s.Number = i + 1; s.Result == nil {
			s.Result = cmp.Or(out.Result, &attempt.Result{})
		}
		if s.Log != "" {
			s.Log = p.beside(s.Log)
		}
		p.answered = p.answered || s.Moment == attempt.Answered
		if err := p.observe(s); err != nil {
			return err
		}
		p.n = i + 1
	}
	return nil
}

// beside is where a further log of that name lies.
func (p *progress) beside(name string) string { return strings.TrimSuffix(p.o.Input.Log, "log") + name }

// logs writes what is new of a worker's log, and further ones.
func (p *progress) logs(ctx context.Context, out *Outcome) error {
	read := func(name string) []byte {
		b, err := p.c.opt.Repo.FileAt(ctx, p.tip, name, maxLog)
		if err != nil {
			return []byte(err.Error() + "\n")
		}
		return b
	}
	for _, name := range out.Beside {
		if err := write(p.beside(name), os.O_TRUNC, read(name)); err != nil {
			return err
		}
	}
	b := read(logFile)
	if len(b) <= p.size {
		return nil
	}
	err := write(p.o.Input.Log, os.O_APPEND, b[p.size:])
	if err == nil {
		p.size = len(b)
	}
	return err
}

func write(path string, how int, b []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|how, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(b)
	return errors.Join(err, file.Close())
}
