package wire

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"descartes/agent"
	"descartes/gitops"
	"descartes/internal/config"
	"descartes/internal/oneline"
	"descartes/internal/proc"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/workspace"
	"descartes/verify"
)

// Client has attempts made elsewhere, through a program that it talks with. A run gets it before it can be used: it is started once the run has
// its locks and an id.
type Client struct {
	repo   *gitops.Repo
	remote string // its name, or its URL
	url    string
	apart  bool // the remote is for the fleet alone
	config config.Config
	other  *proc.Companion
	say    *Writer
	loop   string // its name in the fleet
	reach  reach
	note   func(string)

	basing sync.Mutex
	based  bool // the remote has what the attempts are based on

	mu      sync.Mutex
	last    int
	waiting map[int]chan Line
	err     error // why nothing more will come
}

// ClientOptions say where a Client's orders go.
type ClientOptions struct {
	Repo    *gitops.Repo
	Remote  string        // name or URL
	Apart   bool          // it is for the fleet alone, and lacks the branch
	Config  config.Config // without secrets
	Program []string      // that carries the orders
	Env     []string
	Hello   Hello
	Stderr  io.Writer
	Note    func(string) // hears what a person should know while the run lasts
}

// Start starts the program, and waits until it has a connection and the run is the only one of its tag. Close is for after that; after an error
// there is nothing to close.
func (c *Client) Start(ctx context.Context, o ClientOptions) (err error) {
	c.repo, c.remote, c.apart, c.config, c.waiting = o.Repo, o.Remote, o.Apart, o.Config, map[int]chan Line{}
	c.loop, c.note, c.reach = o.Hello.Loop, o.Note, reach{name: o.Remote, note: o.Note}
	if c.url, _, err = o.Repo.RemoteURL(ctx, o.Remote); err != nil {
		return err
	}
	if c.other, err = proc.StartCompanion(o.Program, o.Env, o.Stderr); err != nil {
		return err
	}
	c.say = NewWriter(c.other.In)
	o.Hello.Remote = c.url
	lines := NewReader(c.other.Out)
	first := make(chan Line, 1)
	go func() {
		if err := c.say.Say(Line{Hello: &o.Hello}); err != nil {
			first <- Line{Error: errGone.Error()}
			return
		}
		l, err := lines.Next()
		if err != nil {
			l = Line{Error: errGone.Error() + " before the run began"}
		}
		first <- l
	}()
	select {
	case l := <-first:
		if err = errors.New(l.Error); l.Taken {
			err = &InputError{Message: l.Error}
		}
		if l.Ready {
			err = c.open(ctx)
		}
		if err != nil {
			_, _ = c.other.End(patience)
			return err
		}
	case <-ctx.Done():
		_, _ = c.other.End(patience)
		return ctx.Err()
	}
	go c.listen(lines)
	return nil
}

// open sees that the remote takes what a run puts there, before anything depends on it.
func (c *Client) open(ctx context.Context) error {
	below, err := Below(c.loop)
	if err != nil {
		return err
	}
	ref := below + opened
	if _, err := c.repo.Keep(ctx, ref, c.repo.EmptyTree(), nil, "descartes: a fleet works on this run"); err != nil {
		return err
	}
	if err := c.repo.Send(ctx, c.remote, "+"+ref+":"+ref); err != nil {
		return &workspace.GitError{What: fmt.Sprintf("push to the remote %s, below refs/descartes", c.remote), Err: err}
	}
	return nil
}

// listen hands on what is said about attempts.
func (c *Client) listen(lines *Reader) {
	for {
		l, err := lines.Next()
		if err == nil && l.Error != "" {
			err = errors.New(l.Error)
		}
		if err == nil && l.Note != "" {
			c.note(l.Note)
			continue
		}
		c.mu.Lock()
		if err != nil {
			if c.err = err; errors.Is(err, io.EOF) {
				c.err = errGone
			}
			for _, ch := range c.waiting {
				close(ch)
			}
			c.waiting = nil
			c.mu.Unlock()
			return
		}
		ch := c.waiting[l.ID]
		c.mu.Unlock()
		if ch != nil {
			ch <- l
		}
	}
}

