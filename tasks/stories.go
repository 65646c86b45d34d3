package tasks

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"descartes/tasks/prose"
)

// stories returns the list of user stories in a prd.json.
func (d *document) stories() (member, bool) {
	if d.flat() || len(d.tags()) > 0 {
		return member{}, false
	}
	for _, name := range []string{"userStories", "user_stories", "stories"} {
		if m, ok := d.find(name); ok && d.src[m.start] == '[' {
			return m, true
		}
	}
	return member{}, false
}

// storiesTag is the tag of a prd.json: the last part of its branchName, else "prd".
func (d *document) storiesTag() string {
	for _, name := range []string{"branchName", "branch_name", "branch"} {
		if m, ok := d.find(name); ok && d.src[m.start] == '"' {
			branch := unquote(d.src[m.start:m.end])
			if tag := branch[strings.LastIndexByte(branch, '/')+1:]; ValidTag(tag) == nil {
				return tag
			}
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

// decodeStories reads user stories. They are worked on by priority, equal ones beside each other; without numbers the order of the
// list is that of the work. Where stories name dependencies, these are all there are.
func decodeStories(d *document, f *File, list member) *problem {
	f.binary = flags
	r := &storyReader{reader: reader{scanner: scanner{src: d.src, pos: list.start}, file: f, line: 1}, ranked: true}
	f.grow(min(strings.Count(d.src[list.start:list.end], "{"), maxTasks))
	for more := r.open(']'); more; more = r.next(']') {
		if r.peek() != '{' {
			return &problem{r.pos, "a user story must be an object"}
		}
		if len(f.tasks) == maxTasks {
			return &problem{r.pos, fmt.Sprintf("more than %d stories", maxTasks)}
		}
		if p := r.story(); p != nil {
			return p
		}
	}
	if p := r.settle(); p != nil {
		return p
	}
	if !slices.ContainsFunc(f.tasks, func(t Task) bool { return len(t.DependsOn) > 0 }) && !r.order() {
		return &problem{list.start, "so many stories of equal priority that their dependencies cannot be listed"}
	}
	return nil
}

func (r *storyReader) story() *problem {
	f, start := r.file, r.pos
	e := &entry{task: Task{Status: Pending, Priority: "medium", Line: r.lineAt(start)}, index: len(f.tasks), site: site{at: int32(start)}}
	r.ranks = append(r.ranks, 0)
	ranked, odd := false, ""
	for more := r.open('}'); more; more = r.next('}') {
		key := r.pos
		switch name := r.key(); name {
		case "acceptanceCriteria", "acceptance_criteria":
			e.task.TestStrategy = r.bullets()
		case "notes":
			e.task.Details = r.text()
		case "priority":
			text := r.text()
			if rank, err := strconv.ParseFloat(text, 64); err == nil && rank == rank {
				r.ranks[e.index], ranked = rank, true
			} else if word := prose.Priority(text); word != "" {
				e.task.Priority = word
			}
		case "passes":
			odd = r.passes(e)
		case "dependsOn", "depends_on", "dependencies":
			r.dependencies(e)
		case "id", "title", "description", "details":
			if p := r.member(e, name, key); p != nil {
				return p
			}
		default:
			r.value()
		}
	}
	if !e.id {
		return &problem{start, "a user story without id"}
	}
	r.ranked = r.ranked && ranked
	if odd != "" {
		r.note(e, "unknown-status", fmt.Sprintf("passes should be true or false, found %s: read as false", odd))
	}
	if e.status > 1 {
		r.note(e, "member", "passes is given more than once, the last one counts")
	}
	if e.status == 0 {
		e.site.start, e.site.end = int32(e.idEnd), int32(e.idEnd)
		if f.inserts == nil {
			f.inserts = map[int]string{}
		}
		f.inserts[e.index] = "," + e.gap + `"passes"` + e.colon
	}
	e.task.DependsOn = slices.Clone(e.dependsOn)
	f.tasks, f.sites = append(f.tasks, e.task), append(f.sites, e.site)
	return nil
}

// passes reads the flag. It returns what stands there instead of one.
func (r *storyReader) passes(e *entry) (odd string) {
	start := r.pos
	text := r.text()
	e.status++
	e.site.start, e.site.end = int32(start), int32(r.pos)
	e.task.Status = Pending
	switch text {
	case "true":
		e.task.Status = Done
	case "false", "":
	default:
		odd = prose.Short(text)
	}
	e.task.RawStatus = string(e.task.Status)
	return odd
}

// bullets reads an array of texts as a list, anything else as text.
func (r *storyReader) bullets() string {
	if r.peek() != '[' {
		return r.text()
	}
	var lines []string
	for more := r.open(']'); more; more = r.next(']') {
		if text := r.text(); text != "" {
			lines = append(lines, "- "+text)
		}
	}
	return strings.Join(lines, "\n")
}

// order makes each story wait for those before it. It reports false if that would be too much.
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
	var before, group []string
	links := 0
	for k, i := range places {
		if k > 0 && (!r.ranked || r.ranks[i] != r.ranks[places[k-1]]) {
			before, group = group, nil
		}
		group = append(group, list[i].ID)
		list[i].DependsOn = before // shared: nobody changes it
		if links += len(before); links > maxLinks {
			return false
		}
	}
	return true
}
