package guard

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"descartes/internal/docs"
)

// diff is a change of a repository in a file: what is checked and how, the files before and after, and what is found.
//
//	check          a command a line
//	settings       "rule level", "allow name", "protect path", "except path" a line
//	base/PATH      a file that did not change
//	before/PATH    a file before it
//	after/PATH     a file after it; after+x: executable; after@: a link to what it holds
//	want           "level rule path:line" a line
type diff struct {
	about string
	in    Input
	want  []string
}

func readDiff(t *testing.T, file string) diff {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d := diff{about: strings.TrimSpace(string(a.Comment))}
	base, changes := map[string][]byte{}, map[string]*Change{}
	change := func(path string) *Change {
		if changes[path] == nil {
			changes[path] = &Change{Path: path}
		}
		return changes[path]
	}
	protected, excepted := map[string]bool{}, map[string]bool{}
	for _, f := range a.Files {
		where, path, _ := strings.Cut(f.Name, "/")
		lines := strings.FieldsFunc(string(f.Data), func(r rune) bool { return r == '\n' })
		switch where {
		case "check":
			d.in.Commands = lines
		case "want":
			d.want = lines
		case "settings":
			d.in.Levels = map[string]Level{}
			for _, l := range lines {
				switch name, value, _ := strings.Cut(l, " "); name {
				case "allow":
					d.in.Allow = append(d.in.Allow, value)
				case "protect":
					protected[value] = true
				case "except":
					excepted[value] = true
				default:
					d.in.Levels[name] = Level(value)
				}
			}
		case "base":
			base[path] = f.Data
		case "before":
			base[path] = f.Data
			change(path).Before = &Version{Data: f.Data}
		case "after":
			change(path).After = &Version{Data: f.Data}
		case "after+x":
			change(path).After = &Version{Kind: Executable, Data: f.Data}
		case "after@":
			change(path).After = &Version{Kind: Link, Data: []byte(strings.TrimSpace(string(f.Data)))}
		default:
			t.Fatalf("%s: no such part: %s", file, f.Name)
		}
	}
	d.in.Base = func(path string) ([]byte, bool) { b, ok := base[path]; return b, ok }
	d.in.There = func(dir string) bool {
		for p := range base {
			if strings.HasPrefix(p, dir+"/") {
				return true
			}
		}
		return false
	}
	d.in.Named = func(path string) (bool, bool) { return protected[path], excepted[path] }
	for _, c := range changes {
		d.in.Changes = append(d.in.Changes, *c)
	}
	return d
}

func found(list []Finding) (out []string) {
	for _, f := range list {
		s := fmt.Sprintf("%s %s %s", f.Level, f.Rule, f.Path)
		if f.Line > 0 {
			s += fmt.Sprintf(":%d", f.Line)
		}
		out = append(out, s)
	}
	slices.Sort(out)
	return out
}

func find(t *testing.T, in Input) []Finding {
	t.Helper()
	found, err := Find(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Each file of testdata is a diff with what has to be found in it, which for harmless ones is nothing.
func TestFind(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no testdata", err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		d := readDiff(t, file)
		got := find(t, d.in)
		for _, f := range got {
			seen[f.Rule] = true
		}
		slices.Sort(d.want)
		if list := found(got); !slices.Equal(list, d.want) {
			t.Errorf("%s: %s\ngot  %q\nwant %q\nin words %v", file, d.about, list, d.want, got)
		}
	}
	for _, r := range Rules() {
		if !seen[r.Name] && r.Name != "installed" && r.Name != "too-long" { // which is found on the disk, and below
			t.Errorf("no diff of testdata shows the rule %s", r.Name)
		}
	}
}

// A file of the checks that is too long to be looked at is told; what it held is not made up.
func TestTooLong(t *testing.T) {
	t.Parallel()
	long := &Version{Long: true}
	got := found(find(t, Input{Changes: []Change{{Path: "a_test.go", Before: long,
		After: &Version{Data: []byte("package a\n")}}, {Path: "tox.ini", Before: long, After: long},
		{Path: "a.go", Before: long, After: long}, {Path: "b_test.go", Before: long}}}))
	if want := []string{"fail test-deleted b_test.go", "fail too-long a_test.go",
		"fail too-long tox.ini"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// docs/guard.md has the table of rules.
func TestDocs(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("# Rules of the guard\n\nWhat an attempt does to the checks that judge it. `guard` in `descartes.yaml` and `allow` of a task name rules, groups or `all`.\n\n| rule | group | by default | finds |\n|---|---|---|---|\n")
	for _, r := range Rules() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.Name, r.Group, r.Level, r.Finds)
	}
	docs.Page(t, "docs/guard.md", b.String())
}

// Whatever stands in files, looking at them ends, and without a panic.
func FuzzFind(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		if n := len(a.Files); n > 2 {
			f.Add(a.Files[n-3].Name, a.Files[n-3].Data, a.Files[n-2].Data)
		}
	}
	f.Fuzz(func(t *testing.T, path string, before, after []byte) {
		in := Input{Commands: []string{"make test; sh a.sh", "npm test", string(after)},
			Changes: []Change{{Path: path, Before: &Version{Data: before}, After: &Version{Data: after}}}}
		in.Base = func(string) ([]byte, bool) { return before, true }
		for _, x := range find(t, in) {
			if x.Level == "" || x.Text == "" || strings.ContainsAny(x.Text, "\n\r") {
				t.Errorf("%+v", x)
			}
		}
	})
}
