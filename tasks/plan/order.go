package plan

import (
	"fmt"
	"slices"
	"strings"

	"descartes/internal/lazyregexp"
	"descartes/internal/markdown"
	"descartes/tasks/prose"
)

// subject is who a statement is about: a task, or a phase where there is no task.
type subject struct{ task, phase int }

// statements reads what the text of phases and tasks says about their order.
func (r *reader) statements() {
	for k := range r.phases {
		r.phaseStatements(k)
	}
	for i := range r.tasks {
		t := &r.tasks[i]
		for n := t.Line - 1; n < t.last; n++ {
			r.take(subject{i, -1}, n)
		}
		t.Title = prose.WithoutStatements(t.Title)
	}
}

// phaseStatements reads the heading of a phase and the lines down to its first heading or task. A phase that is a task by itself
// states it as one.
func (r *reader) phaseStatements(k int) {
	f := &r.phases[k]
	end := f.end
	if f.head+1 < len(r.heads) {
		end = min(end, r.heads[f.head+1].line)
	}
	for _, i := range f.tasks {
		end = min(end, r.tasks[i].Line-1)
	}
	for n := f.line; n < end; n++ {
		r.take(subject{-1, k}, n)
	}
}

// take reads one line. Tables are read elsewhere.
func (r *reader) take(who subject, line int) {
	kind := r.md.Lines[line].Kind
	text := markdown.Inline(r.md.Words(line))
	if kind == markdown.Hidden || kind == markdown.Blank || strings.HasPrefix(text, "|") {
		return
	}
	if kind == markdown.Heading && slices.Contains([]string{"dependencies", "depends on", "blocked by"}, prose.Fold(text)) {
		text = "dependencies:"
	}
	for _, s := range prose.Statements(text) {
		switch {
		case s.Beside: // phases follow each other
		case s.Text == "" && s.Strong:
			r.takeEntries(who, line+1, s)
		default:
			r.takeStatement(who, line, s)
		}
	}
}

// takeEntries reads the list under a line that ends with "Depends on:".
func (r *reader) takeEntries(who subject, line int, s prose.Statement) {
	const most = 100
	for n := line; n < min(len(r.md.Lines), line+most) && r.links <= maxLinks; n++ {
		switch l := &r.md.Lines[n]; {
		case l.Kind == markdown.Entry && l.Box == 0:
			r.links++
			s.Text = markdown.Inline(r.md.Words(n))
			r.takeStatement(who, n, s)
		case l.Kind != markdown.Blank || n > line+1:
			return
		}
	}
}

