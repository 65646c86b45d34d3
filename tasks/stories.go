package tasks

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"descartes/tasks/prose"
)

// stories returns the list of user stories in a prd.json.
func (d *document) stories() (gjson.Result, bool) {
	if d.flat() || len(d.lists()) > 0 {
		return gjson.Result{}, false
	}
	for _, name := range []string{"userStories", "user_stories", "stories"} {
		if v, ok := d.find(name); ok && v.IsArray() {
			return v, true
		}
	}
	return gjson.Result{}, false
}

// storiesTag is the tag of a prd.json: the last part of its branchName, else "prd".
func (d *document) storiesTag() string {
	for _, name := range []string{"branchName", "branch_name", "branch"} {
		v, _ := d.find(name)
		if tag := v.Str[strings.LastIndexByte(v.Str, '/')+1:]; ValidTag(tag) == nil {
			return tag
		}
	}
	return strings.TrimSuffix(storiesName, ".json")
}

// storyReader decodes user stories: {"id", "title", "description", "acceptanceCriteria", "priority", "passes"}.
type storyReader struct {
	reader
	ranks  []float64 // the priority of each story as a number
	ranked bool      // all have one
}

// decodeStories reads user stories. They are done by priority, equal ones side by side; without numbers in the order of the list. If stories name
// dependencies, only those count.
func decodeStories(f *File, list gjson.Result) *problem {
	f.binary = flags
	r := &storyReader{reader: reader{file: f, line: 1}, ranked: true}
	f.grow(min(strings.Count(list.Raw, "{"), maxTasks))
	if p := each(list, func(_, v gjson.Result) *problem { return r.story(v) }); p != nil {
		return p
	}
	if p := r.complete(); p != nil {
		return p
	}
	if !slices.ContainsFunc(f.tasks, func(t Task) bool { return len(t.DependsOn) > 0 }) && !r.order() {
		return &problem{list.Index, "too many stories of equal priority: their dependencies cannot be listed"}
	}
	return nil
}

func (r *storyReader) story(v gjson.Result) *problem {
	if !v.IsObject() {
		return &problem{v.Index, "a user story must be an object"}
	}
	e, p := r.begin(v)
	if p != nil {
		return p
	}
	rank, ranked, odd := 0.0, false, ""
	p = each(v, func(key, value gjson.Result) *problem {
		switch key.Str {
		case "acceptanceCriteria", "acceptance_criteria":
			e.task.Acceptance = bullets(value)
		case "notes":
			e.task.Details = plain(value)
		case "priority":
			if n, err := strconv.ParseFloat(plain(value), 64); err == nil && n == n {
				rank, ranked = n, true
			} else {
				e.task.Priority = cmp.Or(prose.Priority(plain(value)), e.task.Priority)
			}
		case "passes":
			e.task.Status, odd = Pending, ""
			switch word := e.mark(value); word {
			case "true":
				e.task.Status = Done
			case "false", "":
			default:
				odd = prose.Short(word)
			}
			e.task.RawStatus = string(e.task.Status)
		case "dependsOn", "depends_on", "dependencies":
			r.dependencies(e, value)
		case "id", "title", "description", "details":
			return r.member(e, key, value)
		}
		return nil
	})
	switch {
	case p != nil:
		return p
	case !e.id.Exists():
		return &problem{v.Index, "a user story without id"}
	case odd != "":
		r.note(e, "unknown-status", fmt.Sprintf("passes should be true or false, found %s: read as false", odd))
	}
	r.ranks, r.ranked = append(r.ranks, rank), r.ranked && ranked
	r.finish(e, "passes")
	return nil
}

// bullets reads an array of texts as a list, anything else as text. Some lists hold objects with a text each.
func bullets(v gjson.Result) string {
	if !v.IsArray() {
		return plain(v)
	}
	var lines []string
	for _, x := range v.Array() {
		text := plain(x)
		if x.IsObject() {
			text = cmp.Or(x.Get("text").Str, x.Get("description").Str, x.Get("criterion").Str, x.Get("title").Str, text)
		}
		if text = strings.TrimSpace(text); text != "" {
			lines = append(lines, "- "+strings.ReplaceAll(text, "\n", "\n  "))
		}
	}
	return strings.Join(lines, "\n")
}

// order makes each story wait for those before it. ok is false if that would be too many dependencies.
func (r *storyReader) order() bool {
	list := r.file.tasks
	places := make([]int, 0, len(list))
	for i := range list {
		if r.file.index[list[i].ID] == i {
			places = append(places, i)
		}
	}
	if r.ranked {
		slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(r.ranks[a], r.ranks[b]) })
	}
	return r.file.queue(places, func(before, after int) bool { return r.ranked && r.ranks[before] == r.ranks[after] })
}
