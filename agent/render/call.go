package render

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// line is what the clients' lines have in common with calls of tools, their results and thoughts. The types of their
// lines differ, so that each is read without being told whose it is.
type line struct {
	Type   string `json:"type"`
	Cwd    string `json:"cwd"`                // claude
	Parent string `json:"parent_tool_use_id"` // claude: of a subagent's lines

	Message  json.RawMessage `json:"message"` // claude's is an object, others' a text
	Severity string          `json:"severity"`

	ToolName   string          `json:"tool_name"` // gemini
	ToolID     string          `json:"tool_id"`
	Parameters json.RawMessage `json:"parameters"`
	Output     json.RawMessage `json:"output"`

	ID      string   `json:"id"` // acp
	Kind    string   `json:"kind"`
	Title   string   `json:"title"`
	Command string   `json:"command"`
	Status  string   `json:"status"` // and gemini
	Text    string   `json:"text"`
	Paths   []string `json:"paths"`

	Part struct { // opencode
		Tool  string `json:"tool"`
		ID    string `json:"callID"`
		Text  string `json:"text"`
		State struct {
			Status   string          `json:"status"`
			Input    json.RawMessage `json:"input"`
			Output   string          `json:"output"`
			Error    string          `json:"error"`
			Metadata struct {
				Exit int `json:"exit"`
			} `json:"metadata"`
		} `json:"state"`
	} `json:"part"`

	Item struct { // codex
		ID       string          `json:"id"`
		Type     string          `json:"type"`
		Text     string          `json:"text"`
		Status   string          `json:"status"`
		Command  string          `json:"command"`
		Output   string          `json:"aggregated_output"`
		ExitCode *int            `json:"exit_code"`
		Server   string          `json:"server"`
		Tool     string          `json:"tool"`
		Prompt   string          `json:"prompt"` // to a subagent
		Input    json.RawMessage `json:"arguments"`
		Result   struct {
			Content json.RawMessage `json:"content"`
		} `json:"result"`
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
		Query   string `json:"query"`
		Changes []struct {
			Path string `json:"path"`
			Kind string `json:"kind"`
		} `json:"changes"`
		Todos []struct {
			Text string `json:"text"`
			Done bool   `json:"completed"`
		} `json:"items"`
	} `json:"item"`

	Data struct { // copilot
		ID        string          `json:"toolCallId"`
		Tool      string          `json:"toolName"`
		Arguments json.RawMessage `json:"arguments"`
		Success   *bool           `json:"success"`
		Parent    string          `json:"parentToolCallId"`
		Content   string          `json:"content"`
		Result    struct {
			Content string `json:"content"`
		} `json:"result"`
		Shell struct {
			Exit int `json:"exitCode"`
		} `json:"shellExecution"`
	} `json:"data"`

	Event struct { // cline
		Type    string          `json:"type"`
		Content string          `json:"contentType"`
		Tool    string          `json:"toolName"`
		ID      string          `json:"toolCallId"`
		Input   json.RawMessage `json:"input"`
		Output  json.RawMessage `json:"output"`
		Text    string          `json:"text"`
	} `json:"event"`
}

