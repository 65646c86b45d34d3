package web

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
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

// taskView is a task's page, or an iteration's.
type taskView struct {
	Loop, Kind, Tag, ID, Title string
	State, Word, Note          string
	Live                       bool
	Question                   string
	Spec                       string
	SpecError                  string
	Sources                    string
	Attempts                   []attemptView
	Editor                     string // address that opens the project in an editor
	Root                       string
}

type attemptView struct {
	Number                int
	Path                  string // of what there is about it
	Verdict, Reason       string
	Said                  []string // what a person should look at
	Started               time.Time
	Took, Cost, Agent     string
	Ref, Stat, Output     string
	Running, Last, Differ bool
	Place                 string
	File                  string // of its log
	OutputOf              string // whose words Output is
	Looks                 []journal.Look
}

// Shape is the verdict for those who do not see colours.
func (a attemptView) Shape() string { return shape(a.Verdict) }

// find is the loop, and what its journal says of the task.
func (s *Server) find(r *http.Request) (*view.Status, []*journal.Attempt, error) {
	saved, err := s.home.Find(r.PathValue("id"))
	if err != nil {
		return nil, nil, err
	}
	if saved == nil {
		return nil, nil, notFound("there is no such loop")
	}
	st, err := view.NewStatus(s.opt.Root, *saved)
	if err != nil {
		return nil, nil, err
	}
	var list []*journal.Attempt
	for _, a := range st.View.History.Attempts {
		if about(a, r.PathValue("task")) {
			list = append(list, a)
		}
	}
	return st, list, nil
}

func about(a *journal.Attempt, task string) bool {
	if a.Iteration > 0 {
		return strconv.Itoa(a.Iteration) == task
	}
	return a.Task == task
}

func (s *Server) showTask(w http.ResponseWriter, r *http.Request) {
	v, err := s.task(r)
	s.page(w, r, "task.html", v, err)
}

func (s *Server) task(r *http.Request) (*taskView, error) {
	st, list, err := s.find(r)
	if err != nil {
		return nil, err
	}
	id, state := r.PathValue("task"), &st.View.State
	v := &taskView{Loop: state.ID, Kind: state.Kind, Tag: state.Tag, ID: id, Live: st.View.Live, Root: s.opt.Root,
		Editor: "vscode://file" + (&url.URL{Path: filepath.ToSlash(s.opt.Root)}).EscapedPath()}
	known := len(list) > 0
	if st.Board != nil {
		if t, ok := st.Board.Graph.Task(id); ok {
			known = true
			one, cause := st.Board.Graph.State(id)
			v.Title, v.State, v.Word, v.Note = t.Title, string(one), word(string(one)), cause
		}
		spec, err := s.opt.Run(r.Context(), "", "spec", id, "--scud-tag", state.Tag)
		if v.Spec = spec; err != nil {
			v.Spec, v.SpecError = "", err.Error()
		} else if v.Sources, err = s.opt.Run(r.Context(), "", "spec", id, "--scud-tag", state.Tag, "--explain"); err != nil {
			v.Sources = ""
		}
	}
	if !known {
		return nil, notFound("this loop has no task " + terminal.Clean(id))
	}
	for _, b := range state.BlockedTasks {
		if b.Task.ID == id {
			v.Question, v.Note = b.Question, b.Reason
		}
	}
	for _, a := range list {
		v.Attempts = append(v.Attempts, s.attempt(st, a))
	}
	if n := len(v.Attempts); n > 0 {
		v.Attempts[n-1].Last = true
	}
	return v, nil
}