// enter makes a place for what is said about one attempt.
func (c *Client) enter() (id int, ch chan Line, leave func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, nil, nil, c.err
	}
	c.last++
	id, ch = c.last, make(chan Line, 64)
	c.waiting[id] = ch
	return id, ch, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiting, id)
		for { // whoever wants to say something to nobody
			select {
			case _, open := <-ch:
				if open {
					continue
				}
			default:
			}
			return
		}
	}, nil
}

// Run has an attempt made.
func (c *Client) Run(ctx context.Context, o loop.Order, observe func(*attempt.Step) error) (res attempt.Result, err error) {
	ask := &Ask{Remote: c.url, Loop: c.loop, Tag: o.Tag, Task: o.Task, Title: cut(o.Title, maxTitle), Wave: o.Wave, Try: o.Try, Limit: limit(&o.Input),
		Rank: o.Rank, Backend: o.Input.Backend}
	if ask.Needs, err = Labels(o.Input.Needs); err != nil {
		return res, fmt.Errorf("the needs of task %s: %w", o.Task, err)
	}
	if ask.Ref, err = Ref(c.loop, orders, o.Task, o.Try); err != nil {
		return res, err
	}
	told := &progress{observe: observe, log: &follower{c: c, path: o.Input.Log}, ref: o.Ref, n: o.Steps, answered: o.Told}
	if o.Again { // whoever was killed had kept it here before anybody could make it
		if ask.Commit, err = c.repo.RefCommit(ask.Ref); err == nil && ask.Commit == "" {
			return lost(o, "descartes was stopped before the attempt was ordered", told)
		}
	} else {
		ask.Commit, err = c.keep(ctx, ask.Ref, o)
	}
	if err == nil {
		err = c.reach.do(ctx, reachFor, func() error { return c.repo.Send(ctx, c.remote, "+"+ask.Ref+":"+ask.Ref) })
	}
	if err != nil {
		return res, c.sent(ctx, o, err)
	}
	id, lines, leave, err := c.enter()
	if err != nil {
		return res, err
	}
	defer leave()
	if err := c.say.Say(Line{ID: id, Ask: ask}); err != nil {
		return res, errGone
	}
	began := time.Now()
	cancel := ctx.Done()
	var refused *attempt.Result // of an attempt that waits for a quota longer than the run may
	for {
		select {
		case <-cancel:
			cancel = nil
			if err := c.say.Say(Line{ID: id, Cancel: true}); err != nil {
				return res, errGone
			}
		case l, open := <-lines:
			switch {
			case !open:
				c.mu.Lock()
				defer c.mu.Unlock()
				return res, c.err
			case l.Live != nil && !l.Live.of(ask, live):
			case l.Live != nil:
				if err := told.live(ctx, l.Live); err != nil {
					return res, err
				}
			case l.Wait != nil:
				if err := observe(&attempt.Step{Moment: attempt.Waits, Who: l.Wait.For, Until: l.Wait.Until}); err != nil {
					return res, err
				}
				told.placed = false
				if late := c.tooLong(l.Wait, began); late != nil && refused == nil {
					refused = late
					if err := c.say.Say(Line{ID: id, Cancel: true}); err != nil {
						return res, errGone
					}
				}
			case l.Done != nil && !l.Done.of(ask, results):
				return lost(o, fmt.Sprintf("%s sent the result of something else (%s)", l.Done.Host, l.Done.Ref), told)
			case l.Done != nil:
				gctx, done := attempt.Linger(ctx)
				defer done()
				return c.take(gctx, o, l.Done, told)
			case l.Lost != "" && refused != nil:
				return ended(o, *refused, told)
			case l.Lost != "":
				return lost(o, l.Lost, told)
			}
		}
	}
}

// limit is after how many seconds an attempt is over at the latest, whatever becomes of its worker.
func limit(in *attempt.Input) int {
	sum := in.Agent.Timeout
	for range in.Checks {
		sum += 2 * in.Clocks.Timeout // it is run again where it is flaky
	}
	if in.Agent.Timeout == 0 {
		sum += 24 * time.Hour
	}
	return int((2*sum + time.Hour).Seconds())
}

