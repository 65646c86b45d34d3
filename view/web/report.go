package web

import (
	"bytes"
	"html/template"
	"io"
	"strings"

	"descartes/view"
)

// Report writes a loop as one HTML file that needs no other: its page without what only a server can do, and every
// attempt.
func Report(w io.Writer, l *view.Loop) error {
	pages, err := template.New("").Funcs(funcs()).ParseFS(assets, "assets/*.html")
	if err != nil {
		return err
	}
	css, err := assets.ReadFile("assets/page.css")
	if err != nil {
		return err
	}
	js, err := assets.ReadFile("assets/page.js")
	if err != nil {
		return err
	}
	p := newPage(l)
	p.CSS, p.JS = template.CSS(css), template.JS(js)
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, "report.html", p); err != nil {
		return err
	}
	// What has a page of its own elsewhere has a place further down here.
	text := strings.ReplaceAll(plain(b.String()), `href="/loops/`+escape(l.ID)+`/tasks/`, `href="#task-`)
	_, err = io.WriteString(w, text)
	return err
}
