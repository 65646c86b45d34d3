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
	"time"

	"descartes/agent"
	"descartes/config"
	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/workspace"
	"descartes/verify"
)

// Client is the side of a run whose attempts are made elsewhere: a loop.Away. It can be given to the loop before
// Start, which needs the loop's locks and id.
type Client struct {
	opt     Options
	url     string
	remote  *remote
	release func()

	mu   sync.Mutex
	gone error             // why the run has to end
	last map[int]*progress // attempt of each slot: when that has another one, the journal has its end

	base   gitops.Tree // with which the last order begins
	stands string      // see stand
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
	c.release, err = o.Carrier.Claim(ctx, o.Hello, o.Note, func(err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.gone = err
	})
	if err != nil {
		return err
	}
	var at []string // with the history that orders build on
	if head, herr := o.Repo.Head(ctx); herr == nil && head.Hash != "" {
		at = append(at, head.Hash)
	}
	ref := prefix + opened
	if _, err = o.Repo.Keep(ctx, ref, o.Repo.EmptyTree(), at, "descartes: a fleet works on this run"); err == nil {
		if err = o.Repo.Send(ctx, o.Remote, "+"+ref+":"+ref); err != nil {
			err = &workspace.GitError{What: fmt.Sprintf("push to the remote %s, below refs/descartes", o.Remote),
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
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

// Run has an attempt made.
func (c *Client) Run(ctx context.Context, o loop.Order, observe func(*attempt.Step) error) (res attempt.Result,
	err error) {
	ask := Ask{Remote: c.url, Loop: c.opt.Hello.Loop, Tag: o.Tag, Task: o.Task, Title: cut(o.Title, maxTitle),
		Wave: o.Wave, Try: o.Try, Limit: limit(&o.Input),
		Rank: o.Rank, Backend: o.Input.Backend}
	if ask.Needs, err = Labels(o.Input.Needs); err != nil {
		return res, fmt.Errorf("the needs of task %s: %w", o.Task, err)
	}
	if err := c.over(); err != nil {
		return res, err
	}
	told := &progress{c: c, observe: observe, log: &follower{repo: c.opt.Repo, path: o.Input.Log}, ref: o.Ref,
		n: o.Steps, answered: o.Told}
	if told.names, err = namesOf(ask.Loop, o.Task, o.Try); err != nil {
		return res, err
	}
	if o.Again { // whoever was killed had kept it here before anybody could make it
		if ask.Commit, err = c.opt.Repo.RefCommit(told.order); err == nil && ask.Commit == "" {
			return lost(o, "descartes was stopped before the attempt was ordered", told)
		}
		if there, terr := c.remote.there(ctx, told.result); err == nil && terr == nil && there {
			return c.take(ctx, o, "", told)
		}
	} else {
		ask.Commit, err = c.keep(ctx, told.order, o)
	}
	if err == nil {
		var over []string
		if over, err = c.follows(ctx, o.Slot, told); err == nil {
			err = c.remote.send(ctx, append(over, "+"+told.order+":"+told.order)...)
		}
	}
	if err != nil && ctx.Err() == nil {
		err = &workspace.GitError{What: fmt.Sprintf("send the order of task %s to the remote %s", o.Task,
			c.opt.Remote), Err: err}
	}
	if err != nil {
		return res, err
	}
	began := time.Now()
	var stop error              // why nobody waits for it any more
	var refused *attempt.Result // of an attempt that would wait for a quota longer than the run may
	kept, err := c.opt.Carrier.Carry(ctx, ask, func(r Report) error {
		if stop = c.over(); stop != nil {
			return stop
		}
		if r.Live.Run != "" {
			stop = told.live(ctx, r.Live)
		} else if stop = observe(&attempt.Step{Moment: attempt.Waits, Who: r.Wait.For,
			Until: r.Wait.Until}); stop == nil {
			told.placed = false
			if refused = c.tooLong(&r.Wait, began); refused != nil {
				return ErrDropped
			}
		}
		return stop
	})
	if refused != nil {
		return ended(o, *refused, told)
	}
	if stop != nil {
		return res, stop
	}
	gctx, done := attempt.Linger(ctx)
	defer done()
	if err != nil {
		// else its worker made it, and the server did not hear of that
		if there, _ := c.remote.there(gctx, told.result); !there {
			return lost(o, cut(err.Error(), 1000), told)
		}
	}
	return c.take(gctx, o, kept.Commit, told)
}

// follows forgets the attempt that a slot had before, and returns what removes it from the remote.
func (c *Client) follows(ctx context.Context, slot int, next *progress) (refspecs []string, err error) {
	c.mu.Lock()
	before := c.last[slot]
	c.last[slot] = next
	c.mu.Unlock()
	if before == nil {
		return nil, nil
	}
	if slices.Contains(before.had, before.result) {
		refspecs = []string{":" + before.result}
	}
	return refspecs, c.remote.forget(ctx, append(before.had, before.order)...)
}

// limit is after how many seconds an attempt is over at the latest, whatever becomes of its worker.
func limit(in *attempt.Input) int {
	// a check is run again where it is flaky
	sum := cmp.Or(in.Agent.Timeout, 24*time.Hour) + time.Duration(2*len(in.Checks))*in.Clocks.Timeout
	return int((2*sum + time.Hour).Seconds())
}

// keep makes the commit of an order. What the attempt begins with is its parents and its folders: who fetches it has
// all that, and git, which looks for what the other side has in a commit's parents alone, sends none of it again with
// the result.
func (c *Client) keep(ctx context.Context, ref string, o loop.Order) (commit string, err error) {
	b, err := json.Marshal(Order{Version: version, Order: o, Config: c.opt.Config})
	if err != nil {
		return "", err
	}
	if len(b) > maxOrder {
		return "", fmt.Errorf("the order of task %s has %d bytes, more than %d", o.Task, len(b), maxOrder)
	}
	base, err := c.stand(ctx, cmp.Or(o.Start.Base, o.Start.Before))
	if err != nil {
		return "", err
	}
	trees := []gitops.Tree{o.Start.Before, o.Start.Base, o.Input.Base}
	slices.Sort(trees)
	tree, err := c.opt.Repo.Bundle(ctx, map[string][]byte{orderFile: b}, slices.Compact(trees)...)
	if err != nil {
		return "", err
	}
	return c.opt.Repo.Keep(ctx, ref, tree, []string{base, o.At.Hash},
		fmt.Sprintf("descartes: attempt %d at task %s", o.Try, o.Task))
}

// stand is a commit of a tree that attempts begin with, on top of that of the one before: git sends what is new since
// then.
func (c *Client) stand(ctx context.Context, tree gitops.Tree) (_ string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if tree != c.base || c.stands == "" {
		if c.stands, err = c.opt.Repo.Link(ctx, c.stands, gitops.Link{Tree: tree, When: time.Now(),
			Message: "descartes: what attempts begin with"}); err == nil {
			c.base = tree
		}
	}
	return c.stands, err
}

// take fetches a result, and reports the steps that led to it. A commit of "" is whatever the remote has.
func (c *Client) take(ctx context.Context, o loop.Order, commit string, told *progress) (res attempt.Result,
	err error) {
	if err := c.remote.Do(ctx, reachFor, func() error { return told.fetch(ctx, told.result, &commit) }); err != nil {
		if there, terr := c.remote.there(ctx, told.result); terr == nil && !there {
			return lost(o, "its result is no longer on the remote "+c.opt.Remote, told)
		}
		return res, &workspace.GitError{What: fmt.Sprintf("fetch the result of task %s from the remote %s", o.Task,
			c.opt.Remote), Err: err}
	}
	out, err := outcomeAt(ctx, c.opt.Repo, commit)
	if err != nil {
		return lost(o, fmt.Sprintf("its result cannot be read: %v", err), told)
	}
	if out.Version != version {
		return res, fmt.Errorf("another version of descartes, on %s, made the result of task %s: all machines of a fleet need the same one", out.Host, o.Task)
	}
	if err := told.place(out.Host, told.report+"-"+out.Run); err != nil {
		return res, err
	}
	if err := told.log.finish(ctx, commit, &out); err != nil {
		return res, err
	}
	if err := told.tell(out.Steps, &out.Result); err != nil {
		return out.Result, err
	}
	return c.settle(ctx, o, out.Host, out.Result, told.observe)
}

// settle makes of a worker's result what the same attempt could have come to here: its work is all that differs from
// what it was given, without what no attempt may change, and the guard has seen it. A tree that nobody could check out
// fails the attempt.
func (c *Client) settle(ctx context.Context, o loop.Order, host string, res attempt.Result,
	observe func(*attempt.Step) error) (attempt.Result, error) {
	repo, work := c.opt.Repo, &res.Work
	work.Before = o.Start.Before
	if o.Start.Whole && o.Start.Base != "" {
		work.Before = o.Start.Base
	}
	// no agent made them there
	if work.Commits != "" && (o.At.Hash == "" || !repo.LeadsTo(ctx, work.Commits, o.At.Hash)) {
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
			res.Work, res.Changed = workspace.Result{Before: work.Before, Seen: work.Before, After: work.Before}, 0
			if res.Verdict == verify.Verified || res.Verdict == verify.Failed {
				res.Verdict, res.Grade, res.Objection, res.Reason = verify.Failed, "", nil,
					fmt.Sprintf("the result of %s cannot be taken: %v", host, bad)
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
		if err := observe(&attempt.Step{Moment: attempt.Noted, Lines: []string{line}}); err != nil {
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
	return res, attempt.Again(ctx, repo, &o.Input, &res, observe)
}

// tooLong is the result of an attempt that would wait for a quota longer than the run waits; nil where it waits.
func (c *Client) tooLong(w *Wait, began time.Time) *attempt.Result {
	cfg := &c.opt.Config
	if w.Reason == "" || cfg.OnLimit != loop.OnLimitStop && cfg.OnLimit != loop.OnLimitFallback &&
		(cfg.MaxWaitSecs <= 0 || !w.Until.After(began.Add(time.Duration(cfg.MaxWaitSecs)*time.Second))) &&
		(cfg.Deadline == nil || !w.Until.After(*cfg.Deadline)) {
		return nil
	}
	return &attempt.Result{Agent: agent.Result{End: agent.Limited, Code: -1, Until: w.Until, Reason: w.Reason},
		Verdict: verify.Limited, Reason: w.Reason}
}

// lost is the result of an attempt that no worker brought to an end: it counts as interrupted.
func lost(o loop.Order, why string, told *progress) (attempt.Result, error) {
	return ended(o, attempt.Result{Agent: agent.Result{End: agent.Cancelled, Code: -1, Reason: why},
		Verdict: verify.Cancelled, Reason: why}, told)
}

// ended is the result of an attempt that no worker began or brought to an end.
func ended(o loop.Order, res attempt.Result, told *progress) (attempt.Result, error) {
	res.Work.Before, res.Work.Seen, res.Work.After = o.Start.Before, o.Start.Before, o.Start.Before
	if told.answered {
		return res, nil
	}
	return res, told.observe(&attempt.Step{Moment: attempt.Answered, Result: &res})
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

// clear removes the orders, logs and results of a run that has ended: what came of them is kept under the attempts'
// own refs.
func (c *Client) clear(ctx context.Context) error {
	prefix, err := below(c.opt.Hello.Loop)
	if err != nil {
		return err
	}
	there, err := c.opt.Repo.RemoteRefs(ctx, c.opt.Remote, prefix+"*")
	if err != nil {
		return err
	}
	var gone []string // orders first: with its order an attempt is withdrawn
	for _, name := range slices.Sorted(maps.Keys(there)) {
		gone = append(gone, ":"+name)
	}
	for chunk := range slices.Chunk(gone, 100) {
		if err := c.opt.Repo.Send(ctx, c.opt.Remote, chunk...); err != nil {
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

// fetch brings one of the attempt's refs here, if it is still the commit that was named.
func (p *progress) fetch(ctx context.Context, ref string, commit *string) error {
	if err := p.c.remote.pull.move(ctx, "+"+ref+":"+ref); err != nil {
		return err
	}
	if !slices.Contains(p.had, ref) {
		p.had = append(p.had, ref)
	}
	return p.c.remote.at(ref, commit)
}

// progress reports the steps of an attempt to its run, each of them once. Those of a worker that was lost are taken
// back when another one has the attempt.
type progress struct {
	c        *Client
	observe  func(*attempt.Step) error
	log      *follower
	names             // a worker's reports are in report-RUN
	ref      string   // of the worker's reports
	n        int      // how many of its steps the run knows
	answered bool     // the agent's end is one of them
	placed   bool     // the run knows who has it
	had      []string // refs that came from the remote
}

// place reports which worker has the attempt.
func (p *progress) place(host, ref string) error {
	if p.placed && ref == p.ref {
		return nil
	}
	if ref != p.ref {
		p.ref, p.n, p.answered = ref, 0, false
		p.log.begin(host)
	}
	p.placed = true
	return p.observe(&attempt.Step{Moment: attempt.Placed, Who: host, Ref: ref})
}

// live takes in what a worker reports so far. What cannot be read now comes with the result.
func (p *progress) live(ctx context.Context, l Live) error {
	if !runName.MatchString(l.Run) {
		return nil
	}
	ref, commit := p.report+"-"+l.Run, l.Commit
	if err := p.place(l.Host, ref); err != nil || commit == "" || p.fetch(ctx, ref, &commit) != nil {
		return err
	}
	if b, err := p.c.opt.Repo.FileAt(ctx, commit, logFile, maxLog); err == nil {
		p.log.more(b)
	}
	var steps []attempt.Step
	b, err := p.c.opt.Repo.FileAt(ctx, commit, stepsFile, maxOrder)
	if err != nil || json.Unmarshal(b, &steps) != nil {
		return nil
	}
	return p.tell(steps, &attempt.Result{})
}

// tell reports those of a worker's steps that the run does not know. so is the default result.
func (p *progress) tell(steps []attempt.Step, so *attempt.Result) error {
	for i := p.n; i < len(steps); i++ {
		s := &steps[i]
		if s.Number = i + 1; s.Result == nil {
			s.Result = so
		}
		if s.Log != "" {
			if !besideName.MatchString(s.Log) {
				return fmt.Errorf("a worker reports a log called %q", s.Log)
			}
			s.Log = p.log.beside(s.Log)
		}
		p.answered = p.answered || s.Moment == attempt.Answered
		if err := p.observe(s); err != nil {
			return err
		}
		p.n = i + 1
	}
	return nil
}

// follower writes the log of an attempt as it comes from its worker.
type follower struct {
	repo *gitops.Repo
	path string
	size int // bytes of the worker's log so far: another worker begins anew
}

// begin says when another worker takes over.
func (f *follower) begin(host string) {
	if f.size > 0 {
		_ = appendTo(f.path, []byte("\n--- the worker was lost; "+host+" begins anew ---\n")) // as more
		f.size = 0
	}
}

// more appends what is new of a log. What cannot be written now comes with the result.
func (f *follower) more(b []byte) {
	if len(b) > f.size && appendTo(f.path, b[f.size:]) == nil {
		f.size = len(b)
	}
}

// beside is where a further log of that name lies.
func (f *follower) beside(name string) string { return strings.TrimSuffix(f.path, "log") + name }

// finish writes the rest, and further logs.
func (f *follower) finish(ctx context.Context, commit string, out *Outcome) error {
	for _, name := range out.Beside {
		if !besideName.MatchString(name) {
			return fmt.Errorf("%s sent a log called %q", out.Host, name)
		}
		b, err := f.repo.FileAt(ctx, commit, name, maxLog)
		if err == nil {
			err = appendTo(f.beside(name), b)
		}
		if err != nil {
			return err
		}
	}
	b, err := f.repo.FileAt(ctx, commit, logFile, maxLog)
	if err != nil {
		return err
	}
	if f.size > len(b) {
		f.size = 0
	}
	return appendTo(f.path, b[f.size:])
}

func appendTo(path string, b []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(b)
	return errors.Join(err, file.Close())
}
