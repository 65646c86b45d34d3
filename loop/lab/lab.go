// Package lab runs commands on trees of a project, in a copy of it in which no attempt works.
package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"descartes/internal/oneline"
	"descartes/internal/plainfile"
	"descartes/internal/redact"
	"descartes/loop/attempt"
	"descartes/loop/slot"
	"descartes/verify"
)

// Options say where a lab works and what its commands run in.
type Options struct {
	Pool  slot.PoolOptions // its Run is the lab's own
	Files string           // folder for the files of its processes
	Log   string           // of the set-up command
	Shown string           // that log for people
	// Start gives the verify command of a slot, and what ends its processes; dir is for their files.
	Start  func(s *slot.Slot, dir string) (attempt.Verifier, func() error, error)
	Redact *redact.Redactor // nil: nothing is secret
	Setup  time.Duration    // longest run of the set-up command; 0: any
	Warn   func(line string) error
	Clone  bool // commands see a project as a fresh clone has it, where that is possible
}

// Lab is one slot, and one for the held-out checks, taken when they are first needed and kept until Close. Safe for
// concurrent use: its users take turns.
type Lab struct {
	opt  Options
	pool *slot.Pool
	turn chan struct{} // holds one while somebody works

	passes map[string]bool // trees and commands that passed

	held *Lab // of the held-out checks alone, as what they leave is nobody else's to find; nil in that one

	slot   *slot.Slot // nil: none is taken yet
	verify attempt.Verifier
	end    func() error
}

// New takes no slot yet.
func New(o Options) *Lab {
	l := newLab(o)
	o.Files, o.Log = o.Files+"-held", filepath.Join(o.Files+"-held", filepath.Base(o.Log))
	o.Shown, o.Clone = o.Log, false
	l.held = newLab(o)
	return l
}

func newLab(o Options) *Lab {
	l := &Lab{opt: o, turn: make(chan struct{}, 1), passes: map[string]bool{}}
	o.Pool.Run = l.setUp
	l.pool = slot.NewPool(o.Pool)
	return l
}

// maxFile bounds a file that a command leaves for us.
const maxFile = 64 << 20

// Run runs a command on a tree: what it does there is undone before the next one.
func (l *Lab) Run(ctx context.Context, x attempt.Experiment) (res verify.Result, text []byte, err error) {
	if x.Held && l.held != nil {
		return l.held.Run(ctx, x)
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return verify.Result{Cancelled: true}, nil, nil
	}
	defer func() { <-l.turn }()
	key := string(x.Tree) + " " + x.Check.Run
	if x.Known && l.passes[key] {
		return verify.Result{Name: x.Check.Name, Command: x.Check.Run, Passed: true}, nil, nil
	}
	if err := l.prepare(ctx, x); err != nil {
		if ctx.Err() != nil {
			return verify.Result{Cancelled: true}, nil, nil
		}
		return verify.Result{}, nil, err
	}
	env := append(x.Env[:len(x.Env):len(x.Env)], l.slot.Env()...)
	q := verify.Request{Label: x.Name, Dir: l.slot.Dir(), Files: l.slot.Files(), Env: env, Held: x.Held, How: x.How, Log: x.Log,
		Redact: l.opt.Redact, Timeout: x.Clocks.Timeout, Idle: x.Clocks.Idle, Grace: attempt.Grace}
	if res, err = attempt.Check(ctx, l.verify, q, &attempt.Command{Check: x.Check}); err != nil {
		return res, nil, err
	}
	if res.Passed && !x.Held && !res.Narrowed {
		l.passes[key] = true
	}
	if x.Leaves == "" {
		return res, nil, nil
	}
	at := l.slot.Files()
	text, err = plainfile.Read(at, filepath.Join(at, x.Leaves), maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return res, text, err
}

// prepare brings the slot to what an experiment begins with.
func (l *Lab) prepare(ctx context.Context, x attempt.Experiment) error {
	if l.slot == nil {
		if err := l.open(ctx); err != nil {
			return err
		}
	}
	_, err := l.slot.Prepare(ctx, slot.Start{Base: cmp.Or(x.Base, x.Tree), Before: x.Tree,
		Aside: filepath.Join(l.opt.Files, "lab")})
	if why := slot.LeadsBack(err); why != "" && l.opt.Clone {
		l.opt.Clone = false
		if err := errors.Join(l.opt.Warn(why), l.leave()); err != nil {
			return err
		}
		return l.prepare(ctx, x)
	}
	if err != nil {
		return err
	}
	for _, note := range l.pool.Notes() {
		if err := l.opt.Warn(note); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lab) open(ctx context.Context) error {
	take := l.pool.TakeCheck
	if !l.opt.Clone {
		take = func(ctx context.Context) (*slot.Slot, error) { return l.pool.TakeLab(ctx, l.held == nil) }
	}
	slot, err := take(ctx)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(l.opt.Files, 0o700); err != nil {
		return errors.Join(fmt.Errorf("make the lab's folder: %w", err), slot.Close())
	}
	v, end, err := l.opt.Start(slot, l.opt.Files)
	if err != nil {
		return errors.Join(err, slot.Close())
	}
	l.slot, l.verify, l.end = slot, v, end
	return nil
}

// setUp runs the project's set-up command in the slot.
func (l *Lab) setUp(ctx context.Context, slot *slot.Slot, command string) error {
	return SetUp(ctx, l.verify, slot, Setup{Command: command, Log: l.opt.Log, Shown: l.opt.Shown,
		Redact: l.opt.Redact, Timeout: l.opt.Setup, Held: l.held == nil})
}

// Setup is a run of the set-up command of a project's slots.
type Setup struct {
	Command string
	Log     string
	Shown   string // that log for people
	Redact  *redact.Redactor
	Timeout time.Duration
	Held    bool // in a slot of the held-out checks
}

// SetUp runs the set-up command in a slot. Where a request to stop ends it, that is a context.Canceled.
func SetUp(ctx context.Context, v attempt.Verifier, slot *slot.Slot, s Setup) error {
	res, err := v.Run(ctx, verify.Request{Label: "setup", Command: s.Command, Dir: slot.Dir(), Env: slot.Env(),
		Held: s.Held, Log: s.Log, Redact: s.Redact, Timeout: s.Timeout, Grace: attempt.Grace})
	switch {
	case err != nil:
		return fmt.Errorf("set up slot %d: %w", slot.Number, err)
	case res.Cancelled:
		return ErrSetupStopped
	case !res.Passed:
		return &verify.SetupError{Text: fmt.Sprintf("pool.setup in slot %d: `%s`%s (see %s)", slot.Number,
			oneline.Text(s.Command), strings.TrimPrefix(res.Reason(), "verify"), s.Shown)}
	}
	return nil
}

// ErrSetupStopped says that a request to stop ended the set-up command.
var ErrSetupStopped = fmt.Errorf("pool.setup was stopped: %w", context.Canceled)

// Close ends the lab's processes and gives its slot back. It waits for whoever works.
func (l *Lab) Close() (err error) {
	if l.held != nil {
		err = l.held.Close()
	}
	l.turn <- struct{}{}
	return errors.Join(err, l.leave())
}

// leave ends the lab's processes and gives its slot back, if it has one.
func (l *Lab) leave() error {
	if l.slot == nil {
		return nil
	}
	err := errors.Join(l.end(), l.slot.Close())
	l.slot = nil
	return err
}
