// Package mode owns what the modes plan, build and prompt are made of: their prompts and the variables
// in them, the project's plan, specs and test command, and the session log. It runs nothing.
package mode

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"descartes/internal/lazyregexp"
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
	for _, name := range []string{"PROMPT_" + string(k) + ".md", filepath.Join("prompts", string(k)+".md"),
		filepath.Join("prompts", "PROMPT_"+string(k)+".md")} {
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
	Alone     bool   // the agent may not use agents of its own
}

// What ${SUB_AGENTS} says. How many is the agent's to choose: clients differ in what they allow, and accounts in what
// they pay.
const (
	subAgents = "If you can start sub-agents, let them read and search, several at a time and each with one question, and keep your own context for\n" +
		"deciding and writing: once about half of it is used, have others read. Only one of you builds or runs tests at a time."
	noSubAgents = "Do the work yourself: do not start sub-agents."
)

var variable = lazyregexp.New(`\$\{(\w+)\}`)

// Expand fills in the variables of a prompt, once: what they hold is not looked at again. A name that is
// not known stays as it is.
func (v Variables) Expand(text string) string {
	task, spec := cmp.Or(v.Task, "none is named"), cmp.Or(v.Spec, "none is named")
	specs := cmp.Or(v.Specs, "there is no folder specs/: look for them in the documents of the project")
	agents := subAgents
	if v.Alone {
		agents = noSubAgents
	}
	values := map[string]string{
		"SUB_AGENTS": agents,
		"MODE":       string(v.Mode), "ITERATION": strconv.Itoa(v.Iteration), "MAX_ITERATIONS": strconv.Itoa(v.Max),
		"RETRY":            strconv.Itoa(max(0, v.Try-1)),
		"TASK_DESCRIPTION": task, "TASK": task, "ASSOCIATED_SPEC": spec, "SPEC": spec, "PLAN_FILE": v.PlanFile,
		"SPECS": specs, "SPECS_DIR": specs,
		"TEST_COMMAND": cmp.Or(v.Test, "as AGENTS.md says"), "PROMISE": v.Promise, "PROJECT_DIR": v.Root,
		"TIMESTAMP": v.Start,
	}
	return variable.ReplaceAllStringFunc(text, func(name string) string {
		if value, ok := values[name[2:len(name)-1]]; ok {
			return value
		}
		return name
	})
}
