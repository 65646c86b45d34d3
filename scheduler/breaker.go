package scheduler

import "slices"

// Breaker ends a run in which one thing fails whatever the task is: three tasks in a row, by one signature.
type Breaker struct {
	row
	Opened row // what opened it, until the next resume
	Half   row // what had opened it before that: one more of the same opens it again
	Doubt  row // a check took its only task's last attempt: is it the task, or the trunk?
}

// row is who failed, one after the other, in the same way. Tasks, not attempts: one stubborn task is no breakdown.
type row struct {
	Tasks     []string
	Signature string
	ByAgent   bool // agents crash, or do nothing: one that does something ends the row
}

func (b *Breaker) isOpen() bool { return b.Opened.Signature != "" }

// failed: without a signature it says nothing about the machine, and ends the row.
func (b *Breaker) failed(task, signature string, byAgent bool, limit int) {
	if signature == "" || signature != b.Signature {
		b.row = row{Signature: signature}
	}
	if signature != b.Half.Signature {
		b.Half = row{}
	}
	if b.ByAgent = byAgent; signature == "" || limit == 0 {
		return
	}
	if !slices.Contains(b.Tasks, task) {
		b.Tasks = append(slices.Clone(b.Tasks), task)
	}
	if b.Half.Signature != "" || len(b.Tasks) >= limit {
		b.open(b.row)
	}
}

func (b *Breaker) open(by row) {
	if !b.isOpen() {
		b.Opened = by
	}
}

// worked: an agent did something. What checks say is another matter.
func (b *Breaker) worked() {
	if b.ByAgent {
		b.row = row{}
	}
	if b.Half.ByAgent {
		b.Half = row{}
	}
}

// passed: a commit passed its checks.
func (b *Breaker) passed() { b.row, b.Half = row{}, row{} }

// blocked: the checks took a task's last attempt, and nobody else failed so.
func (b *Breaker) blocked(task string, limit int) {
	if limit > 0 && !b.isOpen() && len(b.Tasks) == 1 && b.Tasks[0] == task {
		b.Doubt = b.row
	}
}

// rechecked: the untouched tip fails too, or does not.
func (b *Breaker) rechecked(signature string) {
	if signature != "" && signature == b.Doubt.Signature {
		b.open(b.Doubt)
	}
	b.Doubt = row{}
}

func (b *Breaker) resumed() {
	if b.Doubt = (row{}); b.isOpen() {
		b.row, b.Opened, b.Half = row{}, row{}, b.Opened
	}
}
