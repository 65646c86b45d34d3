package web

import (
	"context"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"descartes/agent/render"
	"descartes/gitops"
	"descartes/internal/terminal"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/view"
)

// Patcher shows how two trees differ, at most limit bytes of it.
type Patcher interface {
	Patch(ctx context.Context, from, to gitops.Tree, limit int) (string, error)
}

const (
	maxPatch = 1 << 20   // bytes of a diff that are shown
	maxTail  = 512 << 10 // bytes of a log that are shown of what was written before
)

// escape makes an id one segment of a path.
func escape(s string) string { return url.PathEscape(s) }

// taskPage is a task's page, or an iteration's.
type taskPage struct {
	Loop     *view.Loop
	ID       string
	Task     *view.Task // nil for an iteration
	Plan     string     // what the list says of it
	Attempts []*view.Attempt
	Spec     string
	Sources  string
	Error    string // why there is no spec
}

// Title is that of the task.
func (p *taskPage) Title() string {
	if p.Task == nil {
		return "Iteration " + p.ID
	}
	return p.ID + " " + p.Task.Title
}

// Can reports whether a button does something now: answer, retry, accept, resume.
func (p *taskPage) Can(what string) bool {
	if p.Task == nil {
		return false
	}
	switch stuck := p.Task.Stand == view.Blocked || p.Task.Stand == view.Asks; what {
	case "answer":
		return p.Task.Stand == view.Asks
	case "accept":
		return stuck && slices.ContainsFunc(p.Attempts, func(a *view.Attempt) bool { return a.Ref != "" && !a.Done() })
	case "retry": // of a live run by an answer
		return stuck && (p.Loop.Run.Live || slices.Contains(p.Loop.Ways(), what))
	default:
		return slices.Contains(p.Loop.Ways(), what)
	}
}

// Differs reports whether it is known what an attempt changed.
func (p *taskPage) Differs(a *view.Attempt) bool { return a.Before != "" && a.After != "" }

// OutputOf says whose words an attempt's output is.
func (p *taskPage) OutputOf(a *view.Attempt) string {
	if by := a.Result.Objector(); by != "" {
		return "What the " + by + " says"
	}
	return "What verify printed"
}

// find is the loop, and what its journal says of the task; the newest attempt first.
func (s *Server) find(r *http.Request) (*taskPage, error) {
	l, err := s.look(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	p := &taskPage{Loop: l, ID: r.PathValue("task")}
	if p.Task = l.Task(p.ID); p.Task != nil {
		p.Attempts = slices.Clone(p.Task.Attempts)
	}
	for _, a := range l.Iterations {
		if strconv.Itoa(a.Iteration) == p.ID {
			p.Attempts = append(p.Attempts, a)
		}
	}
	if p.Task == nil && len(p.Attempts) == 0 {
		return nil, notFound("this run has no task " + terminal.Clean(p.ID))
	}
	slices.Reverse(p.Attempts)
	return p, nil
}

// showTask is a task's page, or the part of it that changes.
func (s *Server) showTask(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p, err := s.find(r)
		if err == nil && p.Task != nil && name == "task.html" {
			if t, ok := p.Loop.Board.File.Task(p.ID); ok {
				p.Plan = strings.TrimSpace(t.Description + "\n\n" + t.Details)
			}
			list := s.list(p.Loop)
			if p.Spec, err = s.opt.Run(r.Context(), "", append([]string{"spec", p.ID}, list...)...); err != nil {
				p.Error = err.Error()
			} else if p.Sources, err = s.opt.Run(r.Context(), "",
				append([]string{"spec", p.ID, "--explain"}, list...)...); err != nil {
				p.Sources = ""
			}
			err = nil
		}
		s.page(w, r, name, p, err)
	}
}

// list are the flags that name a loop's own task list.
func (s *Server) list(l *view.Loop) []string {
	args := []string{"--tag", l.Tag}
	if file := view.ListOf(l.Run.State).TasksFile; file != "" {
		args = append(args, "--tasks-file", file)
	}
	return args
}

// one is the attempt that a request names.
func (s *Server) one(r *http.Request) (*taskPage, *view.Attempt, error) {
	p, err := s.find(r)
	if err != nil {
		return nil, nil, err
	}
	for _, a := range p.Attempts {
		if strconv.Itoa(a.Number) == r.PathValue("attempt") {
			return p, a, nil
		}
	}
	return nil, nil, notFound("there is no such attempt")
}

// showDiff is what an attempt changed, as a fragment.
func (s *Server) showDiff(w http.ResponseWriter, r *http.Request) {
	_, a, err := s.one(r)
	if err == nil && (s.opt.Repo == nil || a.Before == "" || a.After == "") {
		err = notFound("nothing is kept of what this attempt changed")
	}
	var lines []diffLine
	if err == nil {
		var text string
		text, err = s.opt.Repo.Patch(r.Context(), gitops.Tree(a.Before), gitops.Tree(a.After), maxPatch)
		lines = diffLines(text)
	}
	s.page(w, r, "diff.html", lines, err)
}

// diffLine is a line of a diff with its kind.
type diffLine struct{ Kind, Text string }

