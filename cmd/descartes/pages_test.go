package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"unicode"

	"github.com/spf13/pflag"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
	"gopkg.in/yaml.v3"
	"mvdan.cc/sh/v3/syntax"

	"descartes/config"
	"descartes/internal/docs"
	"descartes/internal/terminal"
)

// pages are what people read of the repository, by their paths from its top, and parsed.
func pages(t *testing.T) map[string]*page {
	t.Helper()
	root := docs.Root(t)
	top, err := filepath.Glob(filepath.Join(root, "*.md"))
	below, berr := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err := errors.Join(err, berr); err != nil {
		t.Fatal(err)
	}
	out := map[string]*page{}
	for _, file := range append(top, below...) {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.ToSlash(name)] = readPage(source)
	}
	return out
}

// page is a file of Markdown.
type page struct {
	anchors []string
	links   []string
	blocks  []block
}

// block is code on a page: fenced with its language, indented, or within a line.
type block struct {
	language, text string
	shown          bool // indented, as what is to be typed is
}

func readPage(source []byte) *page {
	p := &page{}
	code := func(n ast.Node) (s string) {
		for i := range n.Lines().Len() {
			line := n.Lines().At(i)
			s += string(line.Value(source))
		}
		return s
	}
	attribute := regexp.MustCompile(`\b(href|src|srcset|id|name)="([^"]*)"`)
	raw := func(html string) {
		for _, m := range attribute.FindAllStringSubmatch(html, -1) {
			if m[1] == "id" || m[1] == "name" {
				p.anchors = append(p.anchors, m[2])
			} else {
				p.links = append(p.links, m[2])
			}
		}
	}
	tree := goldmark.DefaultParser().Parse(text.NewReader(source))
	_ = ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			slug := anchorOf(plain(n, source))
			for i := 1; slices.Contains(p.anchors, slug); i++ {
				slug = fmt.Sprintf("%s-%d", anchorOf(plain(n, source)), i)
			}
			p.anchors = append(p.anchors, slug)
		case *ast.Link:
			p.links = append(p.links, string(n.Destination))
		case *ast.Image:
			p.links = append(p.links, string(n.Destination))
		case *ast.HTMLBlock:
			raw(code(n))
		case *ast.RawHTML:
			for i := range n.Segments.Len() {
				segment := n.Segments.At(i)
				raw(string(segment.Value(source)))
			}
		case *ast.FencedCodeBlock:
			p.blocks = append(p.blocks, block{language: string(n.Language(source)), text: code(n)})
		case *ast.CodeBlock:
			p.blocks = append(p.blocks, block{text: code(n), shown: true})
		case *ast.CodeSpan:
			p.blocks = append(p.blocks, block{text: plain(n, source)})
		}
		return ast.WalkContinue, nil
	})
	return p
}

