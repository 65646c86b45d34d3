package main

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/pflag"

	"descartes/config"
)

// typedCmd is "typed N SOURCE PATTERN": what the first group of the pattern finds in stdout, stderr or a file is typed
// as it stands into a shell, here, and must exit with N. What follows sees its output.
func typedCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: typed N stdout|stderr|FILE PATTERN")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	pattern, err := regexp.Compile("(?m)" + args[2])
	ts.Check(err)
	found := pattern.FindStringSubmatch(ts.ReadFile(args[1]))
	if len(found) < 2 {
		ts.Fatalf("%s has nothing like %q with a group", args[1], args[2])
	}
	ts.Logf("[typed] %s", found[1])
	got := 0
	if err := ts.Exec("sh", "-c", found[1]); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("%s: exit code %d, want %d", found[1], got, want)
	}
}

// commandIn is a command of ours in a text, with the flags that follow it.
var commandIn = regexp.MustCompile(`descartes((?: [a-z][a-z-]*)+)((?: +(?:--?[a-z][a-z-]*|[^- ;,()]\S*|%\S*|<\S*))*)`)

// TestCommandsInMessages reads every text that the program may print and finds the commands that it names. Each has to
// be a command, with flags that it has, and some script has to type it.
func TestCommandsInMessages(t *testing.T) {
	typed := typedInScripts(t)
	for place, text := range texts(t) {
		for _, m := range commandIn.FindAllStringSubmatch(text, -1) {
			cmd, _, err := newRootCmd().Find(strings.Fields(m[1]))
			if err != nil || cmd.Parent() == nil || cmd.Name() == "loop" || slices.Contains(sentences(), text) {
				continue // a sentence: "descartes was stopped"
			}
			cmd.InitDefaultHelpFlag()
			for c := cmd; c != nil; c = c.Parent() {
				if c.Hidden {
					t.Errorf("%s: no help shows %q: %q", place, cmd.CommandPath(), text)
				}
			}
			path := strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), "descartes "), "loop ")
			var flags []string
			for _, f := range regexp.MustCompile(`--[a-z][a-z-]*`).FindAllString(m[2], -1) {
				flags = append(flags, f)
				if cmd.Flag(strings.TrimPrefix(f, "--")) == nil {
					t.Errorf("%s: descartes %s has no flag %s: %q", place, path, f, text)
				}
			}
			if !slices.ContainsFunc(typed, func(line string) bool {
				if !strings.Contains(line, "descartes "+path) {
					return false
				}
				for _, f := range flags {
					if !strings.Contains(line, f) {
						return false
					}
				}
				return true
			}) {
				t.Errorf("%s: no script types what stands here: descartes %s %s: %q", place, path,
					strings.Join(flags, " "), text)
			}
		}
	}
}

// TestFlagsInHints: what a hint names without the command that it belongs to is a flag or a setting of ours, and some
// script gives it.
func TestFlagsInHints(t *testing.T) {
	t.Parallel()
	known, given := map[string]bool{}, ""
	for _, c := range commandTree() {
		c.Flags().VisitAll(func(f *pflag.Flag) { known["--"+f.Name] = true })
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "testdata", "script", "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		given += string(b)
	}
	found, others := 0, regexp.MustCompile(
		`^(git|go|make|mkdir|specify|ssh-keygen|claude|npm|descartes-fleet|cosign)\b`)
	for place, hint := range hints(t) {
		if others.MatchString(hint) {
			continue
		}
		for _, m := range regexp.MustCompile(`(--[a-z][a-z-]*)(?:[ =]([a-z_.]+)=)?`).FindAllStringSubmatch(hint, -1) {
			found++
			if m[1] == "--set" && config.Find(m[2]) == nil || !known[m[1]] {
				t.Errorf("%s: no command takes %s: %q", place, m[0], hint)
			}
			if !strings.Contains(given, strings.TrimSuffix(m[0], "=")) {
				t.Errorf("%s: no script gives %s: %q", place, m[0], hint)
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d flags are found in hints", found)
	}
}

// hints are the literals of the program's hints, by place.
func hints(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, dir := range []string{"cmd/descartes", "launch", "config", "loop", "tasks"} {
		files, err := filepath.Glob(filepath.Join("..", "..", dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") || strings.Contains(path, "fleet") { // another program
				continue
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			take := func(n ast.Node) {
				ast.Inspect(n, func(n ast.Node) bool {
					if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
						if text, err := strconv.Unquote(lit.Value); err == nil {
							out[strings.TrimPrefix(set.Position(lit.Pos()).String(), "../../")] = text
						}
					}
					return true
				})
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					name := ""
					switch f := n.Fun.(type) {
					case *ast.Ident:
						name = f.Name
					case *ast.SelectorExpr:
						name = f.Sel.Name
					}
					if (name == "badInput" || name == "Wrong") && len(n.Args) > 0 {
						take(n.Args[0])
					}
				case *ast.KeyValueExpr:
					if key, ok := n.Key.(*ast.Ident); ok && strings.EqualFold(key.Name, "hint") {
						take(n.Value)
					}
				case *ast.FuncDecl:
					if n.Name.Name == "Next" {
						take(n.Body)
					}
				}
				return true
			})
		}
	}
	return out
}

// sentences name a command, and are not to be typed.
func sentences() []string {
	return []string{
		"it speaks version %s of the Agent Client Protocol, and descartes version %d: ",
		"open the address that descartes serve has printed: it has the key to this page",
		"the demo went wrong: descartes spec ended with exit status %d",
		"start another with descartes start",
		"\ndescartes COMMAND --help says more; descartes exit-codes, how a command ends.\n",
		// of a terminal that went away: init.txtar runs it
		"descartes init --yes asks nothing",
		// the words that such a loop's users look for; its hint has the command
		"Implementation plan not found. Run 'descartes plan' first.",
	}
}

// typedInScripts are the lines of scripts that type what was printed.
func typedInScripts(t *testing.T) (lines []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "testdata", "script", "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			if strings.HasPrefix(line, "typed ") { // loop X is X
				lines = append(lines, strings.ReplaceAll(line, "descartes loop ", "descartes "))
			}
		}
	}
	return lines
}

// texts are the string literals of the program's code by place, but for the help of commands, which shows examples.
func texts(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (slices.Contains([]string{"testdata", ".git", "demo"}, d.Name())) {
			return filepath.SkipDir
		}
		// another program
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || d.Name() == "fleet_temporal.go" {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if kv, ok := n.(*ast.KeyValueExpr); ok {
				if key, ok := kv.Key.(*ast.Ident); ok && (key.Name == "Long" || key.Name == "Short") {
					return false
				}
			}
			if field, ok := n.(*ast.Field); ok && field.Tag != nil {
				return false
			}
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil && strings.Contains(text, "descartes ") {
					out[strings.TrimPrefix(set.Position(lit.Pos()).String(), "../../")] = text
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