func (s *Server) attempt(st *view.Status, a *journal.Attempt) attemptView {
	id := st.View.State.ID
	v := attemptView{Said: a.Result.Said(), Number: a.Number, Path: fmt.Sprintf("%s/%d", taskPath(id, a), a.Number), Verdict: cmp.Or(a.Outcome(), string(a.Decision)), Reason: a.Reason,
		Started: a.Started, Cost: a.Cost.Text(), Ref: a.Ref, Stat: a.DiffStat, Place: a.Place(), Differ: s.opt.Repo != nil && a.Before != "" && a.After != "",
		File: s.logFile(id, a)}
	if a.Verdict != "" && a.Ref == "" {
		v.Ref = ""
	}
	v.Running = st.View.Live && st.View.History.Runs(a) && !a.Over()
	switch {
	case v.Running:
		v.Verdict, v.Took = "running", terminal.Duration(time.Since(a.Started).Round(time.Second))
	case !a.Ended.IsZero():
		v.Took = terminal.Duration(a.Ended.Sub(a.Started))
	default:
		v.Verdict = "interrupted"
	}
	if d := cmp.Or(a.Result, a.Agent); d != nil {
		v.Output, v.Agent = d.Output, strings.TrimSpace(d.Backend+" "+d.Model)
		if v.Looks, v.OutputOf = d.Looks, "What the verify command printed"; d.Objector() != "" {
			v.OutputOf = "What the " + d.Objector() + " says"
		}
	}
	return v
}

func (s *Server) logFile(id string, a *journal.Attempt) string {
	if a.Iteration > 0 {
		return s.home.IterationLog(id, a.Iteration, a.Number)
	}
	return s.home.Log(id, a.Task, a.Number)
}

// one is the attempt that a request names.
func (s *Server) one(r *http.Request) (*view.Status, *journal.Attempt, error) {
	st, list, err := s.find(r)
	if err != nil {
		return nil, nil, err
	}
	for _, a := range list {
		if strconv.Itoa(a.Number) == r.PathValue("attempt") {
			return st, a, nil
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
	st, a, err := s.one(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	f, err := os.Open(s.logFile(st.View.State.ID, a))
	if err != nil {
		s.fail(w, r, notFound("there is no log of this attempt any more"))
		return
	}
	defer f.Close()
	out := s.feeds.open(w, r)
	if out == nil {
		return
	}
	defer s.feeds.done()
	size := int64(0)
	if fi, err := f.Stat(); err == nil {
		size = fi.Size()
	}
	var b strings.Builder
	text, err := s.opt.Read(&st.View.State, a.Backend, func(i render.Item) {
		fmt.Fprintf(&b, `<div class="item k%d">%s</div>`, i.Kind, template.HTMLEscapeString(strings.Join(i.Lines(0), "\n")))
	})
	if err != nil {
		out.send("trouble", err.Error())
		return
	}
	if skip := size - maxTail; skip > 0 {
		if _, err := f.Seek(skip, io.SeekStart); err != nil {
			return
		}
		fmt.Fprintf(&b, `<div class="item note">%d earlier bytes are in %s</div>`, skip, template.HTMLEscapeString(view.Relative(s.opt.Root, f.Name())))
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
			if over = !s.working(st, a); over {
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
func (s *Server) working(st *view.Status, a *journal.Attempt) bool {
	saved, err := s.home.Find(st.View.State.ID)
	if err != nil || saved == nil || !s.home.IsLive(*saved) {
		return false
	}
	h, err := journal.Load(s.home.Events(st.View.State.ID))
	if err != nil {
		return false
	}
	now := h.RunningOf(a.Key)
	return now != nil && now.Phase != journal.PhaseIntegrating
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
	saved, err := s.home.Find(r.PathValue("id"))
	if err != nil || saved == nil {
		s.fail(w, r, cmp.Or(err, error(notFound("there is no such loop"))))
		return
	}
	id, tag, task := saved.State.ID, saved.State.Tag, r.PostForm.Get("task")
	var args []string
	stdin := ""
	switch r.PathValue("action") {
	case "pause", "cancel":
		args = []string{"loop", r.PathValue("action"), id}
		for _, flag := range []string{"now", "undo"} {
			if r.PostForm.Get(flag) != "" {
				args = append(args, "--"+flag)
			}
		}
	case "resume":
		args = []string{"loop", "resume", "--name", id, "--detach"}
	case "retry":
		args = []string{"loop", "resume", "--name", id, "--retry-blocked", "--detach"}
	case "step":
		args = []string{"loop", "resume", "--name", id, "--step", "--detach"}
	case "answer":
		if strings.TrimSpace(r.PostForm.Get("text")) == "" {
			http.Error(w, "the answer is empty", http.StatusBadRequest)
			return
		}
		args, stdin = []string{"answer", "--scud-tag", tag, "--", task, "-"}, r.PostForm.Get("text")
	default:
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