// keep makes the commit of an order. Its parents are the commits of what the attempt begins with: who fetches it has them.
func (c *Client) keep(ctx context.Context, ref string, o loop.Order) (commit string, err error) {
	b, err := json.Marshal(Order{Version: version, Order: o, Config: c.config})
	if err != nil {
		return "", err
	}
	if len(b) > maxOrder {
		return "", fmt.Errorf("the order of task %s has %d bytes, more than %d", o.Task, len(b), maxOrder)
	}
	if err := c.base(ctx, o); err != nil {
		return "", err
	}
	var parents []string
	if o.At.Hash != "" {
		parents = append(parents, o.At.Hash)
	}
	for i, tree := range distinct(o.Start.Before, o.Start.Base, o.Input.Base) {
		at, err := c.repo.Keep(ctx, fmt.Sprintf("%s/tree%d", instead(ref, orders, sent), i), tree, nil, "descartes: what an attempt begins with")
		if err != nil {
			return "", err
		}
		parents = append(parents, at)
	}
	tree, err := c.repo.WithContent(ctx, c.repo.EmptyTree(), map[string][]byte{"order.json": b})
	if err != nil {
		return "", err
	}
	return c.repo.Keep(ctx, ref, tree, parents, fmt.Sprintf("descartes: attempt %d at task %s", o.Try, o.Task))
}

// base sends a remote that is for the fleet alone the commit that the run began with, before anything is based on it. It stays there for the
// next run of the tag, which then sends only what is new.
func (c *Client) base(ctx context.Context, o loop.Order) error {
	c.basing.Lock()
	defer c.basing.Unlock()
	if c.based || !c.apart || o.At.Hash == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(o.Tag))
	err := c.reach.do(ctx, reachFor, func() error {
		return c.repo.Send(ctx, c.remote, "+"+o.At.Hash+":refs/descartes/_base/"+hex.EncodeToString(sum[:8]))
	})
	if err != nil {
		return err
	}
	c.based = true
	return nil
}

func distinct(trees ...gitops.Tree) []gitops.Tree {
	slices.Sort(trees)
	return slices.DeleteFunc(slices.Compact(trees), func(t gitops.Tree) bool { return t == "" })
}

// sent is the error of an order that could not be given.
func (c *Client) sent(ctx context.Context, o loop.Order, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return &workspace.GitError{What: fmt.Sprintf("send the order of task %s to the remote %s", o.Task, c.remote), Err: err}
}

// take fetches a result, and reports the steps that led to it.
func (c *Client) take(ctx context.Context, o loop.Order, k *Kept, told *progress) (res attempt.Result, err error) {
	if err := told.place(k.Host, k.live()); err != nil {
		return res, err
	}
	if err := c.reach.do(ctx, reachFor, func() error { return c.fetch(ctx, k) }); err != nil {
		if names, lerr := c.repo.RemoteRefs(ctx, c.remote, k.Ref); lerr == nil && len(names) == 0 {
			return lost(o, "its result is no longer on the remote "+c.remote, told)
		}
		return res, &workspace.GitError{What: fmt.Sprintf("fetch the result of task %s from the remote %s", o.Task, c.remote), Err: err}
	}
	var out Outcome
	b, err := c.repo.FileAt(ctx, k.Commit, "result.json", maxOrder)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		return lost(o, fmt.Sprintf("the result, made by %s, cannot be read: %v", k.Host, err), told)
	}
	if out.Version != version {
		return res, fmt.Errorf("another version of descartes, on %s, made the result of task %s: all machines of a fleet need the same one", k.Host, o.Task)
	}
	if err := told.log.finish(ctx, k, out.Beside); err != nil {
		return res, err
	}
	out.Result.Paced = k.Limit != nil
	if err := told.tell(out.Steps, &out.Result); err != nil {
		return out.Result, err
	}
	return c.settle(ctx, o, k.Host, out.Result, told.observe)
}

