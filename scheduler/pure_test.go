package scheduler

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestPure holds that what decides reads no clock and no disk, starts no goroutine and takes no lock, and that one
// function writes stage and lane.
func TestPure(t *testing.T) {
	ours := []string{"descartes/tasks", "descartes/internal/oneline", "descartes/scheduler",
		"github.com/dominikbraun/graph"}
	forbidden := []string{"os", "os/exec", "os/signal", "io/fs", "io/ioutil", "sync", "sync/atomic", "context",
		"math/rand", "math/rand/v2", "crypto/rand", "net", "net/http", "syscall", "runtime"}
	clock := []string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "NewTimer", "NewTicker", "Tick"}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("prompt/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(files, more...) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if slices.Contains(forbidden, path) || strings.Contains(path, ".") && !slices.Contains(ours, path) ||
				strings.HasPrefix(path, "descartes/") && !slices.Contains(ours, path) {
				t.Errorf("%s imports %s", name, path)
			}
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				for _, wrong := range impure(fn, clock) {
					t.Errorf("%s: %s %s", name, fn.Name.Name, wrong)
				}
			}
		}
	}
}

// impure says what a function does that only an executor may.
func impure(fn *ast.FuncDecl, clock []string) (wrong []string) {
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			wrong = append(wrong, "starts a goroutine")
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clock, n.Sel.Name) {
				wrong = append(wrong, "reads the clock by time."+n.Sel.Name)
			}
		case *ast.AssignStmt:
			for _, l := range n.Lhs {
				s, ok := l.(*ast.SelectorExpr)
				if ok && (s.Sel.Name == "Stage" || s.Sel.Name == "Lane") && fn.Name.Name != "move" && fn.Name.Name != "addTask" {
					wrong = append(wrong, "writes "+s.Sel.Name)
				}
			}
		}
		return true
	})
	return wrong
}
