// Package print owns the account of a run as text: a line for each event, status, waves, why, the summary at the end,
// Markdown, JUnit. It prints nothing itself and decides nothing. Pages have their layout in a template beside it.
package print

import (
	"embed"
	"fmt"
	"strings"
	"sync"
	"text/template"
	"time"

	"descartes/internal/terminal"
	"descartes/loop/journal"
	"descartes/view"
)

// width is how wide a line is at most, but for names.
const width = 80

// text grows line by line.
type text struct{ strings.Builder }

func (t *text) say(format string, args ...any) { fmt.Fprintf(t, format+"\n", args...) }

// facts are lines with a format for name and text.
func (t *text) facts(format string, list []view.Fact) {
	for _, f := range list {
		t.say(format, f.Name, terminal.Clean(f.Text))
	}
}

//go:embed *.tmpl
var files embed.FS

// layouts are the templates. What they get is clean where they say so.
var layouts = sync.OnceValue(func() *template.Template {
	hang := func(indent, further int, words ...any) string {
		text := strings.ReplaceAll("\n"+terminal.CleanLines(strings.TrimSpace(join(words...))), "\n",
			"\n"+strings.Repeat(" ", indent))
		return strings.Join(terminal.Hang(text[1:], width, further), "\n")
	}
	return template.Must(template.New("").Funcs(template.FuncMap{
		"clean": func(words ...any) string { return terminal.Clean(join(words...)) },
		"md":    func(words ...any) string { return md(join(words...)) },
		"hang":  hang, "count": terminal.Count, "short": view.Short, "seconds": seconds, "took": terminal.Duration,
		"upper": upper, "folded": folded,
		"dollars": func(c journal.Cost) string { return c.Dollars() },
	}).ParseFS(files, "*.tmpl"))
})

// draw fills a layout.
func draw(name string, data any) string {
	var b strings.Builder
	if err := layouts().ExecuteTemplate(&b, name, data); err != nil { // our own layouts, with our own values
		panic(err)
	}
	return b.String()
}

func join(words ...any) string {
	var b strings.Builder
	for _, w := range words {
		fmt.Fprint(&b, w)
	}
	return b.String()
}

func upper(s string) string { return strings.ToUpper(s[:min(1, len(s))]) + s[min(1, len(s)):] }

// seconds are a duration in words.
func seconds(n float64) string {
	return terminal.Duration(time.Duration(n * float64(time.Second)))
}
