package tasks

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"descartes/tasks/prose"
)

// Lint names what a reader goes on from without a word, but a person should look at: what SCUD would refuse or lose, statuses that
// contradict each other, counts and a mirror that are stale, circles through other tags, a tag that is active in one place and not in another. The project is at root.
func (f *File) Lint(root string) []Finding {
	l := &linter{File: f, results: map[*File]*outcomes{f: f.outcomes()}}
	for i := range f.tasks {
		if t := &f.tasks[i]; f.index[t.ID] == i {
			l.statuses(t)
			l.numbering(t)
			l.limits(t)
			l.losses(t)
			l.fromOutside(t)
		}
	}
	l.dialect()
	l.otherTags(root)
	l.declaredWaves()
	if !l.letters && l.binary == notBinary {
		if d, p := parse(l.src); p == nil {
			l.leftOvers(d)
			l.summary(d)
		}
	}
	l.stale()
	l.activeTags(root)
	slices.SortStableFunc(l.out, func(a, b Finding) int { return cmp.Compare(a.Line, b.Line) })
	return l.out
}

type linter struct {
	*File
	out     []Finding
	results map[*File]*outcomes
}

// outcome is File.Outcome of a task of the file, or of another tag's.
func (l *linter) outcome(f *File, id string) (Status, bool) {
	if l.results[f] == nil {
		l.results[f] = f.outcomes()
	}
	return l.results[f].of(id)
}

func (l *linter) say(t *Task, kind, format string, args ...any) {
	l.out = append(l.out, Finding{Line: t.Line, ID: t.ID, Kind: kind, Message: "task " + t.ID + ": " + fmt.Sprintf(format, args...)})
}

// scud reports whether the file is one that SCUD reads.
func (l *linter) scud() bool {
	return l.binary == notBinary && !l.master && (l.letters || filepath.Base(l.path) == manyTags)
}

// statuses compares a task's status with those of its dependencies and subtasks.
func (l *linter) statuses(t *Task) {
	own, _ := l.outcome(l.File, t.ID)
	for _, id := range t.DependsOn {
		on, ok := l.Task(id)
		if !ok {
			continue
		}
		switch s, _ := l.outcome(l.File, id); {
		case own == Done && s != Done:
			l.say(t, "status", "it is done, but depends on %s, which is %s", id, l.word(on))
		case own != Done && (s == Cancelled || s == Deferred):
			l.say(t, "status", "it depends on %s, which is %s: it is not run until that changes", id, s)
		}
	}
	if l.letters && t.Status == Failed {
		l.say(t, "status", "its letter ! is read as pending by scud before 1.32")
	}
	if !t.Container() || t.Status == Done {
		return
	}
	open := slices.ContainsFunc(t.Children, func(id string) bool { s, _ := l.outcome(l.File, id); return s != Done })
	switch {
	case l.letters && (t.Status == Pending || t.Status == InProgress):
		l.say(t, "status", "it has subtasks and is %s: scud calls such a task expanded", t.Status)
	case !open && t.Status != Expanded && l.binary == notBinary:
		l.say(t, "status", "all its subtasks are done, it is %s", l.word(t))
	}
}

func (l *linter) word(t *Task) string { return cmp.Or(t.RawStatus, string(t.Status)) }

// numbering names holes in the numbers of subtasks: a subtask may have been lost there.
func (l *linter) numbering(t *Task) {
	seen := map[int]bool{}
	most := 0
	for _, id := range t.Children {
		rest, ok := strings.CutPrefix(id, t.ID+".")
		n, err := strconv.Atoi(rest)
		if !ok || err != nil || n < 1 || n > 10*len(t.Children)+10 {
			return
		}
		seen[n], most = true, max(most, n)
	}
	var holes []string
	for n := 1; n < most; n++ {
		if !seen[n] {
			holes = append(holes, t.ID+"."+strconv.Itoa(n))
		}
	}
	if len(holes) > 8 {
		holes = append(holes[:8], "...")
	}
	if len(holes) > 0 {
		l.say(t, "numbering", "its subtasks skip %s", strings.Join(holes, ", "))
	}
}

