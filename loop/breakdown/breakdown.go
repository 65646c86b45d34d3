// Package breakdown has an agent break a document, or one task, down into tasks, and checks its answer. Nothing but
// the answer's JSON is read, and nothing of that which is not named here.
package breakdown

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"descartes/internal/oneline"
	"descartes/loop/attempt"
	"descartes/scheduler"
	"descartes/specbuild"
	"descartes/tasks"
	"descartes/tasks/prose"
)

// RefusedError says why no answer of an agent was taken.
type RefusedError struct {
	Answers int // that were looked at
	Faults  []string
}

func (e *RefusedError) Error() string {
	if e.Answers > 1 {
		return fmt.Sprintf("none of %d answers is a task list that can be used; of the last:", e.Answers)
	}
	return "the answer is no task list that can be used:"
}

// Ask asks until an answer can be taken, so many times at most: each refused one goes back with its faults. It returns
// the tasks, and the answer as it was given. Where none can be taken the error is a *RefusedError.
func Ask(ctx context.Context, b specbuild.Breakdown, times int,
	ask func(ctx context.Context, number int, prompt string) (words string, err error)) ([]tasks.Task, []byte, error) {
	for number := 1; ; number++ {
		words, err := ask(ctx, number, specbuild.BreakdownPrompt(b))
		if err != nil {
			return nil, nil, err
		}
		list, raw, faults := Read(words, &b)
		if len(faults) == 0 {
			return list, raw, nil
		}
		if number >= times {
			return nil, nil, &RefusedError{number, faults}
		}
		b.Answer, b.Faults = string(raw), faults
	}
}

// answered is a task as an agent writes it. It has no say about anything else, such as what it may do to the checks.
type answered struct {
	ID           json.RawMessage   `json:"id"`
	Title        string            `json:"title"`
	Description  string            `json:"description"`
	Details      string            `json:"details"`
	TestStrategy string            `json:"test_strategy"`
	Acceptance   []string          `json:"acceptance"`
	Priority     string            `json:"priority"`
	Complexity   *int              `json:"complexity"`
	DependsOn    []json.RawMessage `json:"depends_on"`
	Dependencies []json.RawMessage `json:"dependencies"` // Task Master's word for them
	Scope        []string          `json:"scope"`
}

// Bounds of an answer.
const (
	maxAnswer     = 4 << 20 // bytes
	maxAcceptance = 30
	maxEntry      = 500 // characters of one of these
	maxScope      = 50
	maxPath       = 200
)

// Read takes the tasks out of an agent's last words, and says what is wrong with them. raw is the JSON that was looked
// at.
func Read(words string, b *specbuild.Breakdown) (list []tasks.Task, raw []byte, faults []string) {
	var object json.RawMessage
	if err := attempt.Decode(words, "tasks", &object); err != nil {
		return nil, nil, []string{err.Error()}
	}
	raw = object
	if len(raw) > maxAnswer {
		return nil, nil, []string{fmt.Sprintf("the JSON has %d bytes, at most %d are read", len(raw), maxAnswer)}
	}
	var answer struct{ Tasks []json.RawMessage }
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, raw, []string{`"tasks" is no array: ` + err.Error()}
	}
	least := 1
	if b.Split != nil {
		least = 2
	}
	if n := len(answer.Tasks); n < least || n > b.Most {
		return nil, raw, []string{fmt.Sprintf("it has %d %s, %d to %d are wanted", n,
			map[bool]string{true: "task", false: "tasks"}[n == 1], least, b.Most)}
	}
	r := &reader{b: b, titles: map[string]string{}, known: map[string]bool{}}
	for i := range b.Standing {
		r.known[b.Standing[i].ID] = true
		if b.Split == nil || b.Standing[i].ID != b.Split.ID {
			r.titles[prose.Fold(b.Standing[i].Title)] = b.Standing[i].ID
		}
	}
	for i, one := range answer.Tasks {
		list = append(list, r.task(i, one))
	}
	r.dependencies(list)
	if len(r.faults) == 0 {
		r.circles(list)
	}
	return list, raw, r.faults
}

// reader checks the tasks of one answer.
type reader struct {
	b      *specbuild.Breakdown
	titles map[string]string // folded, with the ids that have them
	known  map[string]bool   // ids that stand in the list
	faults []string
}

func (r *reader) fault(id, format string, args ...any) {
	r.faults = append(r.faults, "task "+id+": "+oneline.Clip(oneline.Text(fmt.Sprintf(format, args...)), 300))
}

// id is that of the task at place i: as the agent has to number it, and as the list has it.
func (r *reader) id(i int) (said, own string) {
	if r.b.Split != nil {
		said = strconv.Itoa(i + 1)
		return said, r.b.Split.ID + "." + said
	}
	said = strconv.Itoa(r.b.First + i)
	return said, said
}

