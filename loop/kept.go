package loop

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/specbuild"
	"descartes/verify"
)

// Kept is an attempt as the commit that keeps it says, for where its journal is not.
type Kept struct {
	Loop, Task      string
	Attempt         int
	Verdict, Reason string
	Output          string // the end of what its verification printed
}

// maxKeptLines bounds the output in a commit's message, besides maxWords.
const maxKeptLines = 40

const keptIndent = "    " // so that no line of the output is taken for a trailer

func (k *Kept) message(tag string) string {
	var b strings.Builder
	id := oneline.Text(k.Task)
	fmt.Fprintf(&b, "%s: task %s attempt %d: %s\n\n%s\n\n", tag, id, k.Attempt, k.Verdict, oneline.Text(k.Reason))
	lines := strings.Split(strings.TrimRight(tail(k.Output, maxWords), "\n"), "\n")
	if strings.TrimSpace(k.Output) != "" {
		for _, line := range lines[max(0, len(lines)-maxKeptLines):] {
			b.WriteString(keptIndent + oneline.Text(strings.ReplaceAll(line, "\t", keptIndent)) + "\n")
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "Descartes-Loop: %s\nDescartes-Task: %s\nDescartes-Attempt: %d\nDescartes-Verdict: %s\n", k.Loop, id, k.Attempt, k.Verdict)
	return b.String()
}

// ReadKept reads an attempt at a task from the ref that keeps it; other refs keep none.
func ReadKept(r gitops.Ref, tag, task string) (Kept, bool) {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.Name, "refs/descartes/"), "/")
	number, ok := strings.CutPrefix(r.Name, RefPrefix(name, task))
	if !ok || !strings.HasPrefix(r.Message, tag+": task ") {
		return Kept{}, false
	}
	n, err := strconv.Atoi(number)
	if err != nil {
		return Kept{}, false
	}
	k := Kept{Loop: name, Task: task, Attempt: n}
	lines := strings.Split(r.Message, "\n")
	if len(lines) > 2 {
		k.Reason = lines[2]
	}
	for _, line := range lines[min(4, len(lines)):] {
		if out, ok := strings.CutPrefix(line, keptIndent); ok {
			k.Output += out + "\n"
		} else if v, ok := strings.CutPrefix(line, "Descartes-Verdict: "); ok {
			k.Verdict = v
		}
	}
	return k, true
}

// tellEarlier adds to the request for a task's first attempt in a loop what the last one of an earlier loop came to.
func (r *SpecRequest) tellEarlier(refs []gitops.Ref, tag, loop string) {
	if r.Attempt > 1 || r.Failure != nil {
		return
	}
	var last Kept
	var ref gitops.Ref
	for _, one := range refs {
		k, ok := ReadKept(one, tag, r.Task)
		if !ok || k.Loop == loop || k.Verdict == string(verify.Cancelled) || k.Verdict == string(verify.Limited) || !r.Before.IsZero() && one.When.After(r.Before) {
			continue
		}
		if cmp.Or(one.When.Compare(ref.When), k.Attempt-last.Attempt) > 0 {
			last, ref = k, one
		}
	}
	if ref.Name != "" && last.Verdict != string(verify.Verified) {
		r.Failure = &specbuild.Failure{Attempt: last.Attempt, Verdict: last.Verdict, Reason: last.Reason, Output: last.Output, Ref: ref.Name}
	}
}