// settle makes of a worker's result what the same attempt could have come to here: its work is all that differs from what it was given, without what no
// attempt may change, and the guard has seen it. A tree that nobody could check out fails the attempt.
func (c *Client) settle(ctx context.Context, o loop.Order, host string, res attempt.Result, observe func(*attempt.Step) error) (attempt.Result, error) {
	work := &res.Work
	work.Before = o.Start.Before
	if o.Start.Whole && o.Start.Base != "" {
		work.Before = o.Start.Base
	}
	var undone []string
	for _, tree := range []*gitops.Tree{&work.Seen, &work.After} {
		if *tree == "" {
			*tree = work.Before
		}
		var err error
		*tree, undone, err = c.repo.Received(ctx, work.Before, *tree)
		if bad, ok := errors.AsType[*gitops.ReceivedError](err); ok {
			res.Work, res.Changed = workspace.Result{Before: work.Before, Seen: work.Before, After: work.Before}, 0
			if res.Verdict == verify.Verified || res.Verdict == verify.Failed {
				res.Verdict, res.Grade, res.Objection, res.Reason = verify.Failed, "", nil, fmt.Sprintf("the result of %s cannot be taken: %v", host, bad)
			}
			return res, nil
		}
		if err != nil {
			return res, err
		}
	}
	if len(undone) > 0 {
		line := fmt.Sprintf("the attempt on %s changed what no attempt may change, which was undone: %s", host, oneline.List(undone))
		if err := observe(&attempt.Step{Moment: attempt.Noted, Lines: []string{line}}); err != nil {
			return res, err
		}
	}
	changed, err := c.repo.Changed(ctx, work.Before, work.After)
	if err != nil {
		return res, err
	}
	work.Changed = slices.DeleteFunc(changed, func(one gitops.Change) bool { return slices.Contains(work.Left, one.Path) })
	return res, attempt.Again(ctx, c.repo, &o.Input, &res, observe)
}

// progress reports the steps of an attempt to its run, each of them once. Those of a worker that was lost are taken back when another one
// has the attempt.
type progress struct {
	observe  func(*attempt.Step) error
	log      *follower
	ref      string // of the worker's reports
	n        int    // how many of its steps the run knows
	answered bool   // the agent's end is one of them
	placed   bool   // the run knows who has it
}

// place reports which worker has the attempt.
func (p *progress) place(host, ref string) error {
	if p.placed && ref == p.ref {
		return nil
	}
	if ref != p.ref {
		p.ref, p.n, p.answered = ref, 0, false
	}
	p.placed = true
	return p.observe(&attempt.Step{Moment: attempt.Placed, Who: host, Ref: ref})
}

// live takes in what a worker reports so far. What cannot be read now comes with the result.
func (p *progress) live(ctx context.Context, k *Kept) error {
	if err := p.place(k.Host, k.Ref); err != nil || k.Commit == "" || p.log.c.fetch(ctx, k) != nil {
		return err
	}
	p.log.more(ctx, k)
	var steps []attempt.Step
	b, err := p.log.c.repo.FileAt(ctx, k.Commit, stepsFile, maxOrder)
	if err != nil || json.Unmarshal(b, &steps) != nil {
		return nil
	}
	return p.tell(steps, &attempt.Result{})
}

// tell reports those of a worker's steps that the run does not know. so is the result for steps that come without one.
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

// tooLong is the result of an attempt that would wait for a quota longer than the run waits; nil where it waits.
func (c *Client) tooLong(w *Wait, began time.Time) *attempt.Result {
	cfg := &c.config
	switch {
	case w.Reason == "":
		return nil
	case cfg.OnLimit == loop.OnLimitStop, cfg.OnLimit == loop.OnLimitFallback:
	case cfg.MaxWaitSecs > 0 && w.Until.After(began.Add(time.Duration(cfg.MaxWaitSecs)*time.Second)):
	case cfg.Deadline != nil && w.Until.After(*cfg.Deadline):
	default:
		return nil
	}
	return &attempt.Result{Agent: agent.Result{End: agent.Limited, Code: -1, Until: w.Until, Reason: w.Reason}, Verdict: verify.Limited, Reason: w.Reason}
}

// fetch brings what is kept in a ref of the remote here, if it is still the commit that was named.
func (c *Client) fetch(ctx context.Context, k *Kept) error {
	if err := c.repo.Fetch(ctx, c.remote, "+"+k.Ref+":"+k.Ref); err != nil {
		return err
	}
	at, err := c.repo.RefCommit(k.Ref)
	if err == nil && at != k.Commit {
		err = fmt.Errorf("%s is %.12s there, and %.12s was named", k.Ref, at, k.Commit)
	}
	return err
}

