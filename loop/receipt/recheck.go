package receipt

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/plainfile"
	"descartes/loop/journal"
	"descartes/verify"
)

// Verdict is the outcome of a recheck.
type Verdict string

// The verdicts.
const (
	Holds      Verdict = "holds"
	HoldsNot   Verdict = "does not hold"
	CannotTell Verdict = "cannot tell"
)

// Rechecked is a claim with what became of it.
type Rechecked struct {
	Tag     string `json:"tag"`
	Task    string `json:"task"`
	Title   string `json:"title,omitempty"`
	Loop    string `json:"loop,omitempty"`
	Commit  string `json:"commit"`                // that was looked at
	Written string `json:"written_for,omitempty"` // the commit that the receipt is about, where that is another one
	// commit or patch; nothing, where the commit says that it holds the task and no receipt does
	Found   string   `json:"found_by"`
	Verdict Verdict  `json:"verdict"`
	Reasons []string `json:"reasons"`
	Notes   []string `json:"notes"` // what a person should know besides
	Signer  string   `json:"signer,omitempty"`

	Receipt Receipt `json:"-"`

	own []verify.Check // besides those of all
}

// Looked is one commit of those that are looked at.
type Looked struct {
	Hash    string      `json:"commit"`
	Subject string      `json:"subject"`
	Checks  []Ran       `json:"checks"`
	Claims  []Rechecked `json:"claims"`
}

// Ran is a check as it ran again.
type Ran struct {
	Name    string  `json:"name"`
	Command string  `json:"command"`
	Passed  bool    `json:"passed"`
	Code    int     `json:"exit_code"`
	Reason  string  `json:"reason,omitempty"`
	Seconds float64 `json:"seconds"`

	unclear bool // nothing is known of the work: it was ended
	failed  int  // tests, -1 where that is not known
}

// Recheck is who checks receipts again: what he goes by comes from him, and never from what he looks at.
type Recheck struct {
	Repo    *gitops.Repo
	Notes   map[string][]byte                        // of the commits
	Checks  []verify.Check                           // his own
	Own     func(r *Receipt) ([]verify.Check, error) // what his list has for the task besides; nil: nothing
	All     bool                                     // run those after one that failed too
	Signers *Signers                                 // whose signatures count; nil: nobody asks for any
	Tag     string                                   // "": of any
	Run     func(ctx context.Context, tree gitops.Tree, c verify.Check) (verify.Result, error)

	ran     map[ran]Ran
	patches map[string]string // patch id to the commit whose note has it
	tags    map[string]string // loop to its tag, as any note says
}

// index finds notes by what their receipts say of commits.
func (k *Recheck) index() {
	k.ran, k.patches, k.tags = map[ran]Ran{}, map[string]string{}, map[string]string{}
	for _, on := range slices.Sorted(maps.Keys(k.Notes)) {
		for _, r := range Held(k.Notes[on]) {
			if r.Commit.PatchID != "" {
				k.patches[r.Commit.PatchID] = on
			}
			k.tags[r.Loop] = r.Tag
		}
	}
}

// Commit looks at one commit: it finds what is claimed of it, and runs the checks on its tree where anything is.
func (k *Recheck) Commit(ctx context.Context, hash string) (l Looked, err error) {
	if k.ran == nil {
		k.index()
	}
	l = Looked{Hash: hash, Checks: []Ran{}, Claims: []Rechecked{}}
	at, err := k.Repo.ReadCommit(hash)
	if err != nil {
		return l, err
	}
	tree := at.Tree
	l.Subject = at.Subject
	before, err := k.Repo.CommitTree(at.Parent())
	if err != nil {
		return l, err
	}
	found, on, err := k.find(ctx, hash, before, tree)
	if err != nil {
		return l, err
	}
	if on != "" {
		if l.Claims, err = k.claims(ctx, hash, string(tree), on, found); err != nil {
			return l, err
		}
	}
	if err := k.unproven(hash, &l); err != nil {
		return l, err
	}
	if len(l.Claims) == 0 {
		return l, nil
	}
	if l.Checks, err = k.checks(ctx, tree, k.Checks); err != nil {
		return l, err
	}
	of := len(l.Checks)
	for i := range l.Claims {
		c := &l.Claims[i]
		own, err := k.checks(ctx, tree, c.own)
		if err != nil {
			return l, err
		}
		l.Checks = append(l.Checks, own...)
		c.judge(slices.Concat(l.Checks[:of], own))
	}
	return l, nil
}

