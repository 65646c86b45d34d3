package plan

import (
	"fmt"
	"slices"
	"strings"

	"descartes/internal/markdown"
	"descartes/tasks/prose"
)

// subject is who a statement is about: a task, or a phase where there is no task.
type subject struct{ task, phase int }

// readPhase reads what the heading of a phase and the lines down to its first heading or task say about its order. A
// phase that is a task by itself states it as one.
func (r *reader) readPhase(k int) {
	f := &r.phases[k]
	end := f.End
	if f.Head+1 < len(r.Heads) {
		end = min(end, r.Heads[f.Head+1].Line)
	}
	for _, i := range f.tasks {
		end = min(end, r.tasks[i].Line-1)
	}
	r.open = nil
	for n := f.Line; n < end; n++ {
		r.statements(subject{-1, k}, n)
	}
}

// statements reads one line, and reports whether it says nothing but what something waits for. Tables are read
// elsewhere.
func (r *reader) statements(who subject, n int) (alone bool) {
	l, text := &r.Lines[n], r.Plain(n)
	if l.Kind == markdown.Hidden || l.Kind == markdown.Blank || strings.HasPrefix(text, "|") {
		return false
	}
	if r.open != nil && l.Kind == markdown.Entry && l.Box == 0 {
		s := *r.open
		s.Text = text
		r.take(who, n, s)
		return false
	}
	r.open = nil
	if l.Kind == markdown.Heading && prose.Label(text) == "depends" {
		text = "dependencies:"
	}
	for _, s := range prose.Statements(text) {
		switch {
		case s.Beside: // phases follow each other
		case s.Text == "" && s.Strong:
			r.open = &s
		default:
			r.take(who, n, s)
		}
		alone = alone || s.Alone
	}
	if name, value, ok := prose.Labelled(text); ok && l.Kind != markdown.Heading && who.task >= 0 && !alone {
		r.unknownLabel(who.task, n, name, value)
	}
	return alone
}

// sentences says which lines of a task that states no order seem to speak of one: "start once Task 2 is merged".
func (r *reader) sentences(i int) {
	t := &r.tasks[i]
	for n := t.Line; n < t.last && !t.stated; n++ {
		if kind := r.Lines[n].Kind; kind != markdown.Text && kind != markdown.Entry {
			continue
		}
		for _, ref := range prose.Ordered(r.Plain(n)) {
			k, ok := r.index[ref.ID]
			if ok && ref.Word && !ref.Phase && k != i && (t.phase < 0 || r.tasks[k].phase >= t.phase) {
				r.note(n, t.ID, "label", fmt.Sprintf("task %s: %q names task %s: if it waits for that one, write \"Depends on: Task %s\"",
					t.ID, prose.Short(r.Plain(n)), ref.ID, ref.ID))
			}
		}
	}
}

// unknownLabel says that a line only names tasks, behind a label that is no word for an order here.
func (r *reader) unknownLabel(i, line int, name, value string) {
	for part := range strings.SplitSeq(value, ",") {
		refs, rest := prose.Refs(part)
		k, known := r.called[prose.Fold(part)]
		known = known && k >= 0 && k != i && r.Heads[max(0, r.HeadAt(r.tasks[k].Line-1))].Word == "section"
		if !known && (len(refs) == 0 || strings.Trim(rest, " .") != "" || slices.ContainsFunc(refs, func(x prose.Ref) bool {
			at, ok := r.index[x.ID]
			return x.Phase || !x.Word || !ok || at == i
		})) {
			return
		}
	}
	t := r.tasks[i].ID
	r.note(line, t, "label", fmt.Sprintf("task %s: %q names tasks, but %q is no word for an order that is known here: ignored",
		t, prose.Short(strings.TrimSpace(value)), name))
}

// take reads ids, then names: titles, ids, ids without a digit as in "Task A". One that names nothing is a finding and
// drops no other.
func (r *reader) take(who subject, line int, s prose.Statement) {
	const most = 1000
	if s.Strong && !s.Blocks && (s.Text == "" || prose.SaysNone(s.Text)) {
		r.state(who)
		return
	}
	if refs, rest := prose.Refs(s.Text); prose.IsList(refs, rest) {
		r.linkAll(who, line, s, refs)
		behind := strings.TrimRight(s.Text[:len(s.Text)-len(rest)], " ")
		if strings.TrimRight(behind, ",&+/") == behind && !strings.HasSuffix(behind, " and") {
			return // the list ends there
		}
		s.Text = rest
	}
	text, _, _ := strings.Cut(s.Text, ")")
	text, _, _ = strings.Cut(text, ";")
	if !s.Strong || who.task < 0 || len(text) > most {
		return
	}
	parts := strings.Split(strings.NewReplacer(" and ", ",", " & ", ",").Replace(text), ",")
	if i, ok := r.called[prose.Fold(text)]; ok && i >= 0 {
		parts = []string{text}
	}
	var unknown []string
	for _, part := range parts {
		id := strings.TrimRight(strings.TrimSpace(part), ".")
		if refs, rest := prose.Refs(part); prose.IsList(refs, strings.TrimSpace(rest)) &&
			strings.Trim(rest, " .") == "" {
			r.linkAll(who, line, s, refs)
		} else if i, ok := r.called[prose.Fold(part)]; ok && i >= 0 {
			r.connect(who, s, []int{i})
		} else if i, ok := r.index[id[strings.LastIndexByte(id, ' ')+1:]]; ok && len(id) < 20 {
			r.connect(who, s, []int{i})
		} else if id != "" && !s.Blocks {
			unknown = append(unknown, id)
		}
	}
	if len(unknown) == len(parts) {
		unknown = []string{text}
	}
	for _, name := range unknown {
		t := r.tasks[who.task].ID
		r.note(line, t, "dependency", fmt.Sprintf("task %s: %q does not name a task: ignored", t, prose.Short(name)))
	}
}

