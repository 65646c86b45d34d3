package scheduler

import "slices"

// Breaker ends a run in which one thing fails whatever is tried: several tries in a row, by one signature. A run over
// tasks counts tasks, for one stubborn task is no breakdown; a prompt loop counts what crashed.
type Breaker struct {
	row
	opened row // what opened it, until the next resume
	half   row // what had opened it before that: one more of the same opens it again
	doubt  row // a check took its only task's last attempt: is it the task, or the trunk?
}

// row is who failed, one after the other, in the same way.
type row struct {
	names     []string
	signature string
	byAgent   bool // agents crash, or do nothing: one that does something ends the row
	byTip     bool // the untouched tip fails so, too
}

// IsOpen reports whether no agent may start.
func (b *Breaker) IsOpen() bool { return b.opened.signature != "" }

// Names are who opened it, in order; none while it is closed.
func (b *Breaker) Names() []string { return slices.Clone(b.opened.names) }

// ByAgents reports whether agents that crash or do nothing opened it.
func (b *Breaker) ByAgents() bool { return b.opened.byAgent }

// IsHalfOpen reports whether one more of what had opened it opens it again.
func (b *Breaker) IsHalfOpen() bool { return b.half.signature != "" }

// InRow is how many failed in the same way, one after the other.
func (b *Breaker) InRow() int { return len(b.names) }

// Failed notes a failure of a name. Without a signature it says nothing about the machine, and ends the row. limit is
// how many open the breaker; 0: any number may fail.
func (b *Breaker) Failed(name, signature string, byAgent bool, limit int) {
	if signature == "" || signature != b.signature {
		b.row = row{signature: signature}
	}
	if signature != b.half.signature {
		b.half = row{}
	}
	if b.byAgent = byAgent; signature == "" {
		return
	}
	if !slices.Contains(b.names, name) {
		b.names = append(slices.Clone(b.names), name)
	}
	if limit > 0 && (b.half.signature != "" || len(b.names) >= limit) {
		b.open(b.row)
	}
}

func (b *Breaker) open(by row) {
	if !b.IsOpen() {
		b.opened = by
	}
}

// Worked: an agent did something. What checks say is another matter.
func (b *Breaker) Worked() {
	if b.byAgent {
		b.row = row{}
	}
	if b.half.byAgent {
		b.half = row{}
	}
}

// Passed ends every row: a commit passed its checks.
func (b *Breaker) Passed() { b.row, b.half = row{}, row{} }

// blocked: the checks took a task's last attempt, and nobody else failed so.
func (b *Breaker) blocked(task string, limit int) {
	if limit > 0 && !b.IsOpen() && len(b.names) == 1 && b.names[0] == task {
		b.doubt = b.row
	}
}

// doubted is the task whose failure may be the trunk's; "": none is.
func (b *Breaker) doubted() string {
	if len(b.doubt.names) == 0 {
		return ""
	}
	return b.doubt.names[0]
}

// rechecked: the untouched tip fails too, or does not.
func (b *Breaker) rechecked(signature string) {
	if signature != "" && signature == b.doubt.signature {
		b.doubt.byTip = true
		b.open(b.doubt)
	}
	b.doubt = row{}
}

// Resumed leaves an open breaker half open.
func (b *Breaker) Resumed() {
	if b.doubt = (row{}); b.IsOpen() {
		b.row, b.opened, b.half = row{}, row{}, b.opened
	}
}
