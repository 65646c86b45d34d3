package specbuild

import (
	"embed"
	"slices"
	"strings"
	"sync"
	"text/template"
	"unicode/utf8"

	"descartes/internal/lazyregexp"
	"descartes/tasks"
)

//go:embed prompts
var prompts embed.FS

// functions make what others wrote fit for the texts.
var functions = template.FuncMap{
	"clean": clean, "line": oneLine, "indent": indent, "fence": fence, "enclose": enclose, "quote": quote,
	"under": under, "head": head, "tail": tail,
	"lastWords": func(s string) string { return tail(clean(s), maxWords) },
	"join":      strings.Join,
	"more":      func(list []string, shown int) int { return max(0, len(list)-shown) },
	"tick":      func(s string) string { return strings.ReplaceAll(s, "`", "'") },
	"name": func(of any) string {
		if d, ok := of.(Dependency); ok {
			return taskName(tasks.Task{ID: d.ID, Title: d.Title})
		}
		return taskName(of.(tasks.Task))
	},
	"about": func(of any) string {
		if d, ok := of.(Dependency); ok {
			return d.Delivered
		}
		return of.(tasks.Task).Description
	},
	"ran": func(f *Failure, name string) bool {
		return slices.ContainsFunc(f.Checks, func(c Checked) bool { return c.Name == name })
	},
}

// templates are the texts, read when the first is wanted.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(functions).ParseFS(prompts, "prompts/*.tmpl"))
})

// maxWords is how much of an agent's last words is repeated; their end says most.
const maxWords = 4 << 10

// render is the text of a template.
func render(name string, data any) string {
	var b strings.Builder
	if err := templates().ExecuteTemplate(&b, name, data); err != nil {
		panic(err) // the templates are ours, and any data is fit for them
	}
	return b.String()
}

// prompt is a whole text of its own.
func prompt(name string, data any) string { return strings.TrimRight(render(name, data), "\n") + "\n" }

// taskName is "Task 3: Title".
func taskName(t tasks.Task) string {
	if title := oneLine(t.Title); title != "" {
		return "Task " + oneLine(t.ID) + ": " + title
	}
	return "Task " + oneLine(t.ID)
}

// oneLine is text fit for a heading.
func oneLine(s string) string { return strings.Join(strings.Fields(clean(s)), " ") }

// clean makes foreign text fit for a prompt: valid UTF-8, LF line ends, no terminal colours, no control
// characters (a NUL could not even be passed as an argument), no blank lines around it.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, sequence.ReplaceAllString(lineEnds(strings.ToValidUTF8(s, "\ufffd")), ""))
	return strings.Trim(strings.TrimRight(s, " \t\n"), "\n")
}

// sequence is a terminal's: colours, titles, other escapes.
var sequence = lazyregexp.New("\x1b(?:\\[[0-?]*[ -/]*[@-~]?|\\][^\x07\x1b\n]*(?:\x07|\x1b\\\\?)|\\]|[ -~])?")

// lineEnds turns CRLF and lone CR into LF, so that the line count stays what an editor shows.
func lineEnds(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

// tail is the end of s, from the start of a line where that costs little.
func tail(s string, size int) string {
	if len(s) <= size {
		return s
	}
	s = s[len(s)-size:]
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	if line := strings.IndexByte(s, '\n'); line >= 0 && line < size/4 {
		s = s[line+1:]
	}
	return "[...]\n" + s
}

// head is the beginning of s, to the end of a line where that costs little.
func head(s string, size int) string {
	if len(s) <= size {
		return s
	}
	s = strings.ToValidUTF8(s[:size], "")
	if line := strings.LastIndexByte(s, '\n'); line > size-size/4 {
		s = s[:line]
	}
	return s + "\n[...]"
}

func indent(by, s string) string {
	return by + strings.ReplaceAll(s, "\n", "\n"+by)
}

// under is text under a heading, or nothing if there is no text.
func under(heading, text string) string {
	if text = clean(text); text == "" {
		return ""
	}
	if heading != "" {
		heading = "\n" + heading + "\n"
	}
	return heading + "\n" + text + "\n"
}

// quote is foreign output in a fence, under a line that says what it is; nothing if there is none.
func quote(lead, text string) string {
	if text = clean(text); text == "" {
		return ""
	}
	return "\n" + lead + "\n\n" + fence("", text)
}

// fence is text in a code fence that is longer than any in it.
func fence(lang, text string) string {
	mark := "```"
	for strings.Contains(text, mark) {
		mark += "`"
	}
	return mark + lang + "\n" + text + "\n" + mark + "\n"
}

// enclose is a document in a tag of its own, so that its headings and fences cannot be taken for ours; the tag is one
// that the document does not close.
func enclose(tag, text string) string {
	tag, attributes, _ := strings.Cut(tag, " ")
	if attributes != "" {
		attributes = " " + attributes
	}
	for strings.Contains(text, "</"+tag+">") {
		tag += "-"
	}
	return "<" + tag + attributes + ">\n" + text + "\n</" + tag + ">\n"
}