// ran is a check on a tree.
type ran struct {
	tree          gitops.Tree
	name, command string
}

// find returns the commit whose note is about a commit, and by what it was found: it stands on it, or says that it is
// about the same patch.
func (k *Recheck) find(ctx context.Context, hash string, before, tree gitops.Tree) (by, on string, err error) {
	if len(Held(k.Notes[hash])) > 0 || strings.Contains(string(k.Notes[hash]), `"_type"`) {
		return "commit", hash, nil
	}
	patch, err := k.Repo.PatchID(ctx, before, tree)
	if err != nil || k.patches[patch] == "" {
		return "", "", err
	}
	return "patch", k.patches[patch], nil
}

// claims are those of a note, each with what is wrong with it already.
func (k *Recheck) claims(ctx context.Context, hash, tree, on, found string) (out []Rechecked, err error) {
	if on != hash {
		tree = ""
		if t, err := k.Repo.CommitTree(on); err == nil { // else it is gone, as it may be after a rebase
			tree = string(t)
		}
	}
	list, err := Claims(on, tree, k.Notes[on])
	if err != nil {
		out = append(out, Rechecked{Commit: hash, Found: found, Verdict: HoldsNot,
			Reasons: []string{"its note: " + err.Error()}, Notes: []string{}})
	}
	for i := range list {
		c, r := &list[i], &list[i].Receipt
		if k.Tag != "" && r.Tag != k.Tag {
			continue
		}
		one := Rechecked{Tag: r.Tag, Task: r.Task, Title: r.Title, Loop: r.Loop, Commit: hash, Found: found,
			Receipt: *r}
		if k.Own != nil {
			if one.own, err = k.Own(r); err != nil {
				return nil, err
			}
		}
		one.Notes = k.differences(r, one.own)
		if on != hash {
			one.Written = on
		}
		if k.Signers != nil {
			if one.Signer, err = c.SignedBy(ctx, k.Signers); err != nil {
				c.wrong("its signature cannot be checked: %v", err)
			}
		}
		one.Reasons = append([]string{}, c.Problems...)
		out = append(out, one)
	}
	return out, nil
}