func (r *reader) task(i int, raw json.RawMessage) tasks.Task {
	said, own := r.id(i)
	var a answered
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		r.fault(said, "%s", strings.TrimPrefix(err.Error(), "json: "))
		return tasks.Task{ID: own}
	}
	if got := idOf(a.ID); got != said {
		r.fault(said, "its id has to be %s, and is %.40s", said, a.ID)
	}
	t := tasks.Task{ID: own, Title: strings.TrimSpace(a.Title),
		Description: r.text(said, "description", a.Description), Details: r.text(said, "details", a.Details),
		TestStrategy: r.text(said, "test_strategy", a.TestStrategy), Status: tasks.Pending}
	switch n := utf8.RuneCountInString(t.Title); {
	case n == 0:
		r.fault(said, "it has no title")
	case n > specbuild.MaxTitle || !plain(t.Title):
		r.fault(said, "its title has to be one line of at most %d characters", specbuild.MaxTitle)
	default:
		fold := prose.Fold(t.Title)
		if other, taken := r.titles[fold]; taken {
			r.fault(said, "task %s has the same title, %q", other, t.Title)
		}
		r.titles[fold] = said
	}
	if t.Description == "" {
		r.fault(said, "it has no description")
	}
	t.Acceptance = r.acceptance(said, a.Acceptance)
	switch t.Priority = strings.ToLower(a.Priority); t.Priority {
	case "":
		t.Priority = "medium"
	case "critical", "high", "medium", "low":
	default:
		r.fault(said, "priority %q is not one of critical, high, medium and low", a.Priority)
	}
	if c := a.Complexity; c != nil {
		if t.Complexity = strconv.Itoa(*c); !slices.Contains([]int{1, 2, 3, 5, 8}, *c) {
			r.fault(said, "complexity %d is not one of 1, 2, 3, 5 and 8", *c)
		}
	}
	for _, on := range append(a.DependsOn, a.Dependencies...) {
		t.DependsOn = append(t.DependsOn, r.own(idOf(on)))
	}
	t.Scope = r.scope(said, a.Scope)
	return t
}

// idOf is an id as text, be it a number or a string.
func idOf(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return strings.TrimSpace(s)
	}
	return strings.TrimSpace(string(raw))
}

// own is an id of the answer as the list will have it.
func (r *reader) own(id string) string {
	if r.b.Split == nil {
		return id
	}
	if prose.IsNumber(id) {
		return r.b.Split.ID + "." + id
	}
	return id
}

// plain reports whether a text is one line that a terminal shows as it is.
func plain(s string) bool {
	return strings.IndexFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }) < 0
}

func (r *reader) text(id, name, s string) string {
	s = strings.TrimSpace(strings.ReplaceAll(s, "\r\n", "\n"))
	if n := utf8.RuneCountInString(s); n > specbuild.MaxText {
		r.fault(id, "its %s has %d characters, at most %d are taken", name, n, specbuild.MaxText)
	}
	if strings.IndexFunc(s, func(c rune) bool { return unicode.IsControl(c) && c != '\n' && c != '\t' }) >= 0 {
		r.fault(id, "its %s has control characters", name)
	}
	return s
}

func (r *reader) acceptance(id string, list []string) string {
	if len(list) > maxAcceptance {
		r.fault(id, "acceptance has %d entries, at most %d are taken", len(list), maxAcceptance)
	}
	var lines []string
	for _, entry := range list {
		if entry = strings.Join(strings.Fields(entry), " "); utf8.RuneCountInString(entry) > maxEntry ||
			!plain(entry) {
			r.fault(id, "an entry of acceptance has to be one line of at most %d characters", maxEntry)
		} else if entry != "" {
			lines = append(lines, "- "+entry)
		}
	}
	return strings.Join(lines, "\n")
}

// scope takes paths below the project only.
func (r *reader) scope(id string, list []string) (out []string) {
	if len(list) > maxScope {
		r.fault(id, "scope has %d entries, at most %d are taken", len(list), maxScope)
	}
	for _, p := range list {
		p = strings.TrimSpace(p)
		clean := path.Clean(p)
		switch {
		case p == "":
		case len(p) > maxPath, !plain(p), strings.ContainsAny(p, ",|\\"), path.IsAbs(p), clean == "..",
			strings.HasPrefix(clean, "../"):
			r.fault(id, "%q in scope is no path below the project", oneline.Clip(p, 80))
		default:
			out = append(out, p)
		}
	}
	return out
}

// dependencies names those on missing tasks.
func (r *reader) dependencies(list []tasks.Task) {
	ids := map[string]bool{}
	for i := range list {
		ids[list[i].ID] = true
	}
	for i := range list {
		said, own := r.id(i)
		for _, on := range list[i].DependsOn {
			switch {
			case on == own:
				r.fault(said, "it depends on itself")
			case !ids[on] && r.b.Split != nil:
				r.fault(said, "it depends on task %.60q, which is not one of the parts",
					strings.TrimPrefix(on, r.b.Split.ID+"."))
			case !ids[on] && !r.known[on]:
				r.fault(said, "it depends on task %.60q, which does not exist", on)
			}
		}
	}
}

// circles names those among the tasks with what stands already.
func (r *reader) circles(list []tasks.Task) {
	all := slices.Clone(list)
	if r.b.Split == nil {
		all = append(slices.Clone(r.b.Standing), list...)
	}
	for _, p := range scheduler.New(all, scheduler.Options{}).Problems() {
		ours := slices.ContainsFunc(p.Tasks, func(id string) bool {
			return slices.ContainsFunc(list, func(t tasks.Task) bool { return t.ID == id })
		})
		if ours {
			r.faults = append(r.faults, p.Message)
		}
	}
}
