package mode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"descartes/internal/plainfile"
	"descartes/loop/gate"
)

// Project is where a project keeps what the modes read.
type Project struct {
	Root string // absolute
	Plan string // name of the plan's file below Root, where it is or will be
}

// bounds of what is read of a project
const (
	maxPlan  = 4 << 20
	maxSpecs = 1000
)

// Open finds the plan of a project: IMPLEMENTATION_PLAN.md, or a file of that name in any case.
func Open(root string) Project {
	p := Project{Root: root, Plan: "IMPLEMENTATION_PLAN.md"}
	entries, err := os.ReadDir(root)
	if err != nil {
		return p
	}
	var found []string
	for _, e := range entries {
		if strings.EqualFold(e.Name(), p.Plan) && !e.IsDir() {
			found = append(found, e.Name())
		}
	}
	if len(found) > 0 && !slices.Contains(found, p.Plan) {
		p.Plan = found[0]
	}
	return p
}

// ReadPlan reads the plan as it is now; nil where there is none.
func (p Project) ReadPlan() (*gate.Plan, error) {
	name := filepath.Join(p.Root, p.Plan)
	b, err := plainfile.Read(p.Root, name, maxPlan)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read plan: %w", err)
	}
	plan := gate.ParsePlan(strings.TrimPrefix(string(b), "\ufeff"))
	return &plan, nil
}

// Specs lists the spec files, relative to the root, in order: what lies in specs/ and ends in .md.
func (p Project) Specs() []string {
	var out []string
	_ = filepath.WalkDir(filepath.Join(p.Root, "specs"), func(name string, d fs.DirEntry, err error) error {
		if err != nil || len(out) >= maxSpecs {
			return fs.SkipAll // what cannot be read is no spec
		}
		if rel, err := filepath.Rel(p.Root, name); err == nil && d.Type().IsRegular() && strings.EqualFold(path.Ext(name), ".md") {
			out = append(out, filepath.ToSlash(rel))
		}
		return nil
	})
	slices.Sort(out)
	return out
}

// SpecOf is the spec file that an item of the plan names, or that is named for words of it; "" for none.
func SpecOf(item string, specs []string) string {
	low := strings.ToLower(item)
	for _, s := range specs {
		if strings.Contains(low, strings.ToLower(path.Base(s))) {
			return s
		}
	}
	words := strings.FieldsFunc(low, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	best, most := "", 0
	for _, s := range specs {
		n := 0
		for _, w := range strings.FieldsFunc(strings.ToLower(strings.TrimSuffix(path.Base(s), path.Ext(s))), func(r rune) bool { return r == '-' || r == '_' || r == '.' || r == ' ' }) {
			if len(w) > 2 && slices.Contains(words, w) {
				n++
			}
		}
		if n > most {
			best, most = s, n
		}
	}
	return best
}

// TestCommand is the command that AGENTS.md gives for the project's tests, "" where it gives none: the
// first command in a section or on a line that speaks of tests.
func (p Project) TestCommand() string {
	b, err := plainfile.Read(p.Root, "AGENTS.md", maxPlan)
	if err != nil {
		return ""
	}
	return testCommand(string(b))
}

// testCommand looks for, in this order: a line "Test: `command`"; the first fenced command, or the first
// command in backquotes, below a heading that speaks of tests; a command in backquotes on a line that does.
func testCommand(text string) string {
	var inSection, fenced, onLine string
	section, fence, shell := false, "", false
	level := 0
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		bare := strings.TrimSpace(line)
		if mark := fenceOf(bare); mark != "" {
			switch {
			case fence == "":
				fence, shell = mark, isShell(strings.Trim(bare, "`~ "))
			case strings.HasPrefix(bare, fence):
				fence = ""
			}
			continue
		}
		if fence != "" {
			if cmd := strings.TrimPrefix(bare, "$ "); section && shell && fenced == "" && cmd != "" && !strings.HasPrefix(cmd, "#") {
				fenced = cmd
			}
			continue
		}
		if n := len(bare) - len(strings.TrimLeft(bare, "#")); n > 0 && n <= 6 && strings.HasPrefix(bare[n:], " ") {
			if about := speaksOfTests(bare); about || n <= level {
				section, level = about, n
			}
			continue
		}
		if cmd := labelled(bare); cmd != "" {
			return cmd
		}
		code := inline(bare)
		if section && inSection == "" {
			inSection = code
		}
		if speaksOfTests(bare) && onLine == "" {
			onLine = code
		}
	}
	for _, cmd := range []string{fenced, inSection, onLine} {
		if cmd != "" {
			return cmd
		}
	}
	return ""
}

func fenceOf(line string) string {
	for _, mark := range []string{"```", "~~~"} {
		if strings.HasPrefix(line, mark) {
			return mark
		}
	}
	return ""
}

func isShell(lang string) bool {
	switch strings.ToLower(lang) {
	case "", "sh", "bash", "shell", "console", "zsh", "text":
		return true
	}
	return false
}

func speaksOfTests(line string) bool {
	for _, w := range strings.FieldsFunc(strings.ToLower(line), func(r rune) bool { return r < 'a' || r > 'z' }) {
		switch w {
		case "test", "tests", "testing", "validation", "verify", "verification":
			return true
		}
	}
	return false
}

// labelled is the command of a line like "- **Tests**: `make test`" or "test: make test".
func labelled(line string) string {
	label, rest, ok := strings.Cut(strings.TrimLeft(line, "-*+ "), ":")
	if !ok {
		return ""
	}
	switch strings.ToLower(strings.Trim(label, "*_` ")) {
	case "test", "tests", "test command", "run tests", "run the tests", "testing":
	default:
		return ""
	}
	rest = strings.TrimSpace(strings.Trim(strings.TrimSpace(rest), "*_"))
	if code := inline(rest); code != "" {
		return code
	}
	return rest
}

// inline is the first text in backquotes that looks like a command.
func inline(line string) string {
	for {
		_, rest, ok := strings.Cut(line, "`")
		if !ok {
			return ""
		}
		code, after, ok := strings.Cut(rest, "`")
		if !ok {
			return ""
		}
		code = strings.TrimPrefix(strings.TrimSpace(code), "$ ")
		first, _, _ := strings.Cut(code, " ")
		if code != "" && !strings.HasSuffix(first, ".md") && !strings.HasSuffix(first, "/") && !strings.ContainsAny(first, "<>(){}") {
			return code
		}
		line = after
	}
}
