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
		"internal/atomicfile":          {"internal/crash", "internal/oscall"},
		"internal/atomicfile/disktest": {"internal/atomicfile"}, // only tests import it
		// the other side of an agent that speaks the protocol, a process of its own
		"agent/acp": {"agent/process", "agent/stream", "internal/oneline", "internal/proc"},
		// what a shell offers: a view, too
		"cmd/descartes/complete": {"agent", "config", "view", "internal/terminal", "loop/journal",
			"loop/source", "loop/store", "tasks"},
		"internal/crash": {},
		// of which settings hold values
		"config": {"internal/sandbox", "verify/judge", "agent", "verify", "agent/stream", "loop/gate",
			"tasks", "internal/atomicfile", "internal/plainfile", "internal/redact", "internal/terminal"},
		"internal/docs":       {}, // only tests import it
		"internal/markdown":   {},
		"internal/lazyregexp": {},
		"internal/redact":     {"internal/crash", "internal/lazyregexp"},
		"internal/plainfile":  {},
		// what proves a task's work; ssh-keygen and gpg sign it
		"loop/receipt": {"gitops", "verify", "internal/atomicfile", "internal/oneline", "internal/plainfile", "internal/proc",
			"loop/journal", "tasks", "tasks/plan"},
		// it removes what a kernel left in the work folders of layers, which nobody may read
		"internal/proc":  {"agent/process", "internal/oscall", "internal/plainfile"},
		"internal/awake": {"internal/proc"},
		// code shows words and does not say them
		"internal/promise": {"internal/markdown"},
		// mounts, variables and the proxy of what proc starts
		"internal/sandbox": {"internal/oscall", "agent/process", "internal/plainfile", "internal/proc"},
		"tasks": {"internal/atomicfile", "internal/crash", "internal/markdown", "internal/plainfile",
			"tasks/outline", "tasks/prose"},
		"tasks/plan": {"tasks", "tasks/front", "tasks/outline", "tasks/prose", "internal/markdown", "internal/oneline",
			"internal/plainfile"},
		// what a checklist and a plan are read from, once
		"tasks/outline":    {"internal/markdown", "tasks/prose"},
		"tasks/front":      {"internal/markdown", "tasks"},
		"tasks/prose":      {},
		"scheduler":        {"tasks", "internal/oneline"},
		"scheduler/plant":  {},            // only tests import it
		"scheduler/prompt": {"scheduler"}, // its accounts, bounds and breaker; like scheduler.Run, it decides and does nothing
		"scheduler/sim":    {"scheduler"}, // only tests and make test-sim play it
		"scheduler/trace":  {},            // only tests import it
		"specbuild":        {"tasks", "tasks/plan", "tasks/prose", "internal/markdown", "internal/oneline"},
		"agent/quota":      {"internal/atomicfile", "internal/plainfile"},
		"agent/stream":     {"agent/quota"},
		"agent/render":     {"agent/stream", "internal/terminal"}, // what it shows is safe for a terminal
		"agent/process":    {"internal/oscall"},
		"agent": {"internal/oscall", "internal/oneline", "agent/process", "agent/quota", "agent/stream",
			"internal/markdown", "internal/promise", "internal/terminal"},
		"verify":         {"agent/process", "internal/plainfile", "verify/results"},
		"verify/results": {"internal/plainfile"},
		// a commit is two trees, and what it is worth is told by trees made of both
		"verify/judge": {"gitops", "verify", "verify/results"},
		"gitops": {"internal/oneline", "internal/proc", "internal/crash", "internal/oscall", "internal/plainfile",
			"internal/shell"},
		"internal/lockfile": {},
		"view/print": {"verify", "verify/judge", "loop/receipt", "internal/terminal", "loop/journal", "loop/store", "tasks",
			"view"},
		"view": {"verify", "loop/receipt", "config", "internal/terminal", "loop", "loop/gate",
			"loop/journal", "loop/source", "loop/store", "loop/trunk", "scheduler", "tasks", "gitops"},
		"internal/terminal": {},
		// a view: nothing imports it but cmd
		"view/tui": {"view", "view/print", "internal/terminal", "loop/journal", "loop/store"},
		"view/web": {"agent/render", "gitops", "view", "internal/terminal", "loop/journal", "loop/store"},
		// nothing imports it but cmd
		"view/notify": {"internal/proc", "internal/redact", "internal/terminal", "loop/journal", "loop/store",
			"view"},
		"internal/oneline":  {},
		"internal/safename": {},
		"internal/shell":    {},
		"internal/oscall":   {},
		"loop/slot": {"agent/process", "gitops", "internal/lockfile", "internal/oscall", "internal/atomicfile",
			"internal/crash", "internal/oneline", "internal/plainfile", "internal/redact", "internal/safename"},
		"loop/attempt": {"agent", "specbuild", "verify", "verify/judge", "verify/results", "internal/lockfile",
			"gitops", "loop/slot", "internal/redact", "internal/oneline", "internal/plainfile"},
		"loop/lab": {"internal/oneline", "internal/plainfile", "internal/redact", "loop/attempt",
			"loop/slot", "verify"},
		// an agent that is asked, and the check of what it answers
		"loop/breakdown": {"agent", "internal/oneline", "loop/attempt", "loop/slot", "scheduler", "specbuild",
			"tasks", "tasks/prose"},
		// what is left of a plan is what a run over it has left
		"loop/gate": {"tasks", "tasks/plan", "tasks/prose", "internal/markdown", "internal/oneline", "internal/promise"},
		// a journal is healed by replacing it, bounded, and cut off in tests
		"loop/journal": {"internal/atomicfile", "internal/crash", "internal/plainfile"},
		// state files hold settings; a cleanup takes slots, too
		"loop/store": {"gitops", "internal/atomicfile", "config", "internal/oneline", "internal/oscall",
			"internal/plainfile", "internal/redact", "internal/safename", "loop/journal", "loop/slot", "tasks"},
		// from files to a job and its specs; it knows no run
		"loop/source": {"config", "gitops", "internal/oneline", "internal/plainfile", "loop/journal",
			"loop/receipt", "loop/store", "scheduler", "specbuild", "tasks", "tasks/plan", "verify", "verify/judge"},
		// the commits of what was merged, and the branch that gets them; it knows no run
		"loop/trunk": {"config", "gitops", "internal/atomicfile", "internal/oneline", "internal/safename", "loop/journal",
			"loop/receipt", "loop/source", "loop/store", "loop/slot", "tasks"},
		"loop": {"loop/source", "loop/store", "agent/quota", "verify/results", "loop/gate",
			"loop/attempt", "loop/slot", "internal/oneline", "loop/journal", "config",
			"agent", "verify", "gitops", "tasks", "internal/atomicfile",
			"internal/redact", "internal/plainfile"},
		"cmd/descartes": {"internal/awake", "loop/breakdown", "fleet", "fleet/temporal", "cmd/descartes/complete", "loop/lab",
			"loop/receipt", "view/notify", "view/tui", "view/web", "loop/attempt", "loop/slot", "agent/process",
			"agent/render", "agent/stream", "view", "view/print", "internal/terminal", "config", "loop", "loop/gate",
			"loop/journal", "loop/mode", "loop/source", "loop/store", "loop/trunk", "scheduler", "specbuild", "agent",
			"verify", "verify/judge", "gitops", "tasks",
			"tasks/front", "tasks/plan", "internal/atomicfile", "agent/acp", "internal/oneline", "internal/redact",
			"internal/plainfile", "internal/proc", "internal/sandbox", "launch"},
		"loop/mode": {"config", "internal/oneline", "loop", "loop/gate", "loop/journal", "loop/store", "internal/markdown",
			"internal/plainfile", "internal/redact"},
		// a run of any kind, from its settings to its end
		"launch": {"agent", "agent/process", "agent/quota", "agent/stream", "gitops", "internal/atomicfile",
			"config", "internal/lockfile", "internal/oneline", "internal/oscall", "internal/plainfile",
			"internal/proc", "internal/redact", "internal/sandbox", "internal/shell", "internal/terminal", "loop", "loop/attempt",
			"loop/gate", "loop/journal", "loop/lab", "loop/mode", "loop/run", "loop/source", "loop/store",
			"loop/tagrun", "loop/trunk", "loop/slot", "tasks",
			"tasks/front", "verify"},
		// what a run writes down, and what is asked of it
		"loop/book":     {"internal/atomicfile", "internal/redact", "loop", "loop/journal", "loop/slot", "loop/store"},
		"loop/requests": {"loop", "loop/store"},
		// what it notes of its accounts
		"loop/accounts": {"agent", "agent/quota", "internal/redact", "loop", "loop/journal", "scheduler"},
		// does what scheduler/prompt decides
		"loop/run": {"agent", "agent/render", "config", "gitops", "internal/atomicfile", "internal/crash",
			"internal/oneline", "internal/plainfile", "internal/redact", "internal/safename", "loop", "loop/attempt",
			"loop/accounts", "loop/book", "loop/gate", "loop/journal", "loop/lab", "loop/requests", "loop/source", "loop/store",
			"loop/trunk", "loop/slot", "scheduler/prompt",
			"specbuild",
			"tasks", "verify"},
		// does what scheduler decides
		"loop/tagrun": {"agent", "config", "gitops", "internal/atomicfile", "internal/crash",
			"internal/oneline", "internal/plainfile", "internal/safename", "loop", "loop/attempt",
			"loop/accounts", "loop/book", "loop/gate", "loop/journal", "loop/lab", "loop/receipt", "loop/requests",
			"loop/source", "loop/store", "loop/trunk", "loop/slot", "scheduler", "specbuild", "tasks",
			"verify"},
		// both ends of it
		"fleet": {"agent", "agent/process", "agent/quota", "gitops", "config",
			"internal/oneline", "internal/oscall", "internal/proc", "internal/redact", "internal/safename", "internal/sandbox", "launch",
			"loop", "loop/attempt", "loop/lab", "loop/store", "loop/slot", "verify"},
		"fleet/temporal": {"fleet", "internal/oneline", "internal/oscall", "internal/terminal", "loop"},
	}
}

