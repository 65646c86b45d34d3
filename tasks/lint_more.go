package tasks

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"descartes/tasks/prose"
)

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
