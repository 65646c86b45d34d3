package print

import (
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
)

// TestForeignText: what a title or an agent says is text on a page for a forge, whole and readable, and calls nobody.
func TestForeignText(t *testing.T) {
	t.Parallel()
	draw := goldmark.New(goldmark.WithExtensions(extension.GFM))
	for _, c := range []struct{ in, drawn string }{
		{"plain words, a_file.go, 3 < 4 & 5", "plain words, a_file.go, 3 &lt; 4 &amp; 5"},
		{"**bold** _it_ __b__ ~~no~~ `code`", "**bold** _it_ __b__ ~~no~~ 'code'"},
		{"![p](evil/p.png) [ok](evil)", "![p](evil/p.png) [ok](evil)"},
		{"<img src=x> </details>", "&lt;img src=x&gt; &lt;/details&gt;"},
		{`a \ b | c &#64;d`, `a \ b | c &amp;#\u200b64;d`},
		{"@team, fixes #12, closes GH-3, o/r#4", "@\u200bteam, fixes #\u200b12, closes GH-\u200b3, o/r#\u200b4"},
		{"https://evil.example/x www.evil.example", "https\u200b://evil.example/x www\u200b.evil.example"},
		{"closes forge.example/o/r/issues/7", "closes forge.example/o/r/issues/\u200b7"},
	} {
		var b strings.Builder
		if err := draw.Convert([]byte("x "+md(c.in)), &b); err != nil {
			t.Fatal(err)
		}
		want := "<p>x " + strings.ReplaceAll(c.drawn, `\u200b`, "\u200b") + "</p>\n"
		if got := b.String(); got != want {
			t.Errorf("%q is drawn as %q, want %q", c.in, got, want)
		}
	}
}