// limits are those of the programs that share the file.
func (l *linter) limits(t *Task) {
	if strings.TrimSpace(t.Title) == "" {
		l.say(t, "title", "it has no title")
	}
	if !slices.Contains([]string{"critical", "high", "medium", "low"}, t.Priority) {
		l.say(t, "priority", "priority %s is none of critical, high, medium, low", prose.Short(t.Priority))
	}
	if !l.scud() {
		return
	}
	if n := utf8.RuneCountInString(t.Title); n > 200 {
		l.say(t, "title", "its title has %d characters, scud takes at most 200", n)
	}
	if n := utf8.RuneCountInString(t.Description); n > 5000 {
		l.say(t, "description", "its description has %d characters, scud takes at most 5000", n)
	}
	if fibonacci := []string{"", "0", "1", "2", "3", "5", "8", "13", "21", "34", "55", "89"}; !slices.Contains(fibonacci, t.Complexity) {
		l.say(t, "complexity", "complexity %s is none of 0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89", prose.Short(t.Complexity))
	}
}

// losses names text that scud drops when it rewrites a tasks.scg.
func (l *linter) losses(t *Task) {
	if !l.letters {
		return
	}
	for _, text := range []string{t.Description, t.Details, t.TestStrategy} {
		for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
			switch line = strings.TrimSpace(line); {
			case line == "" && text != "":
				l.say(t, "details", "its text has a blank line, which scud loses when it writes the file")
				return
			case line != "" && (line[0] == '@' || line[0] == '#'):
				l.say(t, "details", "its text has the line %s, which scud may lose when it writes the file", prose.Short(line))
				return
			}
		}
	}
}

// declaredWaves compares the waves that a list declares with its dependencies. They are nowhere used.
func (l *linter) declaredWaves() {
	var doc struct {
		Waves []struct {
			Number  int               `json:"number"`
			TaskIDs []json.RawMessage `json:"task_ids"`
		} `json:"waves"`
	}
	if l.letters || l.binary != notBinary || json.Unmarshal([]byte(strings.TrimPrefix(l.src, byteOrder)), &doc) != nil {
		return
	}
	in := map[string]int{}
	for _, w := range doc.Waves {
		for _, raw := range w.TaskIDs {
			id := ownID(l.tag, strings.Trim(string(raw), `"`))
			if _, ok := l.index[id]; !ok {
				l.out = append(l.out, Finding{Kind: "waves", Message: fmt.Sprintf("declared wave %d names task %s, which is not in the list", w.Number, prose.Short(id))})
				continue
			}
			in[id] = w.Number
		}
	}
	for i := range l.tasks {
		t := &l.tasks[i]
		for _, on := range t.DependsOn {
			if a, b := in[t.ID], in[on]; a > 0 && b >= a {
				l.say(t, "waves", "declared wave %d has it, but it depends on %s of declared wave %d; the dependency counts", a, on, b)
			}
		}
	}
}

// stale compares tasks.json with the tasks.scg that it lies beside.
func (l *linter) stale() {
	m := l.beside()
	l.brokenMirror()
	if m == nil || l.inStep(m, nil) {
		return
	}
	detail := fmt.Sprintf("it has %d tasks, %s has %d", len(m.index), graphText, len(l.index))
	for i := range l.tasks {
		t := &l.tasks[i]
		if other, ok := m.Task(t.ID); ok && other.Status != t.Status {
			detail = fmt.Sprintf("task %s is %s there and %s in %s", t.ID, l.word(other), l.word(t), graphText)
			break
		}
	}
	l.out = append(l.out, Finding{Kind: "source", Message: fmt.Sprintf("%s beside it is stale and does not follow: %s", manyTags, detail)})
}

// brokenMirror names a tasks.json beside a tasks.scg that cannot be read, unless Open did.
func (l *linter) brokenMirror() {
	path, ok := l.mirrorPath()
	if !ok || l.mirror != nil {
		return
	}
	_, err := OpenPath(path, l.tag)
	if err == nil || absent(err) || slices.ContainsFunc(l.findings, func(x Finding) bool { return x.Kind == "source" && strings.Contains(x.Message, path) }) {
		return
	}
	l.out = append(l.out, Finding{Kind: "source", Message: fmt.Sprintf("does not follow %s: %v", graphText, err)})
}

// activeTags compares the files that name the tag to work on.
func (l *linter) activeTags(root string) {
	known := Known(root)
	var first, from string
	for _, s := range stateTags(root) {
		where := below(root, s.from)
		switch {
		case !slices.Contains(known, s.tag):
			l.out = append(l.out, Finding{Kind: "tag", Message: fmt.Sprintf("%s names the tag %s, which no task file has", where, prose.Short(s.tag))})
		case first == "":
			first, from = s.tag, where
		case s.tag != first && filepath.Dir(s.from) == filepath.Join(root, ".scud"): // Task Master has its own
			l.out = append(l.out, Finding{Kind: "tag", Message: fmt.Sprintf("%s names the tag %s, %s names %s: the former counts", from, prose.Short(first), where, prose.Short(s.tag))})
		}
	}
}

