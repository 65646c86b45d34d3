package acp

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// call is what is known of a tool call. A request for permission may name no more of it than its id.
type call struct {
	Title, Kind, Status string
	Command             string
	Paths               []string
}

// known reports whether there is more of the call than its name: some agents announce it first, and then say what it
// is called with.
func (c *call) known() bool { return c.Command != "" || len(c.Paths) > 0 }

// pathLimit is how many paths of one call are checked; a call with more is refused.
const pathLimit = 1000

// merge adds what is newly known.
func (c *call) merge(u toolFields) {
	c.Title, c.Kind, c.Status = cmp.Or(u.Title, c.Title), cmp.Or(u.Kind, c.Kind), cmp.Or(u.Status, c.Status)
	c.Command = cmp.Or(u.command(), c.Command)
	for _, p := range u.paths() {
		if p != "" && len(c.Paths) <= pathLimit && !slices.Contains(c.Paths, p) {
			c.Paths = append(c.Paths, p)
		}
	}
}

// toolFields are the members of a tool call that are read.
type toolFields struct {
	ToolCallID string          `json:"toolCallId"`
	Title      string          `json:"title"`
	Kind       string          `json:"kind"`
	Status     string          `json:"status"`
	Content    json.RawMessage `json:"content"`
	Locations  json.RawMessage `json:"locations"`
	RawInput   json.RawMessage `json:"rawInput"`
}

// paths lists the files that the call says it touches: its locations, its diffs, and its raw input under the names
// that tools use.
func (u toolFields) paths() (list []string) {
	input := gjson.ParseBytes(u.RawInput)
	found := append(gjson.ParseBytes(u.Locations).Get("#.path").Array(),
		gjson.ParseBytes(u.Content).Get("#.path").Array()...)
	for _, name := range []string{"path", "file_path", "filePath", "filepath", "file", "abs_path", "absolute_path",
		"notebook_path", "target_file", "directory", "dir_path",
		"old_path", "new_path", "source", "destination", "paths", "files"} {
		found = append(found, input.Get(name).Array()...)
	}
	input.Get("changes").ForEach(func(name, _ gjson.Result) bool {
		found = append(found, name)
		return true
	})
	for _, f := range found {
		if f.Type == gjson.String {
			list = append(list, f.Str)
		}
	}
	return list
}

// command is what the raw input says is run: a line, or a program's arguments, of which a shell's last one is the
// line.
func (u toolFields) command() string {
	var argv []string
	for _, a := range gjson.ParseBytes(u.RawInput).Get("command").Array() {
		if a.Type != gjson.String {
			return ""
		}
		argv = append(argv, a.Str)
	}
	if len(argv) == 3 && strings.HasPrefix(argv[1], "-") && strings.HasSuffix(argv[1], "c") {
		return argv[2]
	}
	return strings.Join(argv, " ")
}

// refusal says why a call is not allowed; "" where it is. Commands are allowed: only a sandbox could tell what they
// touch.
func (t tree) refusal(c call) string {
	find := t.findWritable
	switch c.Kind {
	case "execute":
		return ""
	case "read", "search", "think", "fetch":
		find = t.find
	case "edit", "delete", "move":
		if len(c.Paths) == 0 {
			return "it does not say which file"
		}
	}
	if len(c.Paths) > pathLimit {
		return "it names too many files"
	}
	for _, path := range c.Paths {
		if strings.Contains(path, "://") && !strings.HasPrefix(path, "file://") {
			continue // an address
		}
		if _, err := find(strings.TrimPrefix(path, "file://")); err != nil {
			var outside *outsideError
			if errors.As(err, &outside) {
				return outside.Error()
			}
			return err.Error()
		}
	}
	return ""
}

// option is one of the answers that an agent takes.
type option struct {
	ID   string `json:"optionId"`
	Kind string `json:"kind"`
}

// choose picks the first option of the first kind that is offered.
func choose(options []option, kinds ...string) (option, bool) {
	for _, kind := range kinds {
		for _, o := range options {
			if o.Kind == kind {
				return o, true
			}
		}
	}
	return option{}, false
}

// answer answers a request for permission. Allowing once is enough: the agent's next request is judged by itself.
func (t tree) answer(c call, options []option) (chosen option, ok bool, why string) {
	if why = t.refusal(c); why == "" {
		if chosen, ok = choose(options, "allow_once", "allow_always"); ok {
			return chosen, true, ""
		}
		why = "it offers no option that allows it"
	}
	chosen, ok = choose(options, "reject_once", "reject_always")
	return chosen, ok, why
}