func diffLines(text string) (out []diffLine) {
	for line := range strings.Lines(terminal.CleanLines(text)) {
		kind := ""
		switch {
		case strings.HasPrefix(line, "diff ") || strings.HasPrefix(line, "+++") || strings.HasPrefix(line, "---"):
			kind = "file"
		case strings.HasPrefix(line, "@@"):
			kind = "hunk"
		case strings.HasPrefix(line, "+"):
			kind = "added"
		case strings.HasPrefix(line, "-"):
			kind = "gone"
		}
		out = append(out, diffLine{kind, strings.TrimSuffix(line, "\n")})
	}
	return out
}

// streamLog sends an attempt's log as a person reads it: its last part, and then what is added, until its run ends.
func (s *Server) streamLog(w http.ResponseWriter, r *http.Request) {
	p, a, err := s.one(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	f, err := os.Open(filepath.Join(s.opt.Root, a.Log))
	if err != nil {
		s.fail(w, r, notFound("there is no log of this attempt any more"))
		return
	}
	defer f.Close()
	out := s.open(w, r)
	if out == nil {
		return
	}
	defer s.done()
	size := int64(0)
	if fi, err := f.Stat(); err == nil {
		size = fi.Size()
	}
	var b strings.Builder
	text, err := s.opt.Read(p.Loop.Run.State, a.Attempt.Backend, func(i render.Item) {
		fmt.Fprintf(&b, `<div class="item k%d">%s</div>`, i.Kind,
			template.HTMLEscapeString(strings.Join(i.Lines(0), "\n")))
	})
	if err != nil {
		out.send("trouble", err.Error())
		return
	}
	if skip := size - maxTail; skip > 0 {
		if _, err := f.Seek(skip, io.SeekStart); err != nil {
			return
		}
		fmt.Fprintf(&b, `<div class="item note">%d earlier bytes are in %s</div>`, skip,
			template.HTMLEscapeString(a.Log))
		if !skipLine(f) {
			return
		}
	}
	for buffer := make([]byte, 64<<10); ; {
		n, err := f.Read(buffer)
		if n > 0 {
			if _, err := text.Write(buffer[:n]); err != nil {
				return
			}
		}
		over := false
		if n == 0 {
			if err != nil && err != io.EOF {
				return
			}
			if over = !s.working(r); over {
				_ = text.Close() // into memory
			}
		}
		if b.Len() > 0 && (n == 0 || b.Len() > 32<<10) {
			if !out.send("line", b.String()) {
				return
			}
			b.Reset()
		}
		if over {
			out.send("over", "")
			return
		}
		if n == 0 && !out.wait(300*time.Millisecond) {
			return
		}
	}
}

// working reports whether something may still be added to an attempt's log.
func (s *Server) working(r *http.Request) bool {
	_, now, err := s.one(r)
	return err == nil && now.Stand == view.Running && now.Phase != journal.PhaseIntegrating
}

// skipLine goes on behind the next end of a line.
func skipLine(f *os.File) bool {
	var one [4096]byte
	for {
		n, err := f.Read(one[:])
		if i := strings.IndexByte(string(one[:n]), '\n'); i >= 0 {
			_, err = f.Seek(int64(i+1-n), io.SeekCurrent)
			return err == nil
		}
		if err != nil {
			return err == io.EOF
		}
	}
}

// act is a button: it runs the command that a person would type.
func (s *Server) act(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, store.MaxAnswer+4096)
	if err := r.ParseForm(); err != nil {
		http.Error(w, "the form cannot be read: "+err.Error(), http.StatusBadRequest)
		return
	}
	l, err := s.look(r.PathValue("id"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	task, stdin, action := r.PostForm.Get("task"), "", r.PathValue("action")
	resume := func(more ...string) []string {
		return append(append([]string{"loop", "resume", "--name", l.ID}, more...), "--detach")
	}
	args := map[string][]string{"pause": {"loop", action, l.ID}, "cancel": {"loop", action, l.ID}, "resume": resume(),
		"retry": resume("--retry-blocked"), "step": resume("--step"),
		"accept": append(append([]string{"answer", "--accept"}, s.list(l)...), "--", task),
		"answer": append(append([]string{"answer"}, s.list(l)...), "--", task, "-")}[action]
	switch action {
	case "retry":
		if l.Run.Live {
			stdin = "Try it again."
			args = append(append([]string{"answer"}, s.list(l)...), "--", task, "-")
		}
	case "pause", "cancel":
		for _, flag := range []string{"now", "undo"} {
			if r.PostForm.Get(flag) != "" {
				args = append(args, "--"+flag)
			}
		}
	case "answer":
		if stdin = r.PostForm.Get("text"); strings.TrimSpace(stdin) == "" {
			http.Error(w, "the answer is empty", http.StatusBadRequest)
			return
		}
	}
	if args == nil {
		http.NotFound(w, r)
		return
	}
	text, err := s.opt.Run(r.Context(), stdin, args...)
	data := struct {
		Command, Text string
		Failed        bool
	}{"descartes " + strings.Join(args, " "), terminal.CleanLines(text), err != nil}
	if err != nil {
		data.Text = terminal.CleanLines(strings.TrimSpace(text + "\n" + err.Error()))
	}
	s.page(w, r, "did.html", data, nil)
}