// dialect names what a tasks.scg has that is not read here, or is read as something else.
func (l *linter) dialect() {
	if !l.letters {
		return
	}
	list, p := cutGraph(l.src)
	at := slices.IndexFunc(list, func(x phase) bool { return x.tag == l.tag })
	if p != nil || at < 0 {
		return
	}
	r := &graphReader{file: l.File, phase: &list[at]}
	tab := false
	_ = r.walk(func(in section, start, end, number int) *problem {
		text := l.src[start:end]
		switch {
		case in == inHeader && strings.HasPrefix(text, "@"):
			name, _, _ := strings.Cut(text, " ")
			if sectionOf(text) == inOther && name != "@assignments" {
				l.odd(number, "", "section", "the section %s is not read here, it is kept as it is; scud may lose it when it writes the file", prose.Short(name))
			}
		case in == inNodes:
			l.priorityLetter(text, number)
		case in == inDetails && strings.HasPrefix(text, "\t"):
			if !tab {
				l.odd(number, "", "details", "the text is indented by a tab, scud wants two spaces")
			}
			tab = true
		case in == inDetails && text != "" && !indented(text):
			l.detailField(text, number)
		}
		return nil
	})
}

// priorityLetter names a letter that is read as medium.
func (l *linter) priorityLetter(text string, number int) {
	var cut [5]span
	if !nodeFields(text, &cut) {
		return
	}
	field := func(k int) string { return strings.TrimSpace(text[cut[k].start:cut[k].end]) }
	if _, ok := statusOf(field(2)); !ok {
		bareBars(text, &cut)
	}
	id, word := ownID(l.tag, field(0)), field(4)
	i, ok := l.index[id]
	if ok && l.tasks[i].Line == number && word != "" && word != "M" && !strings.EqualFold(word, "medium") && priorityOf(word) == "medium" {
		l.odd(number, id, "priority", "task %s: the priority letter %q is unknown, it is read as medium", id, prose.Short(word))
	}
}

func (l *linter) detailField(text string, number int) {
	id, rest, ok := strings.Cut(text, "|")
	field, _, _ := strings.Cut(rest, "|")
	field = strings.TrimSpace(field)
	if ok && !slices.Contains([]string{"description", "details", "test_strategy", "testStrategy"}, field) {
		id = ownID(l.tag, strings.TrimSpace(id))
		l.odd(number, id, "details", "task %s: the field %s is not read here; it is kept as it is", prose.Short(id), prose.Short(field))
	}
}

func (l *linter) odd(line int, id, kind, format string, args ...any) {
	l.out = append(l.out, Finding{Line: line, ID: id, Kind: kind, Message: fmt.Sprintf(format, args...)})
}

// fromOutside names dependencies on a part of another task: scud splits tasks anew, and then such a part may be gone.
func (l *linter) fromOutside(t *Task) {
	if !l.scud() {
		return
	}
	for _, id := range t.DependsOn {
		on, ok := l.Task(id)
		if !ok || on.Parent == "" || on.Parent == t.ID {
			continue
		}
		for up := t.Parent; ; {
			if up == on.Parent {
				break
			}
			if up == "" {
				l.say(t, "dependency", "it depends on %s, which is a part of task %s, from outside of that task", id, on.Parent)
				break
			}
			p, _ := l.Task(up)
			up = p.Parent
		}
	}
}

// leftOvers names a list that lies beside tags: Task Master does not look at it any more.
func (l *linter) leftOvers(d *document) {
	if m, ok := d.find("tasks"); ok && !d.flat() && d.src[m.start] == '[' {
		l.odd(1+strings.Count(d.src[:m.start], "\n"), "", "source", `an old list "tasks" lies beside the tags, it is not read`)
	}
}