// lost is the result of an attempt that no worker brought to an end: it counts as interrupted.
func lost(o loop.Order, why string, told *progress) (attempt.Result, error) {
	return ended(o, attempt.Result{Agent: agent.Result{End: agent.Cancelled, Code: -1, Reason: why}, Verdict: verify.Cancelled, Reason: why}, told)
}

// ended is the result of an attempt that no worker began or brought to an end.
func ended(o loop.Order, res attempt.Result, told *progress) (attempt.Result, error) {
	res.Work.Before, res.Work.Seen, res.Work.After = o.Start.Before, o.Start.Before, o.Start.Before
	if told.answered {
		return res, nil
	}
	return res, told.observe(&attempt.Step{Moment: attempt.Answered, Result: &res})
}

// Close ends the program, and removes from the remote what the run needs there no more, where it has ended.
func (c *Client) Close(ctx context.Context, ended bool) error {
	var err error
	if ended {
		cctx, done := context.WithTimeout(ctx, patience)
		if cerr := c.reach.do(cctx, patience, func() error { return c.clear(cctx) }); cerr != nil {
			c.note(fmt.Sprintf("what the run had put on the remote %s could not be removed (refs/descartes/%s/fleet): %v", c.remote, LoopName(c.loop), cerr))
		}
		done()
	}
	if _, eerr := c.other.End(patience); eerr != nil {
		err = errors.Join(err, fmt.Errorf("end descartes-fleet: %w", eerr))
	}
	return err
}

// clear removes the orders, logs and results of a run that has ended: what came of them is kept under the attempts' own refs.
func (c *Client) clear(ctx context.Context) error {
	below, err := Below(c.loop)
	if err != nil {
		return err
	}
	names, err := c.repo.RemoteRefs(ctx, c.remote, below+"*")
	if err != nil {
		return err
	}
	slices.SortFunc(names, func(a, b string) int { // with its order an attempt is withdrawn
		return cmp.Or(-cmp.Compare(strings.Count(a, "/"+orders+"/"), strings.Count(b, "/"+orders+"/")), cmp.Compare(a, b))
	})
	for chunk := range slices.Chunk(names, 100) {
		for i := range chunk {
			chunk[i] = ":" + chunk[i]
		}
		if err := c.repo.Send(ctx, c.remote, chunk...); err != nil {
			return err
		}
	}
	refs, err := c.repo.Refs(ctx, below)
	if err != nil {
		return err
	}
	var mine []string
	for _, r := range refs {
		mine = append(mine, r.Name)
	}
	return c.repo.DeleteRefs(ctx, mine...)
}

// follower writes the log of an attempt as it comes from its worker.
type follower struct {
	c    *Client
	path string
	ref  string // of the worker's log so far: another worker begins anew
	size int    // bytes of it
}

// more appends what is new of a log.
func (f *follower) more(ctx context.Context, k *Kept) {
	b, err := f.c.repo.FileAt(ctx, k.Commit, "log", maxLog)
	if err != nil {
		return
	}
	f.begin(k)
	if len(b) > f.size && f.append(b[f.size:]) == nil {
		f.size = len(b)
	}
}

// begin says when another worker takes over.
func (f *follower) begin(k *Kept) {
	if f.ref != "" && f.ref != k.Ref {
		_ = f.append([]byte("\n--- the worker was lost; " + k.Host + " begins anew ---\n"))
		f.size = 0
	}
	f.ref = k.Ref
}

// beside is where a further log of that name lies.
func (f *follower) beside(name string) string { return strings.TrimSuffix(f.path, "log") + name }

// finish writes the rest, and further logs.
func (f *follower) finish(ctx context.Context, k *Kept, beside []string) error {
	for _, name := range beside {
		if !besideName.MatchString(name) {
			return fmt.Errorf("%s sent a log called %q", k.Host, name)
		}
		b, err := f.c.repo.FileAt(ctx, k.Commit, name, maxLog)
		if err == nil {
			err = appendTo(f.beside(name), b)
		}
		if err != nil {
			return err
		}
	}
	b, err := f.c.repo.FileAt(ctx, k.Commit, "log", maxLog)
	if err != nil {
		return err
	}
	if f.size > len(b) {
		f.size = 0
	}
	return f.append(b[f.size:])
}

func (f *follower) append(b []byte) error { return appendTo(f.path, b) }

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
