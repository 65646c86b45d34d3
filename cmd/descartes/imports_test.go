package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// arrows says which of our packages each package may import. Data flows one way.
func arrows() map[string][]string {
	return map[string][]string{
		"internal/atomicfile": {"internal/crash", "internal/oscall"},
		"agent/acp":           {"agent/process", "agent/stream", "internal/oneline", "internal/proc"},                                                                         // the other side of an agent that speaks the protocol, a process of its own
		"internal/complete":   {"agent", "agent/quota", "internal/atomicfile", "internal/config", "view", "internal/terminal", "loop", "loop/journal", "loop/store", "tasks"}, // what a shell offers: a view, too
		"internal/crash":      {},
		"internal/config":     {"internal/sandbox", "verify/guard", "agent", "verify", "agent/stream", "loop/gate", "tasks", "internal/atomicfile", "internal/plainfile", "internal/redact", "internal/terminal"}, // of which settings hold values
		"internal/docs":       {},                                                                                                                                                                                 // only tests import it
		"internal/markdown":   {},
		"internal/lazyregexp": {},
		"internal/redact":     {"internal/crash"},
		"internal/plainfile":  {},
		"internal/receipt":    {"gitops", "verify", "internal/atomicfile", "internal/plainfile", "internal/proc", "loop/journal", "tasks", "tasks/plan"}, // what proves a task's work; ssh-keygen and gpg sign it
		"internal/proc":       {"agent/process"},
		"internal/promise":    {"internal/markdown"},                                 // code shows words and does not say them
		"internal/sandbox":    {"internal/oscall", "agent/process", "internal/proc"}, // mounts, variables and the proxy of what proc starts
		"tasks":               {"internal/atomicfile", "internal/crash", "internal/markdown", "internal/plainfile", "tasks/prose"},
		"tasks/plan":          {"tasks", "tasks/prose", "internal/atomicfile", "internal/markdown", "internal/oneline"},
		"tasks/prose":         {},
		"scheduler":           {"tasks", "internal/oneline"},
		"specbuild":           {"tasks", "tasks/plan", "tasks/prose", "internal/markdown", "internal/oneline"},
		"agent/quota":         {"internal/atomicfile"},
		"agent/stream":        {"agent/quota"},
		"agent/render":        {"agent/stream", "internal/terminal"}, // what it shows is safe for a terminal
		"agent/process":       {"internal/oscall"},
		"agent":               {"internal/oscall", "internal/oneline", "agent/process", "agent/quota", "agent/stream", "internal/markdown", "internal/promise"},
		"verify":              {"agent/process", "internal/plainfile", "verify/results"},
		"verify/results":      {"internal/plainfile"},
		"gitops":              {"internal/proc", "internal/crash", "internal/oscall", "internal/plainfile"},
		"internal/lockfile":   {},
		"verify/guard":        {"internal/lockfile"},
		"verify/mutants":      {},
		"view/print":          {"verify", "gitops", "internal/config", "internal/receipt", "internal/terminal", "loop", "loop/journal", "loop/store", "tasks", "view"},
		"view":                {"verify", "internal/receipt", "internal/config", "internal/terminal", "loop", "loop/gate", "loop/journal", "loop/store", "scheduler", "tasks", "gitops"},
		"internal/terminal":   {},
		"internal/tui":        {"view", "view/print", "internal/terminal", "loop/journal", "loop/store"}, // a view: nothing imports it but cmd
		"internal/web":        {"agent/render", "gitops", "view", "internal/terminal", "loop/journal", "loop/store"},
		"internal/notify":     {"internal/proc", "internal/redact", "internal/terminal", "loop/journal", "loop/store", "view"}, // nothing imports it but cmd
		"internal/oneline":    {},
		"internal/oscall":     {},
		"loop/workspace":      {"agent/process", "gitops", "internal/lockfile", "internal/oscall", "internal/atomicfile", "internal/crash", "internal/oneline", "internal/plainfile"},
		"loop/attempt":        {"agent", "specbuild", "verify", "verify/guard", "verify/results", "verify/mutants", "gitops", "loop/workspace", "internal/redact", "internal/oneline", "internal/plainfile"},
		"loop/lab":            {"internal/oneline", "internal/plainfile", "internal/redact", "loop/attempt", "loop/workspace", "verify"},
		"loop/breakdown":      {"agent", "internal/oneline", "loop/attempt", "loop/workspace", "scheduler", "specbuild", "tasks", "tasks/prose"},                                            // an agent that is asked, and the check of what it answers
		"loop/gate":           {"tasks/plan", "internal/markdown", "internal/oneline", "internal/redact", "internal/promise"},                                                               // what is left of a plan is what a run over it has left
		"loop/journal":        {"internal/atomicfile", "internal/crash", "internal/plainfile"},                                                                                              // a journal is healed by replacing it, bounded, and cut off in tests
		"loop/store":          {"gitops", "internal/atomicfile", "internal/config", "internal/oneline", "internal/oscall", "internal/plainfile", "loop/journal", "loop/workspace", "tasks"}, // state files hold settings; a cleanup takes slots, too
		"loop":                {"loop/store", "verify/guard", "internal/receipt", "agent/quota", "verify/results", "loop/gate", "loop/lab", "agent/render", "loop/attempt", "loop/workspace", "internal/oneline", "loop/journal", "internal/config", "scheduler", "specbuild", "agent", "verify", "gitops", "tasks", "tasks/plan", "internal/atomicfile", "internal/crash", "internal/redact", "internal/plainfile"},
		"cmd/descartes":       {"internal/oscall", "internal/lockfile", "loop/breakdown", "fleet", "fleet/temporal", "internal/complete", "loop/lab", "internal/receipt", "internal/notify", "agent/quota", "internal/tui", "internal/web", "loop/attempt", "loop/workspace", "agent/process", "agent/render", "agent/stream", "view", "view/print", "internal/terminal", "internal/config", "loop", "loop/gate", "loop/journal", "loop/mode", "loop/store", "scheduler", "specbuild", "agent", "verify", "gitops", "tasks", "tasks/plan", "internal/atomicfile", "agent/acp", "internal/oneline", "internal/redact", "internal/plainfile", "internal/proc", "internal/sandbox", "launch"},
		"loop/mode":           {"internal/oneline", "loop", "loop/gate", "loop/journal", "loop/store", "internal/markdown", "internal/plainfile", "internal/redact"},
		"launch":              {"agent", "agent/process", "agent/quota", "agent/stream", "gitops", "internal/atomicfile", "internal/config", "internal/lockfile", "internal/oneline", "internal/oscall", "internal/plainfile", "internal/proc", "internal/redact", "internal/sandbox", "internal/terminal", "loop", "loop/attempt", "loop/gate", "loop/journal", "loop/mode", "loop/store", "loop/workspace", "tasks", "tasks/plan", "verify"}, // a run of any kind, from its settings to its end
		"fleet":               {"agent", "agent/process", "agent/quota", "gitops", "internal/atomicfile", "internal/config", "internal/oneline", "internal/oscall", "internal/proc", "internal/redact", "internal/sandbox", "launch", "loop", "loop/attempt", "loop/lab", "loop/store", "loop/workspace", "verify"},                                                                                                                            // both ends of it
		"fleet/temporal":      {"fleet", "internal/oscall", "internal/terminal", "loop"},
	}
}

