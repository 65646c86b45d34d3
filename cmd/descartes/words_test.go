package main

import (
	"bufio"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var listStrings = flag.Bool("strings", false, "TestWords prints every text that a user may read, with its place")

// words are what we do not say, and what we say instead. A pattern matches whole words in a line, whatever the case.
var words = []struct {
	pattern string
	instead string
	text    bool // only in what users read; comments may use it
}{
	{`(?:is|are|was|were|be|been) told|and told|told (?:of|apart)`, `"gets", "sees", "learns", "is reported"`, false},
	{`(?:held|holds|made) good|mend(?:s|ed)?`, `"valid", "true", "fixed"`, false},
	{`(?:gone|goes|go|going|went) on with`, `"resume", "continue"`, false},
	{`errors? of our own`, `"an internal error"`, false},
	{`(?:is|are|was|were) not there`, `"does not exist", "is missing"`, false},
	{`whereof|whereby|thereof|thereby|therein|wherein|thereto|therefrom`, `"of which", "so", "in it"`, false},
	{`(?:can|cannot|could|is|are) (?:not )?(?:be|to be) had`, `"is not available"`, false},
	{`(?:came|come|comes) to nothing`, `"has no result", "failed"`, false},
	{`no commit (?:holds|can hold|will hold)`, `"is in no commit", "no commit contains"`, true},
	{`(?:lies|lie|lay) (?:in|under|beside|there)`, `"is in", "is under"`, true},
	{`(?:stands|stand|stood) (?:in|there|under|beside)`, `"is in", "says"`, true},
	{`as (?:it|they) (?:stands?|stood)`, `"as it is", "as it was"`, true},
	{`(?:it|that|this|which|and) (?:is|are) said`, `"reported"`, true},
	{`begun`, `"started"`, true},
	{`is none of`, `"is not one of"`, true},
	{`[qsv] is no (?:tag|task|path|pattern|rule|part|time|size|number|folder|file)`, `"is not a ..."`, true},
}

// TestWords reads every text of the module as a user or a colleague meets it: string literals of several words, struct tags, the pages and
// prompts that the program carries, and comments. `go test ./cmd/descartes -run TestWords -strings` prints the texts, to be read in full.
func TestWords(t *testing.T) {
	texts, comments := moduleTexts(t, filepath.Join("..", ".."))
	if *listStrings {
		for i, s := range texts {
			if i == 0 || s.file != texts[i-1].file {
				fmt.Println(s.file)
			}
			fmt.Printf("%d\t%s\n", s.line, s.text)
		}
	}
	for _, complaint := range slices.Concat(oddWords(texts, false), oddWords(comments, true)) {
		t.Error(complaint)
	}
}

// TestOddWords shows that TestWords can fail, and at what.
func TestOddWords(t *testing.T) {
	const src = `package p

import "errors"

// Err is told of.
func Err(task string) error {
	return errors.New("the loop has gone " +
		"on with task " + task + ", and nobody" + f("it is told"))
}

var pattern = regexp.MustCompile("gone on with")
`
	texts, comments, err := goTexts("p.go", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	got := slices.Concat(oddWords(texts, false), oddWords(comments, true))
	want := []string{
		`p.go:8: "is told": say "gets", "sees", "learns", "is reported"`,
		`p.go:7: "gone on with": say "resume", "continue"`,
		`p.go:5: "is told": say "gets", "sees", "learns", "is reported"`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// saying is one text and where it is.
type saying struct {
	file string
	line int
	text string
}

func oddWords(all []saying, comments bool) []string {
	var found []string
	for _, w := range words {
		if w.text && comments {
			continue
		}
		odd := regexp.MustCompile(`(?i)\b(?:` + w.pattern + `)\b`)
		for _, s := range all {
			if match := odd.FindString(s.text); match != "" {
				found = append(found, fmt.Sprintf("%s:%d: %q: say %s", s.file, s.line, match, w.instead))
			}
		}
	}
	return found
}

// moduleTexts returns the texts and the comments of all Go files but tests, and the text files that go:embed puts into the program.
func moduleTexts(t *testing.T, root string) (texts, comments []saying) {
	t.Helper()
	embedded := []string{"cmd/descartes/init", "cmd/descartes/demo", "loop/mode/prompts", "internal/web/assets"}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if d.Name() == "testdata" || rel != "." && strings.HasPrefix(d.Name(), ".") {
				return filepath.SkipDir
			}
			return nil
		}
		carried := slices.ContainsFunc(embedded, func(dir string) bool { return strings.HasPrefix(rel, dir+"/") })
		switch {
		case carried && !slices.Contains([]string{".go", ".js", ".svg", ".png", ".ico"}, filepath.Ext(rel)):
			b, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			texts = append(texts, lines(rel, 1, string(b))...)
		case strings.HasSuffix(rel, ".go") && !strings.HasSuffix(rel, "_test.go"):
			src, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			s, c, err := goTexts(rel, src)
			if err != nil {
				return err
			}
			texts, comments = append(texts, s...), append(comments, c...)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(texts) < 1000 || len(comments) < 1000 {
		t.Fatalf("only %d texts and %d comments: the reader of sources is broken", len(texts), len(comments))
	}
	return texts, comments
}

// goTexts returns the literals of a Go file that have several words, and its comments, line by line.
func goTexts(name string, src []byte) (texts, comments []saying, err error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, src, parser.ParseComments)
	if err != nil {
		return nil, nil, err
	}
	var visit func(ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.CallExpr:
			// A regular expression is no text, though it has words.
			called, ok := n.Fun.(*ast.SelectorExpr)
			return !ok || called.Sel.Name != "MustCompile" && fmt.Sprint(called.X) != "lazyregexp"
		case *ast.BinaryExpr, *ast.BasicLit:
			text, ok := sum(n.(ast.Expr), func(part ast.Expr) { ast.Inspect(part, visit) })
			if ok && severalWords.MatchString(text) {
				texts = append(texts, lines(name, set.Position(n.Pos()).Line, text)...)
			}
			return !ok
		}
		return true
	}
	ast.Inspect(f, visit)
	for _, group := range f.Comments {
		for _, c := range group.List {
			comments = append(comments, lines(name, set.Position(c.Pos()).Line, c.Text)...)
		}
	}
	return texts, comments, nil
}

// sum is the text of a literal or of literals added up, {} for what is computed, which other sees.
func sum(e ast.Expr, other func(ast.Expr)) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return "", false
		}
		left, isLeft := sum(e.X, other)
		right, isRight := sum(e.Y, other)
		switch {
		case isLeft && isRight:
			return left + right, true
		case isLeft:
			other(e.Y)
			return left + "{}", true
		case isRight:
			other(e.X)
			return "{}" + right, true
		}
	}
	return "", false
}

var severalWords = regexp.MustCompile(`[A-Za-z]{2,}\W* \W*[A-Za-z]{2,}`)

func lines(file string, line int, text string) []saying {
	var all []saying
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); line++ {
		if strings.TrimSpace(s.Text()) != "" {
			all = append(all, saying{file, line, s.Text()})
		}
	}
	return all
}