// block is a part of one of claude's messages.
type block struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Thinking string          `json:"thinking"`
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`
	Of       string          `json:"tool_use_id"`
	Content  json.RawMessage `json:"content"`
	IsError  bool            `json:"is_error"`
}

// act is a call of a tool, its result, a thought or a warning, as a line has it.
type act struct {
	kind   Kind
	id     string // of the call
	tool   string // the client's name for it
	input  json.RawMessage
	text   string // of a result or a thought; of a call where there is no input
	file   string // of a call where there is no input: the one that it writes
	failed bool
	inner  bool
}

// acts hands on what a line holds in their order.
func (l *line) acts(tell func(act)) {
	switch l.Type {
	case "assistant", "user":
		l.claude(tell)
	case "tool_use", "tool", "reasoning":
		switch {
		case l.Type == "reasoning":
			tell(act{kind: Thought, text: l.Part.Text})
		case l.Part.Tool != "":
			l.opencode(tell)
		case l.ToolName != "":
			tell(act{kind: Call, id: l.ToolID, tool: l.ToolName, input: l.Parameters})
		case l.Type == "tool":
			l.acp(tell)
		}
	case "tool_result":
		tell(act{kind: Result, id: l.ToolID, text: textOf(l.Output), failed: l.Status == "error"})
	case "error":
		if text := textOf(l.Message); l.Severity == "warning" && text != "" {
			tell(act{kind: Note, text: "warning: " + text, failed: true})
		}
	case "thought":
		tell(act{kind: Thought, text: l.Text})
	case "plan":
		tell(act{kind: Call, tool: "plan", text: planOf(strings.Split(strings.TrimSpace(l.Text), "\n"))})
	case "item.started", "item.updated", "item.completed":
		l.codex(tell)
	case "tool.execution_start":
		tell(act{kind: Call, id: l.Data.ID, tool: l.Data.Tool, input: l.Data.Arguments, inner: l.Data.Parent != ""})
	case "tool.execution_complete":
		text, _, _ := strings.Cut(l.Data.Result.Content, "\n<shellId: ")
		tell(act{kind: Result, id: l.Data.ID, text: exited(l.Data.Shell.Exit, text), failed: l.Data.Success != nil &&
			!*l.Data.Success || l.Data.Shell.Exit != 0, inner: l.Data.Parent != ""})
	case "assistant.reasoning":
		tell(act{kind: Thought, text: l.Data.Content, inner: l.Data.Parent != ""})
	case "agent_event":
		l.cline(tell)
	}
}

func (l *line) claude(tell func(act)) {
	var m struct {
		Model   string          `json:"model"`
		Content json.RawMessage `json:"content"`
	}
	var blocks []block
	if json.Unmarshal(l.Message, &m) != nil || m.Model == "<synthetic>" || json.Unmarshal(m.Content, &blocks) != nil {
		return
	}
	inner := l.Parent != ""
	for _, b := range blocks {
		switch b.Type {
		case "text":
			if l.Type == "assistant" {
				tell(act{kind: Text, text: b.Text, inner: inner})
			}
		case "thinking":
			tell(act{kind: Thought, text: b.Thinking, inner: inner})
		case "tool_use", "server_tool_use", "mcp_tool_use":
			tell(act{kind: Call, id: b.ID, tool: b.Name, input: b.Input, inner: inner})
		case "tool_result":
			tell(act{kind: Result, id: b.Of, text: textOf(b.Content), failed: b.IsError, inner: inner})
		}
	}
}

func (l *line) opencode(tell func(act)) {
	st := l.Part.State
	tell(act{kind: Call, id: l.Part.ID, tool: l.Part.Tool, input: st.Input})
	if st.Status == "completed" || st.Status == "error" {
		tell(act{kind: Result, id: l.Part.ID, text: exited(st.Metadata.Exit, cmp.Or(st.Output, st.Error)),
			failed: st.Status == "error" || st.Metadata.Exit != 0})
	}
}

func (l *line) acp(tell func(act)) {
	path, file := strings.Join(l.Paths[:min(1, len(l.Paths))], ""), ""
	if l.Kind == "edit" || l.Kind == "delete" || l.Kind == "move" {
		file = path
	}
	switch bare := nameOf(l.Title) != l.Title; { // its title is the tool's name
	// it is not known yet what the tool is called with
	case l.Status == "pending" && l.Command == "" && (bare || path == ""):
	case !bare:
		text := cmp.Or(l.Command, l.Title)
		if l.Command == "" && l.Kind != "execute" && path != "" && !strings.Contains(text, filepath.Base(path)) {
			text += " " + path
		}
		tell(act{kind: Call, id: l.ID, tool: l.Kind, text: text, file: file})
	default:
		tell(act{kind: Call, id: l.ID, tool: cmp.Or(l.Title, l.Kind), text: cmp.Or(l.Command, path), file: file})
	}
	if l.Status == "completed" || l.Status == "failed" {
		tell(act{kind: Result, id: l.ID, text: l.Text, failed: l.Status == "failed"})
	}
}

func (l *line) codex(tell func(act)) {
	i := &l.Item
	done := l.Type == "item.completed"
	result := func(text string) {
		if done {
			tell(act{kind: Result, id: i.ID, text: text, failed: i.Status == "failed" || i.ExitCode != nil &&
				*i.ExitCode != 0})
		}
	}
	switch i.Type {
	case "command_execution":
		tell(act{kind: Call, id: i.ID, tool: i.Type, text: unwrapped(i.Command)})
		code := 0
		if i.ExitCode != nil {
			code = *i.ExitCode
		}
		result(exited(code, i.Output))
	case "file_change":
		for _, c := range i.Changes {
			if done {
				tell(act{kind: Call, tool: i.Type, text: c.Path, file: c.Path})
			}
		}
	case "mcp_tool_call", "collab_tool_call":
		tell(act{kind: Call, id: i.ID, tool: strings.Trim(i.Server+" "+i.Tool, " "), input: i.Input, text: i.Prompt})
		result(cmp.Or(i.Error.Message, textOf(i.Result.Content)))
	case "web_search":
		tell(act{kind: Call, id: i.ID, tool: i.Type, text: i.Query})
	case "reasoning":
		if done {
			tell(act{kind: Thought, text: i.Text})
		}
	case "todo_list":
		if l.Type != "item.completed" { // it is printed once more at the end
			var list []string
			for _, t := range i.Todos {
				list = append(list, map[bool]string{true: "[completed] ", false: "[pending] "}[t.Done]+t.Text)
			}
			tell(act{kind: Call, tool: "plan", text: planOf(list)})
		}
	}
}

func (l *line) cline(tell func(act)) {
	switch e := &l.Event; {
	case e.Content == "tool" && e.Type == "content_start":
		tell(act{kind: Call, id: e.ID, tool: e.Tool, input: e.Input})
	case e.Content == "tool" && e.Type == "content_end":
		var parts []struct {
			Result  json.RawMessage `json:"result"`
			Success *bool           `json:"success"`
		}
		if json.Unmarshal(e.Output, &parts) != nil {
			tell(act{kind: Result, id: e.ID, text: textOf(e.Output)})
			return
		}
		a := act{kind: Result, id: e.ID}
		for _, p := range parts {
			a.text += textOf(p.Result)
			a.failed = a.failed || p.Success != nil && !*p.Success
		}
		tell(a)
	case e.Content == "reasoning" && e.Type == "content_end":
		tell(act{kind: Thought, text: e.Text})
	}
}

// textOf is the text of a result: a string, or parts of which some are text.
func textOf(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(raw, &parts) // what is neither says nothing
	for _, p := range parts {
		s += p.Text
	}
	return s
}

// exited is a command's output with its exit status, where that is not 0.
func exited(code int, output string) string {
	if code == 0 {
		return output
	}
	return fmt.Sprintf("Exit code %d\n%s", code, output)
}

// unwrapped is a command without the shell that codex gives it to.
func unwrapped(command string) string {
	_, inner, ok := strings.Cut(command, " -lc ")
	if !ok || len(inner) < 2 || inner[0] != inner[len(inner)-1] {
		return command
	}
	switch inner[0] {
	case '\'':
		return strings.ReplaceAll(inner[1:len(inner)-1], `'\''`, `'`)
	case '"':
		return strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\$`, `$`, "\\`", "`").Replace(inner[1 : len(inner)-1])
	}
	return command
}

// planOf says how far a list of steps has come, each of which begins with its status in brackets.
func planOf(steps []string) string {
	done, now := 0, ""
	for _, s := range steps {
		status, text, _ := strings.Cut(strings.TrimPrefix(s, "["), "] ")
		switch {
		case status == "completed":
			done++
		case now == "":
			now = ", now: " + text
		}
	}
	return fmt.Sprintf("%d of %d steps done%s", done, len(steps), now)
}

// nameOf is the name that a tool has here, whatever its client calls it.
func nameOf(tool string) string {
	switch tool {
	case "bash", "shell", "run_shell_command", "command_execution", "run_commands", "execute_command",
		"run_terminal_cmd", "execute", "local_shell":
		return "Bash"
	case "edit", "MultiEdit", "multiedit", "NotebookEdit", "replace", "replace_in_file", "patch", "apply_patch",
		"file_change", "edit_file", "str_replace_editor":
		return "Edit"
	case "write", "write_file", "create", "create_file", "write_to_file":
		return "Write"
	case "read", "read_file", "view", "read_many_files":
		return "Read"
	case "grep", "grep_search", "search_file_content", "search":
		return "Grep"
	case "glob", "list", "list_directory", "list_files", "ls":
		return "List"
	case "task", "agent":
		return "Task"
	case "webfetch", "web_fetch", "fetch":
		return "WebFetch"
	case "websearch", "web_search", "google_web_search":
		return "WebSearch"
	case "TodoWrite", "todowrite", "todo_write", "write_todos", "update_plan", "plan":
		return "Plan"
	case "think", "other", "":
		return "Tool"
	}
	return tool
}

// argument is what a call is about in a few words: its command, its file, its pattern.
func argument(tool string, input json.RawMessage) (text, file string) {
	var in map[string]any
	if json.Unmarshal(input, &in) != nil {
		return "", ""
	}
	if tool == "Plan" {
		return todos(in), ""
	}
	word := func(names ...string) string {
		for _, n := range names {
			switch v := in[n].(type) {
			case string:
				if v != "" {
					return v
				}
			case []any:
				var parts []string
				for _, p := range v {
					if s, ok := p.(string); ok {
						parts = append(parts, s)
					}
				}
				if len(parts) > 0 {
					return strings.Join(parts, "; ")
				}
			}
		}
		return ""
	}
	path := word("file_path", "filePath", "notebook_path", "absolute_path", "path", "file", "paths")
	if tool == "Edit" || tool == "Write" {
		return path, path
	}
	if text = word("command", "commands", "cmd"); text != "" {
		return text, ""
	}
	if text = word("pattern", "query", "regex"); text != "" {
		if path != "" {
			text += " in " + path
		}
		return text, ""
	}
	if text = cmp.Or(path, word("url", "description", "prompt", "title", "name", "skill")); text != "" {
		return text, ""
	}
	return word(slices.Sorted(maps.Keys(in))...), ""
}

// todos is the state of a list of things to do.
func todos(in map[string]any) string {
	for _, name := range []string{"todos", "plan", "items"} {
		list, ok := in[name].([]any)
		if !ok {
			continue
		}
		var steps []string
		for _, one := range list {
			m, _ := one.(map[string]any)
			status, _ := m["status"].(string)
			text, _ := m["content"].(string)
			for _, other := range []string{"description", "step"} {
				if s, ok := m[other].(string); ok && text == "" {
					text = s
				}
			}
			steps = append(steps, "["+status+"] "+text)
		}
		return planOf(steps)
	}
	return ""
}