// summary compares the counts that a file declares with its tasks.
func (l *linter) summary(d *document) {
	if !d.flat() {
		tag, ok := d.find(l.tag)
		if !ok || d.src[tag.start] != '{' {
			return
		}
		inner := &document{src: d.src[:tag.end]}
		inner.split(&scanner{src: inner.src, pos: tag.start})
		d = inner
	}
	top, done, topDone := 0, 0, 0
	complexity, whole := 0.0, true
	for i := range l.tasks {
		t := &l.tasks[i]
		if t.Status == Done {
			done++
		}
		if t.Parent == "" {
			top++
			if t.Status == Done {
				topDone++
			}
		}
		n, err := strconv.ParseFloat(t.Complexity, 64)
		whole = whole && (err == nil || t.Complexity == "")
		complexity += n
	}
	for _, name := range []string{"summary", "metadata"} {
		m, ok := d.find(name)
		var said map[string]any
		if !ok || json.Unmarshal([]byte(d.src[m.start:m.end]), &said) != nil {
			continue
		}
		line := 1 + strings.Count(d.src[:m.start], "\n")
		for _, c := range []struct {
			key  string
			want []float64
		}{
			{"total_tasks", []float64{float64(len(l.tasks)), float64(top)}}, {"totalTasks", []float64{float64(top), float64(len(l.tasks))}},
			{"taskCount", []float64{float64(top), float64(len(l.tasks))}}, {"completedCount", []float64{float64(topDone), float64(done)}},
			{"total_complexity", []float64{complexity}},
		} {
			n, ok := said[c.key].(float64)
			if ok && (c.key != "total_complexity" || whole && !math.IsNaN(complexity)) && !slices.Contains(c.want, n) {
				l.odd(line, "", "summary", "%s says %s %v, it is %v", name, c.key, n, c.want[0])
			}
		}
	}
}

// otherTags compares dependencies on tasks of other tags with these.
func (l *linter) otherTags(root string) {
	x := &crossing{linter: l, root: root, files: map[string]*File{l.tag: l.File}}
	for i := range l.tasks {
		t := &l.tasks[i]
		if l.index[t.ID] != i {
			continue
		}
		own, _ := l.outcome(l.File, t.ID)
		for _, id := range t.DependsOn {
			f, rest := x.find(l.File, id)
			if f == nil || f == l.File {
				continue
			}
			switch s, ok := l.outcome(f, rest); {
			case !ok:
			case own != Done && (s == Cancelled || s == Deferred):
				l.say(t, "status", "it depends on %s, which is %s: it is not run until that changes", id, s)
			case own == Done && s != Done:
				l.say(t, "status", "it is done, but depends on %s, which is %s", id, s)
			}
			if x.reaches(f, rest, t.ID) {
				l.say(t, "cycle", "it depends on %s, which waits for this task in turn", id)
			}
		}
	}
}

// crossing follows dependencies from one tag to another.
type crossing struct {
	*linter
	root  string
	files map[string]*File
	work  int
}

// find is the list that an id of a list is in, nil if there is none, and the id in there.
func (x *crossing) find(from *File, id string) (*File, string) {
	if _, ok := from.Task(id); ok {
		return from, ownID(from.tag, id)
	}
	tag, rest, ok := strings.Cut(id, ":")
	if !ok {
		return nil, ""
	}
	f, seen := x.files[tag]
	if !seen {
		f = x.open(tag)
		x.files[tag] = f
	}
	return f, rest
}

// open reads another tag, from the same file if that has it.
func (x *crossing) open(tag string) *File {
	if t, err := load(x.path); err == nil && slices.Contains(t.tags(), tag) {
		if f, err := t.open(tag); err == nil {
			return f
		}
	}
	f, err := Open(x.root, tag)
	if err != nil {
		return nil
	}
	return f
}

// reaches reports whether a task of another list waits for a task of this one, directly or not. What a task waits for are its own
// dependencies, those of its containers, and the tasks in it.
func (x *crossing) reaches(f *File, id, target string) bool {
	const most = 200_000
	type place struct {
		file *File
		id   string
	}
	seen := map[place]bool{}
	var stack []place
	push := func(p place) {
		if p.file != nil && !seen[p] {
			seen[p] = true
			stack = append(stack, p)
		}
	}
	for push(place{f, id}); len(stack) > 0; x.work++ {
		p := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if p.file == x.File && p.id == target || x.work > most {
			return x.work <= most
		}
		t, ok := p.file.Task(p.id)
		if !ok {
			continue
		}
		for _, child := range t.Children {
			push(place{p.file, child})
		}
		for ok {
			for _, on := range t.DependsOn {
				other, rest := x.find(p.file, on)
				push(place{other, rest})
			}
			t, ok = p.file.Task(t.Parent)
		}
	}
	return false
}