// plain is the text of a node and of all below it.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(n.Value(source))
				if n.SoftLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.String:
			if entering {
				b.Write(n.Value)
			}
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// anchorOf is what GitHub makes of a heading for links to it.
func anchorOf(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// TestLinks follows every link from a page to another place of the repository, and finds every page of docs/ in its
// table of contents.
func TestLinks(t *testing.T) {
	t.Parallel()
	all := pages(t)
	for name, p := range all {
		for _, link := range p.links {
			u, err := url.Parse(link)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if u.Scheme != "" {
				continue
			}
			to := name
			if u.Path != "" {
				to = path.Join(path.Dir(name), u.Path)
			}
			if _, err := os.Stat(filepath.Join(docs.Root(t), filepath.FromSlash(to))); err != nil {
				t.Errorf("%s links to %s: %v", name, link, err)
			} else if u.Fragment != "" && all[to] != nil && !slices.Contains(all[to].anchors, u.Fragment) {
				t.Errorf("%s links to %s, where there is no such heading", name, link)
			}
		}
	}
	for name := range all {
		if dir, file := path.Split(name); dir == "docs/" && file != "README.md" &&
			!slices.Contains(all["docs/README.md"].links, file) {
			t.Errorf("docs/README.md does not list %s", file)
		}
	}
}

// TestVariables finds every environment variable that the program reads by name, or gives to agents and checks, on the
// page about them.
func TestVariables(t *testing.T) {
	t.Parallel()
	root, found := docs.Root(t), 0
	page, err := os.ReadFile(filepath.Join(root, "docs", "reference.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`os\.(?:Getenv|LookupEnv)\("(\w+)"\)|"((?:DESCARTES|SCUD)_\w+)="`)
	for pkg := range arrows() {
		if pkg == "internal/crash" || strings.Contains(pkg, "fleet") {
			continue // which only tests use, and another program
		}
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pkg), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, m := range named.FindAllSubmatch(source, -1) {
				found++
				if name := append(m[1], m[2]...); !bytes.Contains(page, []byte("`"+string(name)+"`")) &&
					!flagVariable(string(name)) {
					t.Errorf("%s: docs/reference.md does not have %s", file, name)
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d variables are found", found)
	}
}

// flagVariable reports whether a variable is that of a flag.
func flagVariable(name string) bool {
	return slices.ContainsFunc(config.All(), func(s *config.Setting) bool { return s.Variable() == name })
}

// TestComparison: each row of the table says where it comes from, in the same order.
func TestComparison(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile(filepath.Join(docs.Root(t), "docs", "comparison.md"))
	if err != nil {
		t.Fatal(err)
	}
	claims, sources, _ := strings.Cut(string(source), "\n## Sources\n")
	row := regexp.MustCompile(`(?m)^\|(.*)\|$`)
	said, from := row.FindAllStringSubmatch(claims, -1), row.FindAllStringSubmatch(sources, -1)
	if len(said) != len(from) || len(said) < 10 {
		t.Fatalf("%d rows, %d with sources", len(said), len(from))
	}
	for i := 2; i < len(said); i++ { // below the heads
		what, where := strings.Split(said[i][1], "|"), strings.Split(from[i][1], "|")
		for k := range what {
			if claim := strings.TrimSpace(what[k]); k > 0 && claim != "-" && !strings.Contains(where[k], "[") ||
				what[0] != where[0] {
				t.Errorf("%s: %q has no source in %q", what[0], claim, where[k])
			}
		}
	}
}

// TestReadme keeps README so short that it is read.
func TestReadme(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile(filepath.Join(docs.Root(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(source, []byte("\n")); n > 200 {
		t.Errorf("README.md has %d lines, at most 200 are read: move some of them to docs", n)
	}
}

// night is what a block that looks at a run has before it: one whose task 6 is blocked.
const night = "touch ~/night; descartes run feature-x >../night.out || test $? = 3; rm ~/night"

// lasting are lines that do not end by themselves, and foreign those that need what no test has; other tests see to
// most of them.
var (
	lasting = regexp.MustCompile(`^descartes serve`)
	foreign = regexp.MustCompile(
		`^(make (demo|test|install)|cd |descartes (demo|init|run -j 4$|run --dry-run))|signers$|refs/notes|git config --global`)
)

// ends are lines that end with another code than 0.
var ends = map[string]int{
	"descartes resume release-1":                             exitLimit,
	"descartes tasks plan":                                   exitWaits, // nobody says yes
	"descartes start --backend claude --prompt-file SPEC.md": exitWaits,
}

// TestLines types each line that the pages show indented, block by block, into a shell of a project that has what the
// pages speak of: lists, a plan, documents, a remote, and clients that are scripts.
func TestLines(t *testing.T) {
	t.Parallel()
	stand, err := filepath.Abs(filepath.Join(docs.Root(t), "testdata", "pages"))
	if err != nil {
		t.Fatal(err)
	}
	var typed atomic.Int32
	t.Run("pages", func(t *testing.T) {
		for name, p := range pages(t) {
			if name == "docs/fleet.md" || name == "CONTRIBUTING.md" || !strings.HasPrefix(name, "docs/") &&
				name != "README.md" {
				continue // machines; the source
			}
			for i, b := range p.blocks {
				if !b.shown || !strings.Contains(b.text, "descartes ") {
					continue
				}
				t.Run(fmt.Sprintf("%s/%d", path.Base(name), i), func(t *testing.T) {
					t.Parallel()
					typed.Add(int32(typeBlock(t, stand, b.text)))
				})
			}
		}
	})
	if n := typed.Load(); n < 60 && !t.Failed() && flag.Lookup("test.run").Value.String() == "" {
		t.Errorf("only %d lines are typed", n)
	}
}

// typeBlock types a block's lines, and returns how many these are.
func typeBlock(t *testing.T, stand, text string) (n int) {
	dir := t.TempDir()
	var script strings.Builder
	fmt.Fprintf(&script, "set -e\nexec 2>&1 </dev/null\ncp -r %s/. .\nfor c in codex gemini my-agent; do ln -s claude bin/$c; done\n",
		terminal.Quote(stand))
	script.WriteString("git init -q --bare hub; cd project; git init -q -b main; git remote add origin ../hub\n")
	if strings.Contains(text, "feature-y") {
		script.WriteString("sed s/feature-x/feature-y/ .scud/tasks/feature-x.json >.scud/tasks/feature-y.json\n")
	}
	if strings.Contains(text, "descartes trust") {
		script.WriteString("echo 'notify: [\"true\"]' >descartes.yaml\n")
	}
	script.WriteString("git add -A; git commit -qm start; git push -qu origin main\n")
	lines := strings.Split(strings.ReplaceAll(strings.TrimSpace(text), "\\\n", ""), "\n")
	looks := regexp.MustCompile(
		`^(descartes (status|watch|logs|why|resume|recheck|rewind|cleanup|report)|git (diff|notes|fetch))`)
	switch {
	case strings.Contains(text, "release-1"):
		script.WriteString("descartes start --backend claude --name release-1 --prompt 'Go on.' --max-iterations 1 --completion-promise NEVER || test $? = 6\n")
	case looks.MatchString(lines[0]):
		script.WriteString(night + "\n")
	}
	script.WriteString("set +e\n")
	words := strings.NewReplacer("COMMIT", "$(git notes --ref descartes list | head -1 | cut -d' ' -f2)", "REF",
		"$(git for-each-ref --format='%(refname)' 'refs/descartes/*/tasks/6/1')",
		"FILE", "bad.txt")
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if line == "" || foreign.MatchString(line) {
			continue
		}
		want := 0
		for begins, code := range ends {
			if strings.HasPrefix(line, begins) {
				want = code
			}
		}
		if lasting.MatchString(line) {
			line, want = "timeout 2 "+line, 124
		}
		n++
		fmt.Fprintf(&script, "echo %s\n%s\ngot=$?; test $got = %d || { echo \"it ends with $got, not %d\"; exit 99; }\n",
			terminal.Quote("$ "+line), words.Replace(line), want, want)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script.String())
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+filepath.Join(dir, "state"), "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=You", "GIT_AUTHOR_EMAIL=you@example.org", "GIT_COMMITTER_NAME=You",
		"GIT_COMMITTER_EMAIL=you@example.org", "DESCARTES_SANDBOX=off", "IS_SANDBOX=1", "BROWSER=true",
		"PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return n
}

// TestTyped parses every command line of the pages and of the action for GitHub as the program would: the commands,
// their flags, and how many arguments they take.
func TestTyped(t *testing.T) {
	t.Parallel()
	all := pages(t)
	action, err := os.ReadFile(filepath.Join(docs.Root(t), "action.yml"))
	if err != nil {
		t.Fatal(err)
	}
	all["action.yml"] = &page{blocks: []block{{language: "yaml", text: string(action)}}}
	others := []string{"docs/migrating.md", "docs/fleet.md"} // which have those of other programs
	flags, flagName := map[string]bool{"--scud-tag": true}, regexp.MustCompile(`^(--[a-z][a-z-]+)`)
	for _, c := range commandTree() {
		c.Flags().VisitAll(func(f *pflag.Flag) { flags["--"+f.Name] = true })
	}
	lines := map[string]int{}
	for name, p := range all {
		if name == "CHANGELOG.md" || name == "docs/commands.md" {
			continue // of other days, and made from the commands themselves
		}
		for _, b := range p.blocks {
			if m := flagName.FindStringSubmatch(b.text); m != nil && !flags[m[1]] && !slices.Contains(others, name) {
				t.Errorf("%s: no command has the flag %s", name, m[1])
			}
			for _, args := range b.calls() {
				lines[name]++
				if err := parses(args); err != nil {
					t.Errorf("%s: descartes %s: %v", name, strings.Join(args, " "), err)
				}
			}
		}
	}
	if lines["README.md"] < 3 || lines["docs/ci.md"] < 3 || lines["action.yml"] != 3 || lines["docs/running.md"] < 10 {
		t.Errorf("too few command lines are found: %v", lines)
	}
}

// calls are the arguments of each call of descartes in a block.
func (b block) calls() (out [][]string) {
	switch b.language {
	case "yaml":
		var doc yaml.Node
		if yaml.Unmarshal([]byte(b.text), &doc) != nil {
			return nil
		}
		var each func(n *yaml.Node)
		each = func(n *yaml.Node) {
			if n.Kind == yaml.ScalarNode && strings.Contains(n.Value, "descartes ") {
				out = append(out, callsIn(n.Value)...)
			}
			for _, below := range n.Content {
				each(below)
			}
		}
		each(&doc)
		return out
	case "console":
		for line := range strings.Lines(b.text) {
			if typed, ok := strings.CutPrefix(line, "$ "); ok {
				out = append(out, callsIn(typed)...)
			}
		}
		return out
	case "", "sh", "bash":
		if calls := callsIn(b.text); calls != nil {
			return calls
		}
		for line := range strings.Lines(b.text) {
			out = append(out, callsIn(line)...)
		}
	}
	return out
}

// callsIn are those of a shell's text; none where that is no such text.
func callsIn(script string) (out [][]string) {
	f, err := syntax.NewParser().Parse(strings.NewReader(script), "")
	if err != nil {
		return nil
	}
	printer := syntax.NewPrinter()
	syntax.Walk(f, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 || !slices.Contains([]string{"descartes", "./descartes"}, call.Args[0].Lit()) {
			return true
		}
		args := []string{}
		for _, w := range call.Args[1:] {
			var b strings.Builder
			_ = printer.Print(&b, w)
			args = append(args, strings.Trim(b.String(), `"'`))
		}
		out = append(out, args)
		return true
	})
	return out
}

// parses reports what the program would say against a command line, placeholders aside.
func parses(args []string) error {
	root := newRootCmd()
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	cmd.InitDefaultHelpFlag()
	var unknown *pflag.NotExistError
	if err := cmd.ParseFlags(rest); errors.As(err, &unknown) {
		return err
	} else if err != nil {
		return nil // a placeholder stands for the value
	}
	words := slices.DeleteFunc(cmd.Flags().Args(), func(w string) bool { return w == "..." })
	if cmd == root && slices.Equal(words, []string{"COMMAND"}) {
		return nil // any of them
	}
	if cmd.HasAvailableSubCommands() && len(words) > 0 {
		return fmt.Errorf("there is no command %q", words[0])
	}
	if len(words) > 0 { // without any it is the name of the command
		return cmd.ValidateArgs(words)
	}
	return nil
}