// only says which of our packages may import something from outside.
func only() map[string][]string {
	return map[string][]string{"net/http": {"view/notify", "internal/sandbox", "view/web"},
		"html/template": {"view/web"}, "text/template": {"specbuild", "view/print"}, "os/exec": {"internal/proc"},
		"go.temporal.io": {"fleet/temporal"}, "github.com/go-git/go-git/v5": {"gitops"}}
}

// storeys are the folders from the roof to the ground: one imports only what stands in it or below it.
var storeys = strings.Fields(
	"cmd view fleet launch loop config verify agent specbuild scheduler tasks gitops internal")

// storey is where a package stands. A command as it is run and ended is no more than values, which the ground runs and
// agent and verify show to their callers; a criterion is a value of the settings, too.
func storey(pkg string) int {
	switch pkg {
	case "agent/process":
		pkg = "internal"
	case "loop/gate":
		pkg = "config"
	}
	top, _, _ := strings.Cut(pkg, "/")
	return slices.Index(storeys, top)
}

// TestStoreys holds the table to the order of the house.
func TestStoreys(t *testing.T) {
	t.Parallel()
	for pkg, allowed := range arrows() {
		for _, to := range allowed {
			if storey(pkg) < 0 || storey(to) < storey(pkg) {
				t.Errorf("%s stands below %s and may not import it", pkg, to)
			}
		}
	}
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
		if d.IsDir() && (d.Name() == "testdata" || rel != "." && strings.HasPrefix(d.Name(), ".") ||
			rel == "cmd/descartes/demo") {
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
	for pkg, allowed := range table {
		if seen[pkg] == nil {
			t.Errorf("package %s is in the table and has no code", pkg)
		}
		for _, to := range allowed {
			if seen[pkg]["descartes/"+to] == "" {
				t.Errorf("%s may import %s and does not: take it from the table", pkg, to)
			}
		}
	}
}