// differences says where the receipt's checks are not those of who looks, own ones of the task among them.
func (k *Recheck) differences(r *Receipt, own []verify.Check) []string {
	out := []string{}
	mine := map[string]string{}
	for _, c := range slices.Concat(k.Checks, own) {
		mine[NameOf(c.Name)] = c.Run
	}
	for _, c := range r.Checks {
		switch run, ok := mine[c.Name]; {
		case !ok:
			out = append(out, fmt.Sprintf("it passed the check %s then, which no longer exists: %s", c.Name,
				c.Command))
		case run != c.Command:
			out = append(out, fmt.Sprintf("the check %s was another command then: %s", c.Name, c.Command))
		}
		delete(mine, c.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(mine)) {
		out = append(out, fmt.Sprintf("the check %s did not run on its work then", name))
	}
	return out
}

// unproven adds the tasks that a commit says it holds, and that no receipt is about. Which tag an earlier version's
// was of, other notes of its loop say.
func (k *Recheck) unproven(hash string, l *Looked) error {
	c, err := k.Repo.ReadCommit(hash)
	if err != nil {
		return err
	}
	loop := c.Wave()
	for _, n := range c.Tasks() {
		tag := cmp.Or(n.Tag, k.tags[loop])
		if loop != "" && !slices.ContainsFunc(l.Claims, func(c Rechecked) bool { return c.Task == n.Task }) &&
			(k.Tag == "" || k.Tag == tag) {
			l.Claims = append(l.Claims, Rechecked{Tag: tag, Task: n.Task, Loop: loop, Commit: hash,
				Found: "nothing", Verdict: CannotTell, Notes: []string{},
				Reasons: []string{"the commit says that it contains the task, but the task has no receipt"}})
		}
	}
	return nil
}

// checks runs checks on a tree, each once.
func (k *Recheck) checks(ctx context.Context, tree gitops.Tree, list []verify.Check) ([]Ran, error) {
	out := []Ran{}
	for _, c := range list {
		if n := len(out); n > 0 && !out[n-1].Passed && !k.All {
			break
		}
		one, ok := k.ran[ran{tree, c.Name, c.Run}]
		if !ok {
			res, err := k.Run(ctx, tree, c)
			if err != nil {
				return out, err
			}
			one = Ran{Command: c.Run, Passed: res.Passed, Code: res.Code, Seconds: res.Duration.Seconds(), failed: -1,
				unclear: res.TimedOut || res.Cancelled || res.Overran != "" || res.Signal != 0}
			if !res.Passed {
				one.Reason = res.Reason()
			}
			if res.Tests != nil {
				one.failed = len(res.Tests.Failed)
			}
			k.ran[ran{tree, c.Name, c.Run}] = one
		}
		one.Name = NameOf(c.Name)
		out = append(out, one)
	}
	return out, nil
}

// judge comes to the verdict.
func (c *Rechecked) judge(ran []Ran) {
	if c.Verdict != "" {
		return
	}
	if len(c.Reasons) > 0 {
		c.Verdict = HoldsNot
		return
	}
	c.Verdict = Holds
	if len(ran) == 0 {
		c.Verdict, c.Reasons = CannotTell, []string{"there is no check to run: its agent's word is all there is"}
	}
	for _, one := range ran {
		v, why := c.against(one)
		if v != Holds {
			c.Reasons = append(c.Reasons, why)
		}
		if v == HoldsNot || v == CannotTell && c.Verdict == Holds {
			c.Verdict = v
		}
	}
}

// against holds a check as it ran again against what the receipt says of it. One that failed then with failures that
// were known may do so again.
func (c *Rechecked) against(one Ran) (Verdict, string) {
	if one.Passed {
		return Holds, ""
	}
	if one.unclear {
		return CannotTell, one.Reason
	}
	if c.Receipt.Grade == journal.Accepted {
		return CannotTell, "accepted by a person, and " + one.Reason
	}
	at := slices.IndexFunc(c.Receipt.Checks, func(r Check) bool {
		return r.Name == one.Name && r.Command == one.Command && r.Code != 0
	})
	switch {
	case at < 0:
		return HoldsNot, one.Reason
	case one.failed >= 0 && c.Receipt.Checks[at].Ran > 0 && one.failed <= c.Receipt.Checks[at].Failed:
		return Holds, ""
	case one.failed >= 0 && c.Receipt.Checks[at].Ran > 0:
		return HoldsNot, fmt.Sprintf("%s; %d tests fail, and %d were known to", one.Reason, one.failed,
			c.Receipt.Checks[at].Failed)
	}
	return CannotTell, one.Reason + "; it failed before any attempt too"
}

// Total is what several commits came to together: what does not hold counts most.
func Total(list []Looked) (v Verdict, claims int) {
	v = Holds
	for _, l := range list {
		for _, c := range l.Claims {
			claims++
			if c.Verdict == HoldsNot || c.Verdict == CannotTell && v == Holds {
				v = c.Verdict
			}
		}
	}
	return v, claims
}

// Confirmed is a recheck that held, as it is remembered: what had changed by then is no reason to doubt the task any
// more.
type Confirmed struct {
	Tag    string         `json:"tag"`
	Task   string         `json:"task"`
	Commit string         `json:"commit"` // that the receipt is about
	Inputs journal.Inputs `json:"inputs"`
	At     time.Time      `json:"at"`
}

const confirmedFile = "rechecks.ndjson"

// Confirm remembers rechecks that held. A folder that is missing is made.
func Confirm(fsys atomicfile.FS, dir string, add []Confirmed) error {
	have, err := ReadConfirmed(dir)
	if err != nil || len(add) == 0 {
		return err
	}
	for _, c := range add {
		have = slices.DeleteFunc(have, func(o Confirmed) bool { return o.Tag == c.Tag && o.Task == c.Task })
	}
	var b bytes.Buffer
	for _, c := range append(have, add...) {
		line, err := encode(c)
		if err != nil {
			return err
		}
		b.Write(append(line, '\n'))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return atomicfile.Write(fsys, filepath.Join(dir, confirmedFile), b.Bytes(), 0o644)
}

// ReadConfirmed reads what Confirm remembers, the last recheck of each task.
func ReadConfirmed(dir string) (out []Confirmed, err error) {
	b, err := plainfile.Read(filepath.Dir(dir), filepath.Join(dir, confirmedFile), maxSaved)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for line := range bytes.Lines(b) {
		var c Confirmed
		if json.Unmarshal(line, &c) == nil {
			out = append(out, c)
		}
	}
	return out, err
}
