package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"descartes/gitops"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/store"
)

type Attempt struct {
	Loop    string    `json:"loop"`
	Attempt int       `json:"attempt"`
	Round   int       `json:"round,omitempty"`     // of several at the same time: the number of the first of them
	Nth     int       `json:"candidate,omitempty"` // and its own number among them
	Verdict string    `json:"verdict"`
	Reason  string    `json:"reason"`
	Ref     *string   `json:"ref"` // null where the attempt left nothing to keep
	Commit  *string   `json:"commit"`
	Backend string    `json:"backend,omitempty"` // what it was run with
	Model   string    `json:"model,omitempty"`
	Session string    `json:"session_of,omitempty"` // the task in whose session it went on
	Log     string    `json:"log"`
	At      time.Time `json:"at"`
	Cost    *costJSON `json:"cost"` // null where unknown
	dollars string
	before  string // tree
	checks  []*journal.Detail
}

// Done reports whether its work was taken, by the checks or by a person.
func (a *Attempt) Done() bool {
	return a.Verdict == string(journal.Verified) || a.Verdict == string(journal.Accepted)
}

// Attempts joins a task's attempts in the journals with the refs that keep them. A ref whose journal is gone is
// described by its own message.
func (b *Board) Attempts(id string, refs []gitops.Ref) ([]Attempt, error) {
	home := store.NewHome(b.Root)
	all, err := home.List()
	if err != nil {
		return nil, err
	}
	kept := map[string]gitops.Ref{}
	for _, r := range refs {
		kept[r.Name] = r
	}
	out := []Attempt{}
	told := map[string]bool{}
	for _, s := range all {
		if s.State == nil || s.State.Tag != b.File.Tag() {
			continue
		}
		h, err := journal.Load(home.Events(s.State.ID))
		if err != nil {
			return nil, err
		}
		for _, one := range h.Ended {
			if one.Task != id {
				continue
			}
			a := Attempt{Loop: s.State.ID, Attempt: one.Number, Verdict: one.Outcome(), Reason: one.Reason, At: one.Ended,
				Log: Relative(b.Root, home.Log(s.State.ID, id, one.Number))}
			if d := one.Result; d != nil {
				a.Backend, a.Model = d.Backend, d.Model
			}
			a.checks, a.before = one.Checks, Short(one.Before)
			a.Round, a.Nth = one.Round, one.Candidate()
			if one.From != nil {
				a.Session = one.From.Task
			}
			name := store.RefPrefix(s.State.ID, id) + strconv.Itoa(one.Number)
			if r, ok := kept[name]; ok {
				a.Ref, a.Commit = &r.Name, &r.Hash
			}
			told[name] = true
			if one.Cost.Runs > 0 {
				c := jsonCost(one.Cost)
				a.Cost, a.dollars = &c, one.Cost.Dollars()
			}
			out = append(out, a)
		}
	}
	for _, r := range refs {
		if k, ok := loop.ReadKept(r, b.File.Tag(), id); ok && !told[r.Name] {
			out = append(out, Attempt{Loop: k.Loop, Attempt: k.Attempt, Verdict: k.Verdict, Reason: k.Reason, Ref: &r.Name, Commit: &r.Hash, At: r.When})
		}
	}
	return out, nil
}

func AttemptTable(id string, list []Attempt) string {
	if len(list) == 0 {
		return "task " + terminal.Clean(id) + " has no attempts\n"
	}
	var s strings.Builder
	w := tabwriter.NewWriter(&s, 0, 8, 2, ' ', 0)
	several := slices.ContainsFunc(list, func(a Attempt) bool { return a.Loop != list[0].Loop })
	if several {
		fmt.Fprint(w, "LOOP\t")
	}
	mixed := slices.ContainsFunc(list, func(a Attempt) bool { return a.Backend != list[0].Backend || a.Model != list[0].Model })
	with := func(a Attempt) string {
		if !mixed {
			return ""
		}
		return strings.TrimSpace(terminal.Clean(a.Backend)+" "+terminal.Clean(a.Model)) + "\t"
	}
	agent := ""
	if mixed {
		agent = "AGENT\t"
	}
	priced := slices.ContainsFunc(list, func(a Attempt) bool { return a.Cost != nil && a.Cost.USD != nil })
	raced := slices.ContainsFunc(list, func(a Attempt) bool { return a.Nth > 0 })
	fmt.Fprintln(w, "ATTEMPT\t"+column(raced, "CANDIDATE\t")+agent+"VERDICT\t"+column(priced, "COST\t")+"REF\tREASON")
	for _, a := range list {
		ref := "nothing to keep"
		if a.Ref != nil {
			ref = *a.Ref
		}
		if several {
			fmt.Fprintf(w, "%s\t", terminal.Clean(a.Loop))
		}
		nth := "-"
		if a.Nth > 0 {
			nth = strconv.Itoa(a.Nth)
		}
		fmt.Fprintf(w, "%d\t%s%s%s\t%s%s\t%s\n", a.Attempt, column(raced, nth+"\t"), with(a), terminal.Clean(a.Verdict), column(priced, cmp.Or(a.dollars, "unknown")+"\t"), ref, terminal.Fit(terminal.Clean(a.Reason), 80))
	}
	w.Flush() // into memory
	for _, a := range list {
		if a.Ref != nil {
			fmt.Fprintf(&s, "\nlook at one: git diff %s %s\n", cmp.Or(a.before, "HEAD"), *a.Ref)
			break
		}
	}
	return s.String()
}
