// Package mode owns what the modes plan, build and prompt are made of: their prompts and the variables
// in them, the project's plan, specs and test command, and the session log. It runs nothing.
package mode

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"descartes/internal/plainfile"
)

// Kind is a mode.
type Kind string

// The modes.
const (
	Plan   Kind = "plan"   // compares specs and code, writes the plan
	Build  Kind = "build"  // does one task of the plan in each iteration
	Prompt Kind = "prompt" // runs one prompt once
)

//go:embed prompts
var builtin embed.FS

// maxPrompt bounds a prompt file, in bytes.
const maxPrompt = 4 << 20

// Text is a mode's prompt before its variables are filled in, and the file it comes from, relative to
// root: PROMPT_<mode>.md or prompts/<mode>.md where the project has one, else ours, which is "".
func Text(root string, k Kind) (text, file string, err error) {
	for _, name := range []string{"PROMPT_" + string(k) + ".md", filepath.Join("prompts", string(k)+".md"), filepath.Join("prompts", "PROMPT_"+string(k)+".md")} {
		text, err := ReadPrompt(root, filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", name, err
		}
		return text, name, nil
	}
	b, err := builtin.ReadFile("prompts/" + string(k) + ".md")
	return string(b), "", err
}

// ReadPrompt reads a prompt for the project at root: text of bounded size that is not empty.
func ReadPrompt(root, path string) (string, error) {
	b, err := plainfile.Read(root, path, maxPrompt)
	if err != nil {
		return "", fmt.Errorf("prompt: %w", err)
	}
	text := strings.TrimPrefix(string(b), "\ufeff")
	switch {
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return "", fmt.Errorf("prompt %s is not UTF-8 text", path)
	case strings.TrimSpace(text) == "":
		return "", fmt.Errorf("prompt %s is empty", path)
	}
	return text, nil
}

// Variables are what a prompt may name as ${NAME}.
type Variables struct {
	Mode      Kind
	Iteration int // from 1
	Max       int
	Try       int
	Task      string // ${TASK_DESCRIPTION}
	Spec      string // ${ASSOCIATED_SPEC}
	PlanFile  string
	Specs     string // where the specs are
	Test      string // the test command
	Promise   string
	Root      string // ${PROJECT_DIR}
	Start     string // ${TIMESTAMP}
}

// Expand fills in the variables of a prompt, once: what they hold is not looked at again. A name that is
// not known stays as it is.
func (v Variables) Expand(text string) string {
	var b strings.Builder
	for {
		at := strings.Index(text, "${")
		if at < 0 {
			break
		}
		b.WriteString(text[:at])
		text = text[at:]
		end := strings.IndexByte(text, '}')
		if end < 0 {
			break
		}
		if value, ok := v.value(text[2:end]); ok {
			b.WriteString(value)
		} else {
			b.WriteString(text[:2])
			end = 1
		}
		text = text[end+1:]
	}
	b.WriteString(text)
	return b.String()
}

func (v Variables) value(name string) (string, bool) {
	switch name {
	case "MODE":
		return string(v.Mode), true
	case "ITERATION":
		return strconv.Itoa(v.Iteration), true
	case "MAX_ITERATIONS":
		return strconv.Itoa(v.Max), true
	case "RETRY":
		return strconv.Itoa(max(0, v.Try-1)), true
	case "TASK_DESCRIPTION", "TASK":
		return orWord(v.Task, "none is named"), true
	case "ASSOCIATED_SPEC", "SPEC":
		return orWord(v.Spec, "none is named"), true
	case "PLAN_FILE":
		return v.PlanFile, true
	case "SPECS", "SPECS_DIR":
		return orWord(v.Specs, "there is no folder specs/: look for them in the documents of the project"), true
	case "TEST_COMMAND":
		return orWord(v.Test, "as AGENTS.md says"), true
	case "PROMISE":
		return v.Promise, true
	case "PROJECT_DIR":
		return v.Root, true
	case "TIMESTAMP":
		return v.Start, true
	}
	return "", false
}

func orWord(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
