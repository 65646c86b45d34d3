package stream

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Bounds of what is counted: a longer line is passed over, more files are not told of.
const (
	editLine  = 1 << 20
	editFiles = 10000
)

// Edits counts in an agent's log how often it edited each file, as far as its stream tells: the tools of
// claude, opencode, gemini and codex that write one. It is nil where the log tells of none. It reads the log
// anew, so that nobody pays for it who does not ask.
func Edits(log string) (map[string]int, error) {
	f, err := os.Open(log)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("count edits: %w", err)
	}
	defer f.Close()
	c := editCount{seen: map[string]bool{}}
	for r, long := bufio.NewReaderSize(f, editLine), false; ; {
		line, err := r.ReadSlice('\n')
		if !long && err != bufio.ErrBufferFull {
			c.line(line)
		}
		long = err == bufio.ErrBufferFull
		if err == io.EOF {
			return c.files, nil
		}
		if err != nil && !long {
			return c.files, fmt.Errorf("count edits: %w", err)
		}
	}
}

type editCount struct {
	files map[string]int
	seen  map[string]bool // calls that have been counted: a client may tell of one twice
}

// editCall is what the clients' lines have in common with a call of a tool.
type editCall struct {
	Type string `json:"type"`
	Name string `json:"tool_name"` // gemini
	ID   string `json:"tool_id"`

	Parameters editInput `json:"parameters"`
	Message    struct {  // claude
		Content []struct {
			Type  string    `json:"type"`
			ID    string    `json:"id"`
			Name  string    `json:"name"`
			Input editInput `json:"input"`
		} `json:"content"`
	} `json:"message"`
	Part struct { // opencode
		Tool  string `json:"tool"`
		ID    string `json:"callID"`
		State struct {
			Input editInput `json:"input"`
		} `json:"state"`
	} `json:"part"`
	Item struct { // codex
		Type    string `json:"type"`
		Changes []struct {
			Path string `json:"path"`
		} `json:"changes"`
	} `json:"item"`
}

type editInput struct {
	Path     string `json:"file_path"`
	Camel    string `json:"filePath"`
	Notebook string `json:"notebook_path"`
}

func (c *editCount) line(line []byte) {
	if !bytes.Contains(line, []byte(`"tool_use"`)) && !bytes.Contains(line, []byte(`"file_change"`)) {
		return
	}
	var e editCall
	if json.Unmarshal(line, &e) != nil {
		return
	}
	for _, b := range e.Message.Content {
		if b.Type == "tool_use" {
			c.call(b.ID, b.Name, b.Input)
		}
	}
	if e.Type == "tool_use" {
		c.call(e.Part.ID, e.Part.Tool, e.Part.State.Input)
		c.call(e.ID, e.Name, e.Parameters)
	}
	if e.Type == "item.completed" && e.Item.Type == "file_change" {
		for _, ch := range e.Item.Changes {
			c.add(ch.Path)
		}
	}
}

func (c *editCount) call(id, tool string, in editInput) {
	switch tool {
	case "Edit", "MultiEdit", "Write", "NotebookEdit", "edit", "multiedit", "write", "patch", "replace", "write_file":
	default:
		return
	}
	if id != "" && c.seen[id] {
		return
	}
	c.seen[id] = true
	c.add(or(in.Path, or(in.Camel, in.Notebook)))
}

func (c *editCount) add(path string) {
	if path == "" || len(c.files) >= editFiles {
		return
	}
	if c.files == nil {
		c.files = map[string]int{}
	}
	c.files[path]++
}
