package tasks

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"descartes/tasks/prose"
)

// prd is a prd.json: user stories {"id", "title", "description", "acceptanceCriteria", "priority", "passes"}. They are
// done by priority, equal ones side by side; without numbers in the order of the list. If stories name dependencies,
// only those count. An array of {"category", "description", "steps", "passes"} is one too: their ids are their places.
type prd struct{}

func (prd) Match(t *text) bool {
	return t.stories().Exists()
}

// stories is the list of user stories.
func (t *text) stories() gjson.Result {
	for _, name := range []string{"userStories", "user_stories", "stories"} {
		if v := t.get(name); v.IsArray() {
			return v
		}
	}
	if first := t.root.Get("0"); t.array && first.Get("passes").IsBool() && first.Get("description").Exists() {
		return t.root
	}
	return gjson.Result{}
}

// Tags is the last part of the branchName, else "prd".
func (prd) Tags(t *text) []string {
	for _, name := range []string{"branchName", "branch_name", "branch"} {
		branch := t.get(name).Str
		if tag := branch[strings.LastIndexByte(branch, '/')+1:]; ValidTag(tag) == nil {
			return []string{tag}
		}
	}
	return []string{"prd"}
}

func (prd) SetStatus(t *Task, s Status) (Status, string) { return binary(t, s, "true", "false") }

func (prd) Read(t *text, f *File) *problem {
	r := &storyReader{reader: reader{File: f, line: 1}, ranked: true, array: t.array}
	list := t.stories()
	if p := each(list, func(_, v gjson.Result) *problem { return r.story(v) }); p != nil {
		return p
	}
	if p := r.complete(); p != nil {
		return p
	}
	if !r.deps && !r.order() {
		return &problem{list.Index, "too many stories of equal priority: their dependencies cannot be listed"}
	}
	return nil
}

// storyReader decodes user stories.
type storyReader struct {
	reader
	array  bool      // an array of features, which have no ids
	ranks  []float64 // the priority of each story as a number
	ranked bool      // all have one
}

func (r *storyReader) story(v gjson.Result) *problem {
	if !v.IsObject() {
		return &problem{v.Index, "a user story must be an object"}
	}
	e, p := r.begin(v)
	if p != nil {
		return p
	}
	rank, ranked := 0.0, false
	p = each(v, func(key, value gjson.Result) *problem {
		switch key.Str {
		case "notes":
			e.task.Details = plain(value)
		case "steps":
			e.task.TestStrategy = bullets(value)
		case "priority":
			if n, err := strconv.ParseFloat(plain(value), 64); err == nil && n == n {
				rank, ranked = n, true
			} else {
				e.task.Priority = cmp.Or(prose.Priority(plain(value)), e.task.Priority)
			}
		case "passes":
			if e.task.Status = Pending; e.mark(value) == "true" {
				e.task.Status = Done
			}
			e.task.RawStatus = string(e.task.Status)
		case "dependsOn", "depends_on", "dependencies", "id", "title", "description", "details", "acceptanceCriteria",
			"acceptance_criteria":
			return r.member(e, key, value)
		}
		return nil
	})
	switch {
	case p != nil:
		return p
	case !e.id.Exists() && r.array && e.status > 0:
		e.task.ID = strconv.Itoa(e.index + 1)
	case !e.id.Exists():
		return &problem{v.Index, "a user story without id"}
	}
	if first, rest, _ := strings.Cut(e.task.Description, "\n"); e.task.Title == "" {
		e.task.Title, e.task.Description = prose.Clip(first), rest
	}
	r.deps = r.deps || len(e.task.DependsOn) > 0
	r.ranks, r.ranked = append(r.ranks, rank), r.ranked && ranked
	r.finish(e, "passes")
	return nil
}

// order makes each story wait for those before it. ok is false if that would be too many dependencies.
func (r *storyReader) order() bool {
	var places []int
	for i := range r.tasks {
		if r.index[r.tasks[i].ID] == i {
			places = append(places, i)
		}
	}
	if r.ranked {
		slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(r.ranks[a], r.ranks[b]) })
	}
	return r.queue(places, func(before, after int) bool { return r.ranked && r.ranks[before] == r.ranks[after] })
}
