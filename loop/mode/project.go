package mode

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"descartes/internal/lazyregexp"
	"descartes/internal/markdown"
	"descartes/internal/plainfile"
	"descartes/loop"
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

// in is the project as an iteration finds it.
func (p Project) in(it *loop.Iteration) Project {
	p.Root = it.At(p.Root)
	return p
}

// ReadPlan reads the plan as it is now; nil where there is none.
func (p Project) ReadPlan() (*gate.Plan, error) {
	text, err := p.planText()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read plan: %w", err)
	}
	plan := gate.ParsePlan(text)
	return &plan, nil
}

func (p Project) planText() (string, error) {
	b, err := plainfile.Read(p.Root, filepath.Join(p.Root, p.Plan), maxPlan)
	return strings.TrimPrefix(string(b), "\ufeff"), err
}

// Specs lists the spec files, relative to the root, in order: every .md file in specs/.
func (p Project) Specs() []string {
	var out []string
	_ = filepath.WalkDir(filepath.Join(p.Root, "specs"), func(name string, d fs.DirEntry, err error) error {
		if err != nil || len(out) >= maxSpecs {
			return fs.SkipAll // what cannot be read is no spec
		}
		if rel, err := filepath.Rel(p.Root, name); err == nil && d.Type().IsRegular() &&
			strings.EqualFold(path.Ext(name), ".md") {
			out = append(out, filepath.ToSlash(rel))
		}
		return nil
	})
	slices.Sort(out)
	return out
}

// SpecOf is the spec file that an item of the plan speaks of; "" for none.
func SpecOf(item string, specs []string) string {
	said := gate.Words(item)
	if i := slices.IndexFunc(specs, func(spec string) bool { return gate.Mentions(said, spec) }); i >= 0 {
		return specs[i]
	}
	return ""
}

// TestCommand is the command that AGENTS.md gives for the project's tests, "" where it gives none: the
// first command in a section or on a line that speaks of tests.
func (p Project) TestCommand() string {
	b, err := plainfile.Read(p.Root, "AGENTS.md", maxPlan)
	if err != nil {
		return ""
	}
	return TestCommand(string(b))
}

// TestCommand is the command that a text gives for tests. It looks for, in this order: a line "Test: `command`"; the
// first fenced command, or the first command in backquotes, below a heading that speaks of tests; a command in
// backquotes on a line that does.
func TestCommand(text string) string {
	doc, err := markdown.Parse(text)
	if err != nil {
		return ""
	}
	var inSection, fenced, onLine string
	section, shell, level := false, false, 0
	for n := range doc.Lines {
		line := strings.TrimSpace(doc.Line(n))
		switch l := &doc.Lines[n]; {
		case l.Kind == markdown.Heading:
			if about := aboutTests.MatchString(line); about || l.Level <= level {
				section, level = about, l.Level
			}
		case doc.Fenced(n) && (strings.HasPrefix(line, "```") || strings.HasPrefix(line, "~~~")):
			shell = slices.Contains([]string{"", "sh", "bash", "shell", "console", "zsh", "text"},
				strings.ToLower(strings.Trim(line, "`~ ")))
		case doc.Fenced(n):
			if section && shell && !strings.HasPrefix(line, "#") {
				fenced = cmp.Or(fenced, strings.TrimPrefix(line, "$ "))
			}
		case l.Kind != markdown.Hidden:
			if m := testLabel.FindStringSubmatch(line); m != nil {
				return cmp.Or(inline(m[1]), m[1])
			}
			code := inline(line)
			if section {
				inSection = cmp.Or(inSection, code)
			}
			if aboutTests.MatchString(line) {
				onLine = cmp.Or(onLine, code)
			}
		}
	}
	return cmp.Or(fenced, inSection, onLine)
}

var (
	aboutTests = lazyregexp.New(`(?i)\b(tests?|testing|validation|verify|verification)\b`)
	testLabel  = lazyregexp.New(
		"(?i)^[-*+ ]*[*_`]*(?:tests?|test command|run (?:the )?tests|testing)[*_` ]*:[*_ ]*(.*?\\S)[*_ ]*$")
)

var codeSpan = lazyregexp.New("`\\s*(?:\\$ )?([^`]*?)\\s*`")

// inline is the first text in backquotes that looks like a command.
func inline(line string) string {
	for _, m := range codeSpan.FindAllStringSubmatch(line, -1) {
		first, _, _ := strings.Cut(m[1], " ")
		if m[1] != "" && !strings.HasSuffix(first, ".md") && !strings.HasSuffix(first, "/") &&
			!strings.ContainsAny(first, "<>(){}") {
			return m[1]
		}
	}
	return ""
}
