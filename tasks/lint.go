package tasks

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"descartes/tasks/prose"
)

// Lint reports what a reader accepts silently but a person should look at: what SCUD would refuse or lose, statuses that contradict each other, a
// stale mirror, a tag that is active in one place and not in another. The project is at root.
func (f *File) Lint(root string) []Finding {
	l := &linter{File: f, root: root, others: map[string]*File{}, results: map[*File]*outcomes{f: f.outcomes()}, out: slices.Clone(f.remarks)}
	for i := range f.tasks {
		if t := &f.tasks[i]; f.index[t.ID] == i {
			l.statuses(t)
			l.numbering(t)
			l.limits(t)
			l.losses(t)
		}
	}
	l.declaredWaves()
	if !l.letters && l.binary == notBinary {
		if d, p := parse(l.src); p == nil {
			l.leftOvers(d)
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
	root    string
	results map[*File]*outcomes
	others  map[string]*File // by tag, nil for one that cannot be read
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
		f, rest := l.list(id)
		if f == nil {
			continue
		}
		switch s, ok := l.outcome(f, rest); {
		case ok && own == Done && s != Done:
			on, _ := f.Task(rest)
			l.say(t, "status", "it is done, but depends on %s, which is %s", id, l.word(on))
		case own != Done && (s == Cancelled || s == Deferred):
			l.say(t, "status", "it depends on %s, which is %s: it does not run until that changes", id, s)
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
		l.say(t, "status", "all its subtasks are done, but it is %s", l.word(t))
	}
}

func (l *linter) word(t *Task) string { return cmp.Or(t.RawStatus, string(t.Status)) }

// numbering reports gaps in the numbers of subtasks: one may have been lost there.
func (l *linter) numbering(t *Task) {
	next := 1
	for _, id := range slices.SortedFunc(slices.Values(t.Children), CompareIDs) {
		n, err := strconv.Atoi(strings.TrimPrefix(id, t.ID+"."))
		if err != nil || n < next {
			return
		}
		if n > next {
			l.say(t, "numbering", "its subtasks skip %s.%d", t.ID, next)
		}
		next = n + 1
	}
}

// limits are those of the programs that share the file.
func (l *linter) limits(t *Task) {
	if strings.TrimSpace(t.Title) == "" {
		l.say(t, "title", "it has no title")
	}
	if !slices.Contains([]string{"critical", "high", "medium", "low"}, t.Priority) {
		l.say(t, "priority", "priority %s is not one of critical, high, medium, low", prose.Short(t.Priority))
	}
	if !l.scud() {
		return
	}
	if n := utf8.RuneCountInString(t.Title); n > 200 {
		l.say(t, "title", "its title has %d characters: scud allows at most 200", n)
	}
	if n := utf8.RuneCountInString(t.Description); n > 5000 {
		l.say(t, "description", "its description has %d characters: scud allows at most 5000", n)
	}
	if fibonacci := []string{"", "0", "1", "2", "3", "5", "8", "13", "21", "34", "55", "89"}; !slices.Contains(fibonacci, t.Complexity) {
		l.say(t, "complexity", "complexity %s is not one of 0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89", prose.Short(t.Complexity))
	}
}

// losses names text that scud drops when it rewrites a tasks.scg.
func (l *linter) losses(t *Task) {
	if !l.letters {
		return
	}
	for _, text := range []string{t.Description, t.Details, t.TestStrategy, t.Acceptance} {
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

// declaredWaves compares the waves that a list declares with its dependencies. Nothing else uses them.
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

// stale compares tasks.json with the tasks.scg beside it.
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

// brokenMirror reports an unreadable tasks.json beside a tasks.scg, unless Open did.
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

func (l *linter) odd(line int, id, kind, format string, args ...any) {
	l.out = append(l.out, Finding{Line: line, ID: id, Kind: kind, Message: fmt.Sprintf(format, args...)})
}

// leftOvers names a list beside tags: Task Master no longer looks at it.
func (l *linter) leftOvers(d *document) {
	if v, ok := d.find("tasks"); ok && !d.flat() && v.IsArray() {
		l.odd(1+strings.Count(d.src[:v.Index], "\n"), "", "source", `an old list "tasks" is beside the tags: it is not read`)
	}
}

// list is the file that an id is in, of this tag or another one, nil if there is none, and the id in there.
func (l *linter) list(id string) (*File, string) {
	tag, rest, ok := strings.Cut(id, ":")
	if _, here := l.index[id]; here || !ok {
		return l.File, id
	}
	f, seen := l.others[tag]
	if !seen {
		var err error
		if f, err = OpenPath(l.path, tag); err != nil {
			f, _ = Open(l.root, tag)
		}
		l.others[tag] = f
	}
	return f, rest
}