func (r *reader) linkAll(who subject, line int, s prose.Statement, refs []prose.Ref) {
	for _, ref := range refs {
		if s.Strong || ref.Word {
			ref.Phase = ref.Phase || who.task < 0 && !ref.Word
			r.link(who, line, s, ref)
		}
	}
}

// link resolves one reference.
func (r *reader) link(who subject, line int, s prose.Statement, ref prose.Ref) {
	if r.links++; r.links > maxLinks {
		return
	}
	from, id, name, what := who.phase, "", "a phase", "task"
	if who.task >= 0 {
		t := &r.tasks[who.task]
		from, id, name = t.phase, t.ID, "task "+t.ID
	}
	if found := r.resolve(ref, from); found != nil {
		r.connect(who, s, found)
		return
	}
	if !s.Strong {
		return
	}
	if ref.Phase {
		what = "phase"
	}
	r.note(line, id, "dependency", fmt.Sprintf("%s: there is no %s %s in the plan", name, what, ref.ID))
	// Something that could be one of the plan's ids holds the task, rather than letting it start too early.
	if who.task >= 0 && !s.Blocks && !ref.Phase && (prose.IsDotted(ref.ID) ||
		r.stems[strings.TrimRight(ref.ID, "0123456789")]) {
		r.state(who)
		r.say(who.task, ref.ID)
	}
}

// resolve finds what a reference in a phase means: the task of that id, else the one of that number in the same phase,
// else all tasks of the phase of that number.
func (r *reader) resolve(ref prose.Ref, from int) []int {
	if i, ok := r.index[ref.Written]; ok {
		return []int{i} // 1-2 is an id here, not 1 and 2
	}
	if !ref.Phase {
		ids := []string{ref.ID, strings.ToUpper(ref.ID)}
		if from >= 0 {
			ids = append(ids, r.phases[from].ID+"."+ref.ID)
		}
		for _, id := range ids {
			if i, ok := r.index[id]; ok {
				return []int{i}
			}
		}
		if i, ok := r.unpadded[strings.TrimLeft(ref.ID, "0")]; ok {
			return []int{i}
		}
		if i, ok := r.index[strings.TrimLeft(ref.ID, "0")]; ok {
			return []int{i}
		}
	}
	if k, ok := r.phaseIDs[strings.ToLower(ref.ID)]; ok && (ref.Phase || !ref.Word) && k != from &&
		len(r.phases[k].tasks) > 0 {
		return r.phases[k].tasks
	}
	return nil
}

// state notes that the plan says what a task or a phase waits for.
func (r *reader) state(who subject) {
	if who.task >= 0 {
		r.tasks[who.task].stated = true
	} else {
		r.phases[who.phase].stated = true
	}
}

// connect makes a task, or the tasks of a phase, wait for others, or the others for it.
func (r *reader) connect(who subject, s prose.Statement, others []int) {
	mine := []int{who.task}
	if who.task < 0 {
		mine = r.phases[who.phase].tasks
	}
	if !s.Blocks {
		r.state(who)
	}
	for _, a := range mine {
		for _, b := range others {
			if s.Blocks {
				r.say(b, r.tasks[a].ID)
			} else {
				r.say(a, r.tasks[b].ID)
			}
		}
	}
}

// say adds a dependency that the plan states.
func (r *reader) say(task int, on string) {
	t := &r.tasks[task]
	if r.links++; t.ID == on || t.isSaid[on] || r.links > maxLinks {
		return
	}
	if t.isSaid == nil {
		t.isSaid = map[string]bool{}
	}
	t.isSaid[on] = true
	t.said = append(t.said, on)
}

// order makes the tasks of each phase wait for those of the phase before, unless the plan says what they wait for.
func (r *reader) order() {
	if r.By.Queue {
		r.queue()
	}
	var before []string // the tasks of the phase before
	for k := range r.phases {
		f := &r.phases[k]
		var own []string
		for _, i := range f.tasks {
			t := &r.tasks[i]
			if own = append(own, t.ID); !t.stated && !f.stated && !r.By.Queue {
				t.DependsOn = before
				r.links += len(before)
			}
		}
		if len(own) > 0 {
			before = own
		}
	}
	for i := range r.tasks {
		if t := &r.tasks[i]; len(t.said) > 0 {
			waits := slices.DeleteFunc(slices.Clone(t.DependsOn), func(id string) bool { return t.isSaid[id] })
			t.DependsOn = slices.Concat(t.said, waits)
		}
	}
}

// queue makes each task wait for the one before it, or for its group of neighbours that may run at the same time.
func (r *reader) queue() {
	var before, group []string
	last := -1
	for i := range r.tasks {
		if r.tasks[i].Container() {
			continue
		}
		if last >= 0 && !r.Together(last, i) {
			before, group = group, nil
		}
		group, last = append(group, r.tasks[i].ID), i
		r.tasks[i].DependsOn = before
		r.links += len(before)
	}
}