// only says which of our packages may import something from outside.
func only() map[string][]string {
	return map[string][]string{"net/http": {"internal/notify", "internal/sandbox", "internal/web"}, "html/template": {"internal/web"}, "text/template": {"specbuild", "view/print"}, "os/exec": {"internal/proc"}, "go.temporal.io": {"fleet/temporal"}, "github.com/go-git/go-git/v5": {"gitops"}}
}

func TestImports(t *testing.T) {
	root := filepath.Join("..", "..")
	seen := map[string]map[string]string{} // package to import to file
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() && (d.Name() == "testdata" || rel != "." && strings.HasPrefix(d.Name(), ".") || rel == "cmd/descartes/demo") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := path.Dir(rel)
		if seen[pkg] == nil {
			seen[pkg] = map[string]string{}
		}
		for _, i := range f.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			seen[pkg][name] = rel
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	table := arrows()
	for _, pkg := range slices.Sorted(maps.Keys(seen)) {
		allowed, known := table[pkg]
		if !known {
			t.Errorf("package %s is not in the table", pkg)
			continue
		}
		for name, file := range seen[pkg] {
			if name == "descartes/internal/lazyregexp" { // regexp, a little later
				continue
			}
			if ours, ok := strings.CutPrefix(name, "descartes/"); ok && !slices.Contains(allowed, ours) {
				t.Errorf("%s: %s may not import %s", file, pkg, ours)
			}
			for outside, owners := range only() {
				if (name == outside || strings.HasPrefix(name, outside+"/")) && !slices.Contains(owners, pkg) {
					t.Errorf("%s: only %q may import %s", file, owners, outside)
				}
			}
		}
	}
	for pkg := range table {
		if seen[pkg] == nil {
			t.Errorf("package %s is in the table and has no code", pkg)
		}
	}
}
