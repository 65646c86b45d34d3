package source

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/specbuild"
	"descartes/verify"
)

// Kept is an attempt as described by the commit that keeps it, for use without its journal.
type Kept struct {
	Loop, Task      string
	Attempt         int
	Verdict, Reason string
	Asks            bool   // it waits for a person's answer
	Same            bool   // it changed nothing: only what it said is kept; see KeepsWork
	Output          string // end of its verification's output
}

// Made is the verdict of an attempt whose agent has ended, and whose commit was to be checked: what came of that, the
// trunk says, or a later commit under its ref.
const Made = "made"

// Limits of the output in a commit's message.
const (
	maxKeptLines = 40
	maxKept      = 4 << 10 // bytes
)

const (
	keptIndent = "    " // so that no output line looks like a trailer
	keptSame   = "Descartes-Changed: nothing"
	keptAsks   = "Descartes-Asks: a person"
)

// Message is that of the commit that keeps it, an attempt at a task of a list.
func (k *Kept) Message(list gitops.Named) string {
	var b strings.Builder
	id := oneline.Text(k.Task)
	fmt.Fprintf(&b, "%s: task %s attempt %d: %s\n\n%s\n\n", list.Tag, id, k.Attempt, k.Verdict,
		oneline.Text(k.Reason))
	lines := strings.Split(strings.TrimRight(oneline.Last(k.Output, maxKept), "\n"), "\n")
	if strings.TrimSpace(k.Output) != "" {
		for _, line := range lines[max(0, len(lines)-maxKeptLines):] {
			b.WriteString(keptIndent + oneline.Text(strings.ReplaceAll(line, "\t", keptIndent)) + "\n")
		}
		b.WriteString("\n")
	}
	list.Task = id
	fmt.Fprintf(&b, "Descartes-Loop: %s\n%s%s\nDescartes-Attempt: %d\nDescartes-Verdict: %s\n", k.Loop,
		list.Place(), list.Trailer(), k.Attempt, k.Verdict)
	if k.Same {
		b.WriteString(keptSame + "\n")
	}
	if k.Asks {
		b.WriteString(keptAsks + "\n")
	}
	return b.String()
}

// KeepsWork reports whether a ref keeps what somebody wrote, and not only what the agent said.
func KeepsWork(r gitops.Ref) bool { return !strings.Contains(r.Message+"\n", "\n"+keptSame+"\n") }

// ReadKept reads an attempt at a list's task from the ref that keeps it. ok is false for any other ref.
func ReadKept(r gitops.Ref, list gitops.Named, task string) (Kept, bool) {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.Name, "refs/descartes/"), "/")
	number, ok := strings.CutPrefix(r.Name, store.RefPrefix(name, task))
	if !ok || !strings.HasPrefix(r.Message, list.Tag+": task ") {
		return Kept{}, false
	}
	n, err := strconv.Atoi(number)
	if err != nil {
		return Kept{}, false
	}
	k, place := Kept{Loop: name, Task: task, Attempt: n}, ""
	lines := strings.Split(r.Message, "\n")
	if len(lines) > 2 {
		k.Reason = lines[2]
	}
	for _, line := range lines[min(4, len(lines)):] {
		if out, ok := strings.CutPrefix(line, keptIndent); ok {
			k.Output += out + "\n"
		} else if v, ok := strings.CutPrefix(line, "Descartes-Verdict: "); ok {
			k.Verdict = v
		} else if line == keptAsks {
			k.Asks = true
		} else if strings.HasPrefix(line, gitops.ListTrailer) {
			place = line + "\n"
		}
	}
	return k, place == list.Place()
}

// Verified is 1 for an attempt that was verified, or is to be checked, else 0.
func (k *Kept) Verified() int {
	if k.Verdict == string(verify.Verified) || k.Verdict == string(verify.Accepted) || k.Verdict == Made {
		return 1
	}
	return 0
}

// AddEarlier adds to the request for a task's first attempt in a loop the result of its last attempt in an earlier
// loop.
func (r *SpecRequest) AddEarlier(refs []gitops.Ref, list gitops.Named, loop string) {
	if r.Attempt > 1 || r.Failure != nil {
		return
	}
	var last Kept
	var ref gitops.Ref
	for _, one := range refs {
		k, ok := ReadKept(one, list, r.Task)
		if !ok || k.Loop == loop || k.Verdict == string(verify.Cancelled) || k.Verdict == string(verify.Limited) ||
			!r.Before.IsZero() && one.When.After(r.Before) {
			continue
		}
		// times are in seconds
		if cmp.Or(one.When.Compare(ref.When), k.Verified()-last.Verified(), k.Attempt-last.Attempt) > 0 {
			last, ref = k, one
		}
	}
	if ref.Name != "" && last.Verified() == 0 {
		r.Failure = &specbuild.Failure{Attempt: last.Attempt, Verdict: last.Verdict,
			Clash: last.Verdict == string(journal.Clashed), Reason: last.Reason, Output: last.Output, Ref: ref.Name}
	}
}
