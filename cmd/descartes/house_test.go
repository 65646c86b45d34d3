package main

import (
	"fmt"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dominikbraun/graph"

	"descartes/internal/docs"
)

// house draws the table of imports, without the arrows that follow from others and without what only helps, and lists
// what each package owns, in the words of its own comment.
func house(t *testing.T) string {
	t.Helper()
	table := arrows()
	packages := slices.Sorted(maps.Keys(table))
	helps := func(pkg string) bool {
		return strings.HasPrefix(pkg, "internal/") && !slices.ContainsFunc(table[pkg], func(to string) bool {
			return !strings.HasPrefix(to, "internal/") && to != "agent/process"
		})
	}
	drawn := graph.New(graph.StringHash, graph.Directed())
	for _, pkg := range packages {
		if !helps(pkg) {
			if err := drawn.AddVertex(pkg); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, pkg := range packages {
		for _, to := range table[pkg] {
			if !helps(pkg) && !helps(to) {
				if err := drawn.AddEdge(pkg, to); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	least, err := graph.TransitiveReduction(drawn)
	if err != nil {
		t.Fatal(err)
	}
	edges, err := least.Edges()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, e := range edges {
		lines = append(lines, fmt.Sprintf("    %s --> %s\n", e.Source, e.Target))
	}
	slices.Sort(lines)
	var b strings.Builder
	fmt.Fprintf(&b, "```mermaid\nflowchart TD\n%s```\n\n| package | what it owns or does |\n|---|---|\n",
		strings.Join(lines, ""))
	for _, pkg := range packages {
		fmt.Fprintf(&b, "| `%s` | %s |\n", pkg, owns(t, pkg))
	}
	return b.String()
}

// owns is the first sentence of a package's comment, without its beginning.
func owns(t *testing.T, pkg string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(docs.Root(t), filepath.FromSlash(pkg), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if f.Doc == nil || strings.HasSuffix(file, "_test.go") {
			continue
		}
		said := (&doc.Package{}).Synopsis(f.Doc.Text())
		said = regexp.MustCompile(`^(?:Package|Command) \S+ (?:owns |is )?`).ReplaceAllString(said, "")
		return strings.ReplaceAll(strings.TrimSuffix(said, "."), "|", "\\|")
	}
	t.Fatalf("package %s has no comment", pkg)
	return ""
}

// TestArchitectures: nothing here depends on the processor, so that what builds for a system on one builds on all.
func TestArchitectures(t *testing.T) {
	t.Parallel()
	var known []string
	list, err := exec.Command("go", "tool", "dist", "list").Output()
	if err != nil {
		t.Fatal(err)
	}
	for pair := range strings.FieldsSeq(string(list)) {
		_, arch, _ := strings.Cut(pair, "/")
		known = append(known, arch)
	}
	tagged := regexp.MustCompile(`(?m)^//go:build .*\b(?:` + strings.Join(known, "|") + `)\b`)
	named := regexp.MustCompile(`_(?:` + strings.Join(known, "|") + `)(?:_test)?\.go$|\.s$`)
	err = filepath.WalkDir(docs.Root(t), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !named.MatchString(path) && !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		if named.MatchString(path) || tagged.Match(text) {
			t.Errorf("%s is for some processors only: have make check vet darwin/amd64 too", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