// takeStatement reads ids, then names.
func (r *reader) takeStatement(who subject, line int, s prose.Statement) {
	if s.Strong && !s.Blocks && prose.SaysNone(s.Text) {
		r.state(who)
		return
	}
	refs, rest := prose.Refs(s.Text)
	isList := prose.IsList(refs, rest)
	if isList {
		r.linkAll(who, line, s, refs)
		if behind := s.Text[:len(s.Text)-len(rest)]; !endsOpen(behind) {
			return
		}
		s.Text = rest
	}
	if s.Strong {
		r.takeParts(who, line, s, isList)
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
	if who.task >= 0 && !s.Blocks && !ref.Phase && (prose.IsDotted(ref.ID) || r.stems[strings.TrimRight(ref.ID, "0123456789")]) {
		r.state(who)
		r.say(who.task, ref.ID)
	}
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

func (r *reader) phaseOf(id string) int {
	if k, ok := r.phaseIDs[strings.ToLower(id)]; ok {
		return k
	}
	return -1
}

// resolve finds what a reference in a phase means: the task of that id, else the one of that number in the same phase, else all tasks
// of the phase of that number.
func (r *reader) resolve(ref prose.Ref, from int) []int {
	if !ref.Phase {
		ids := []string{ref.ID, strings.ToUpper(ref.ID)}
		if from >= 0 {
			ids = append(ids, r.phases[from].id+"."+ref.ID)
		}
		for _, id := range ids {
			if i, ok := r.index[id]; ok {
				return []int{i}
			}
		}
	}
	if k := r.phaseOf(ref.ID); k >= 0 && (ref.Phase || !ref.Word) && k != from && len(r.phases[k].tasks) > 0 {
		return r.phases[k].tasks
	}
	return nil
}

// endsOpen reports whether a list goes on behind the text.
func endsOpen(s string) bool {
	s = strings.TrimRight(s, " ")
	return s != "" && (strings.IndexByte(",&+/", s[len(s)-1]) >= 0 || strings.HasSuffix(s, " and") || strings.HasSuffix(s, " or"))
}

// takeParts resolves a list part by part: titles, ids, ids without a digit as in "Task A". A part that names nothing is a finding and drops
// no other; where ids went before, a longer one is the rest of a sentence. A list of which no part names anything is one finding.
func (r *reader) takeParts(who subject, line int, s prose.Statement, behind bool) {
	const most = 1000
	text, _, _ := strings.Cut(s.Text, ")")
	text, _, _ = strings.Cut(text, ";")
	if len(text) > most || who.task < 0 {
		return
	}
	parts := strings.Split(between.Replace(text), ",")
	if i, ok := r.called[prose.Fold(text)]; ok && i >= 0 {
		parts = []string{text}
	}
	var unknown []string
	resolved := behind
	for _, part := range parts {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		if r.takePart(who, line, s, part) {
			resolved = true
		} else if !behind || len(strings.Fields(part)) <= 3 {
			unknown = append(unknown, part)
		}
	}
	if !resolved {
		unknown = []string{text}
	}
	for _, part := range unknown {
		if id := r.tasks[who.task].ID; !s.Blocks {
			r.note(line, id, "dependency", fmt.Sprintf("task %s: %q does not name a task: ignored", id, prose.Short(strings.TrimSpace(part))))
		}
	}
}

var between = strings.NewReplacer(" and ", ",", " & ", ",")

func (r *reader) takePart(who subject, line int, s prose.Statement, part string) bool {
	i, ok := r.called[prose.Fold(part)]
	if !ok || i < 0 {
		if refs, rest := prose.Refs(part); prose.IsList(refs, rest) && strings.Trim(rest, " .") == "" {
			r.linkAll(who, line, s, refs)
			return true
		}
		i, ok = r.index[taskWord.ReplaceAllString(strings.TrimRight(part, "."), "")]
	}
	if ok {
		r.links++
		r.connect(who, s, []int{i})
	}
	return ok
}

var taskWord = lazyregexp.New(`(?i)^(?:sub)?task +`)

// order makes the tasks of each phase wait for those of the phase before, unless the plan says what they wait for. Where an earlier
// task is said to wait for a later one, the later one and what it needs are not made to wait by their phase: that would be a circle. Large
// phases need dependencies by the square of their size: it reports false where that is too much.
func (r *reader) order() bool {
	early := r.early()
	links := 0
	var before []string // the last tasks of the phase before
	for k := range r.phases {
		f := &r.phases[k]
		for _, i := range f.tasks {
			if !r.tasks[i].stated && !f.stated && !early[i] {
				r.tasks[i].DependsOn = before
				links += len(before)
			}
		}
		if len(f.tasks) > 0 {
			before = r.last(f)
		}
	}
	for i := range r.tasks {
		if t := &r.tasks[i]; len(t.said) > 0 {
			waits := slices.DeleteFunc(slices.Clone(t.DependsOn), func(id string) bool { return t.isSaid[id] })
			t.DependsOn = slices.Concat(t.said, waits)
		}
	}
	return links <= maxOrder
}

// last are the tasks of a phase that no other task of it waits for; all of them if they wait for each other in a circle.
func (r *reader) last(f *phase) []string {
	needed := map[string]bool{}
	for _, i := range f.tasks {
		for _, id := range r.tasks[i].said {
			needed[id] = true
		}
	}
	var ids, all []string
	for _, i := range f.tasks {
		id := r.tasks[i].ID
		if all = append(all, id); !needed[id] {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return all
	}
	return ids
}

// early are the tasks that a task of an earlier phase waits for, directly or not, by what the plan states.
func (r *reader) early() map[int]bool {
	early := map[int]bool{}
	var enter func(i, above int)
	var open []int
	enter = func(i, above int) {
		for _, id := range r.tasks[i].said {
			if j, ok := r.index[id]; ok && !early[j] && r.tasks[j].phase > above {
				early[j] = true
				open = append(open, j)
			}
		}
	}
	for i := range r.tasks {
		enter(i, r.tasks[i].phase)
	}
	for len(open) > 0 {
		i := open[len(open)-1]
		open = open[:len(open)-1]
		enter(i, -2)
	}
	return early
}
