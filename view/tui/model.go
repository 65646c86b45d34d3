package tui

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"

	"descartes/internal/terminal"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/view"
	"descartes/view/print"
)

// model is what the view shows.
type model struct {
	opt     Options
	unicode bool
	width   int
	height  int

	loop    *view.Loop // nil until it has a state file
	trouble string     // why it cannot be read
	events  *print.Events
	said    []said // of what happened, the latest last
	rows    []row
	ids     int // columns of the widest id in rows, within reason
	actions map[journal.Key]string
	at      int  // the row that is chosen
	chosen  row  // it, as it was when it was chosen: it stays chosen while the list changes around it
	top     int  // the first line of the list that is shown
	looking bool // for what the agents do

	notice  string // the last thing to read
	noticed time.Time

	page   *page    // over the list; nil for none
	choice *choice  // a question that a key answers
	entry  *entry   // a text that is written
	asked  []askMsg // questions of the run, the oldest first
	stops  int      // times Ctrl-C

	leaving bool // the run is over, and the view as soon as nobody writes
}

// said is a line of what happened.
type said struct {
	at   time.Time
	text string
}

// choice is a question with a key for each answer.
type choice struct {
	title string
	keys  []answer
}

type answer struct {
	keys []string // the first one is shown
	text string
	do   func() tea.Cmd
}

// entry is a text that a person writes for a task.
type entry struct {
	title, about string
	task         string
	empty        bool // nothing is an answer too
	area         textarea.Model
}

// noticeFor is how long a notice stands.
const noticeFor = 12 * time.Second

func newModel(opt Options, unicode bool) *model {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	return &model{opt: opt, unicode: unicode, width: 80, height: 24, actions: map[journal.Key]string{},
		events: print.NewEvents(false)}
}

// Init has nothing to begin with: what happens is sent.
func (m *model) Init() tea.Cmd { return nil }

// see takes in what was written.
func (m *model) see(events []journal.Event) {
	for i := range events {
		m.tell(events[i].TS, m.events.Line(&events[i]))
	}
	if m.loop.See(events) || m.rows == nil {
		m.arrange()
	}
}

func (m *model) tell(at time.Time, text string) {
	const most = 50 // lines that are kept
	for line := range strings.SplitSeq(text, "\n") {
		if strings.TrimSpace(line) != "" {
			m.said = append(m.said, said{at, line})
		}
	}
	m.said = m.said[max(0, len(m.said)-most):]
}

// Update takes a message in.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = max(msg.Width, 1), max(msg.Height, 1)
		if m.page != nil {
			m.page.resize(m.width, m.height)
		}
		if m.entry != nil {
			m.entry.area.SetWidth(max(10, m.width-4))
		}
	case seenMsg:
		if m.loop == nil && msg.loop != nil {
			m.loop = msg.loop
			m.events.Waves, m.events.Usual = len(m.loop.Waves), m.loop.Run.State.Config.Backend.Type
		}
		if m.trouble = ""; msg.err != nil {
			m.trouble = msg.err.Error()
		}
		if m.loop == nil {
			break
		}
		m.see(msg.events)
		if m.opt.Now().Sub(m.noticed) > noticeFor {
			m.notice = ""
		}
		return m, tea.Batch(m.look(), m.reload())
	case actionsMsg:
		m.looking = false
		m.actions = msg
	case closeMsg:
		if m.leaving = true; m.entry == nil {
			return m, tea.Quit
		}
		m.say("the run has ended; your answer is kept for the next one")
	case sayMsg:
		m.say(string(msg))
	case askMsg:
		if msg.question == "" {
			m.asked = nil
		} else {
			m.asked = append(m.asked, msg)
		}
	case textMsg:
		if m.page == msg.page {
			m.page.fill(msg)
		}
	case doneMsg:
		switch {
		case msg.err != nil:
			m.say("error: " + msg.err.Error())
		case m.leaving:
			return m, tea.Quit
		default:
			if m.loop != nil && m.loop.Again() == nil {
				m.arrange()
			}
			m.say(cmp.Or(msg.said, m.notice))
		}
	case tea.KeyPressMsg:
		return m, m.press(msg)
	default:
		if m.entry != nil {
			return m, m.entry.update(msg)
		}
	}
	return m, nil
}

func (m *model) say(text string) {
	m.notice, m.noticed = terminal.Clean(strings.TrimSpace(text)), m.opt.Now()
	m.tell(m.noticed, m.notice)
}

// look asks what the agents do now.
func (m *model) look() tea.Cmd {
	work := m.loop.Working()
	if m.looking || m.opt.Action == nil || len(work) == 0 {
		return nil
	}
	m.looking = true
	action, list := m.opt.Action, make([]journal.Attempt, 0, len(work))
	for _, a := range work[:min(len(work), 64)] {
		list = append(list, *a.Attempt)
	}
	return func() tea.Msg {
		out := actionsMsg{}
		for i := range list {
			out[list[i].Key] = action(&list[i])
		}
		return out
	}
}

// press does what a key is for.
func (m *model) press(k tea.KeyPressMsg) tea.Cmd {
	key := k.String()
	switch {
	case key == "ctrl+c":
		if m.opt.Interrupt == nil || m.leaving {
			return tea.Quit
		}
		m.stops++
		m.opt.Interrupt()
		return nil
	case key == "ctrl+z":
		return tea.Suspend
	case m.entry != nil:
		return m.write(k)
	case len(m.asked) > 0:
		if yes := strings.ToLower(key) == "y" || key == "enter"; yes || strings.ToLower(key) == "n" {
			m.asked[0].reply <- yes
			m.asked = m.asked[1:]
		}
		return nil
	case m.choice != nil:
		return m.choose(key)
	case m.page != nil:
		return m.turn(k)
	}
	for _, s := range m.shortcuts() {
		if slices.Contains(s.keys, key) {
			return s.do(key)
		}
	}
	return nil
}

func (m *model) choose(key string) tea.Cmd {
	c := m.choice
	for _, a := range c.keys {
		if slices.Contains(a.keys, key) {
			m.choice = nil
			return a.do()
		}
	}
	if key == "esc" || key == "q" {
		m.choice = nil
	}
	return nil
}

func (m *model) move(by int) {
	m.at = max(0, min(m.at+by, len(m.rows)-1))
	if r := m.row(); r != nil {
		m.chosen = *r
	}
}

// quit leaves the view. A run of this process ends with it, or prints lines from then on: that is for the person to
// say.
func (m *model) quit(string) tea.Cmd {
	if !m.opt.Here || m.loop == nil || m.loop.Over() {
		return tea.Quit
	}
	m.choice = &choice{"The run is in this terminal.", []answer{
		{[]string{"k", "enter"}, "keep it running, in plain lines", func() tea.Cmd { return tea.Quit }},
		{[]string{"c"}, "cancel it after the running " + m.unit(), m.asking(store.RequestCancel, false)},
		{[]string{"n"}, "cancel it now", m.asking(store.RequestCancel, true)},
	}}
	return nil
}

func (m *model) unit() string {
	if m.loop == nil {
		return view.Unit("")
	}
	return view.Unit(m.loop.Kind)
}

// text is what an agent is given.
func (m *model) text() string {
	if m.loop == nil || !m.loop.Prompt() {
		return "spec"
	}
	return "prompt"
}

// request asks whether a live run is to pause or to end, and when, or whether it is to do so no more.
func (m *model) request(key string) tea.Cmd {
	r := map[string]store.Request{"p": store.RequestPause, "c": store.RequestCancel}[key]
	word := strings.ToUpper(key) + string(r[1:])
	switch {
	case m.opt.Request == nil || m.loop == nil:
	case !m.loop.Run.Live:
		m.say("it is not running")
	case m.loop.Run.Asked.CanUndo() == r && m.opt.TakeBack != nil:
		undo := m.opt.TakeBack
		m.choice = &choice{word + " is requested.", []answer{
			{[]string{key, "enter", "y"}, "take it back: the run goes on",
				command(func() (string, error) { return undo(r) })},
			{[]string{"n"}, string(r) + " now: the agent is interrupted", m.asking(r, true)},
		}}
	default:
		m.choice = &choice{word + " the run?", []answer{
			{[]string{key, "enter", "y"}, "after the running " + m.unit(), m.asking(r, false)},
			{[]string{"n"}, "now: the agent is interrupted", m.asking(r, true)},
		}}
	}
	return nil
}

func (m *model) asking(r store.Request, now bool) func() tea.Cmd {
	ask, here := m.opt.Request, m.opt.Here
	return command(func() (string, error) {
		said, err := ask(r, now)
		if here { // the run itself says what is asked of it
			said = ""
		}
		return said, err
	})
}

// command is something that a person asked for, while the view goes on.
func command(do func() (said string, err error)) func() tea.Cmd {
	return func() tea.Cmd {
		return func() tea.Msg {
			said, err := do()
			return doneMsg{said, err}
		}
	}
}

// retry has the chosen blocked task tried again.
func (m *model) retry(string) tea.Cmd {
	r := m.row()
	if m.opt.Answer == nil {
		return nil
	}
	if r == nil || r.task == nil || r.in != view.Blocked && r.in != view.Asks {
		m.say("choose a blocked task to try it again")
		return nil
	}
	return m.ask(entry{title: "Try task " + terminal.Clean(r.task.ID.ID) + " again", task: r.task.ID.ID, empty: true,
		about: terminal.CleanLines(r.task.Why) + "\n\nWhat should its next agent know? Press Enter to add nothing."})
}

// answer answers what the chosen task's agent asked, or the first that asked.
func (m *model) answer(string) tea.Cmd {
	if m.opt.Answer == nil || m.loop == nil {
		return nil
	}
	r := m.row()
	if r == nil || r.in != view.Asks {
		at := slices.IndexFunc(m.rows, func(r row) bool { return r.in == view.Asks })
		if text := m.loop.GateAsks(); at < 0 && text != "" && m.opt.Proceed != nil {
			m.choice = &choice{text, []answer{
				{[]string{"y", "enter"}, "yes: it goes on in the background", command(m.opt.Proceed)},
				{[]string{"n"}, "no: it stays as it is", func() tea.Cmd { return nil }},
			}}
			return nil
		}
		if at < 0 {
			m.say("nobody waits for an answer")
			return nil
		}
		m.at = at
		m.move(0)
		r = m.row()
	}
	return m.ask(entry{title: "Task " + terminal.Clean(r.task.ID.ID) + " asks", task: r.task.ID.ID,
		about: terminal.CleanLines(r.task.Why)})
}

// ask lets a person write a text.
func (m *model) ask(e entry) tea.Cmd {
	e.area = textarea.New()
	e.area.ShowLineNumbers = false
	e.area.CharLimit = store.MaxAnswer
	e.area.SetWidth(max(10, m.width-4))
	e.area.SetHeight(max(1, min(6, m.height/3)))
	m.entry = &e
	return e.area.Focus()
}

func (e *entry) update(msg tea.Msg) (cmd tea.Cmd) {
	e.area, cmd = e.area.Update(msg)
	return cmd
}

func (m *model) write(k tea.KeyPressMsg) tea.Cmd {
	e := m.entry
	switch k.String() {
	case "esc":
		if m.entry = nil; m.leaving {
			return tea.Quit
		}
		return nil
	case "ctrl+j", "alt+enter", "shift+enter":
		e.area.InsertString("\n")
		return nil
	case "enter":
		text := strings.TrimSpace(e.area.Value())
		if text == "" && !e.empty {
			m.say("the answer is empty")
			return nil
		}
		m.entry = nil
		answer, task := m.opt.Answer, e.task
		return command(func() (string, error) { return answer(task, text) })()
	}
	return e.update(k)
}

// show opens a page about the chosen row's last attempt.
func (m *model) show(key string) tea.Cmd {
	switch r := m.row(); {
	case r == nil:
	case r.attempt != nil:
		return m.open(key, r.attempt.Attempt)
	case r.task != nil:
		return m.open(key, &journal.Attempt{Key: journal.Key{Task: r.task.ID.ID}})
	}
	return nil
}

// open shows the log, the spec or the diff of an attempt, by the key that is for it.
func (m *model) open(key string, a *journal.Attempt) tea.Cmd {
	of, what := m.opt.Spec, m.text()
	switch key {
	case "d":
		of, what = m.opt.Diff, "diff"
	case "l", "enter":
		what = "log"
	}
	if a.Number == 0 && key != "s" {
		m.say("there is no " + m.unit() + " yet")
		return nil
	}
	if what == "log" && m.opt.Log != nil {
		m.page = newPage("log", a, m.width, m.height)
		m.page.key, m.page.log = key, true
		return m.reload()
	}
	if of == nil {
		return nil
	}
	p := newPage(what, a, m.width, m.height)
	p.key, m.page = key, p
	one := *a
	return func() tea.Msg {
		text, err := of(context.Background(), &one)
		return textMsg{p, a, text, err}
	}
}

// reload reads the log that is shown again, as long as it may grow. One that is read to its end leads on to the next.
func (m *model) reload() tea.Cmd {
	p := m.page
	if p == nil || !p.log || p.reading {
		return nil
	}
	if p.complete {
		next := m.beside(p.of, 1)
		if next == nil || !p.text.AtBottom() {
			return nil
		}
		p.of, p.filled = next, false
	}
	p.reading, p.complete = true, p.of.Over()
	read, of, one, width := m.opt.Log, p.of, *p.of, max(20, m.width-2)
	return func() tea.Msg {
		text, err := read(&one, width)
		return textMsg{p, of, text, err}
	}
}

// beside is the attempt before or after another at the same task, or such an iteration; nil where there is none.
func (m *model) beside(a *journal.Attempt, step int) *journal.Attempt {
	if a == nil {
		return nil
	}
	list := slices.DeleteFunc(slices.Clone(m.loop.Run.History.Attempts),
		func(b *journal.Attempt) bool { return b.Task != a.Task })
	at := slices.IndexFunc(list, func(b *journal.Attempt) bool { return b.Key == a.Key }) + step
	if at < 0 || at >= len(list) {
		return nil
	}
	return list[at]
}

// shortcut is a key over the list, as the foot and the help name it.
type shortcut struct {
	keys        []string
	name        string
	short, long string // no short one: the foot does not name it
	off         bool   // it does nothing now
	do          func(key string) tea.Cmd
}

func (m *model) shortcuts() []shortcut {
	l, r := m.loop, m.row()
	live, undo := l != nil && !l.Over(), store.Request("")
	if live && m.opt.TakeBack != nil {
		undo = l.Run.Asked.CanUndo()
	}
	request := func(key string, r store.Request) shortcut {
		s := shortcut{[]string{key}, key, string(r), string(r) + " the run, or take that back", !live ||
			m.opt.Request == nil, m.request}
		if undo == r {
			s.short = "don't " + s.short
		}
		return s
	}
	by := func(n int) func(string) tea.Cmd {
		return func(string) tea.Cmd { m.move(n); return nil }
	}
	half, unit := max(1, m.height/2), m.unit()
	leave := "leave; the run goes on"
	if m.opt.Here {
		leave = "leave the view: plain lines from then on, or cancel"
	}
	list := []shortcut{
		{[]string{"a"}, "a", "answer", "answer what is asked", l == nil || m.opt.Answer == nil ||
			len(l.Questions) == 0 && l.GateAsks() == "", m.answer},
		{[]string{"r"}, "r", "retry", "try a blocked task again", r == nil || m.opt.Answer == nil ||
			r.in != view.Blocked && r.in != view.Asks, m.retry},
		{[]string{"q"}, "q", "leave", leave, false, m.quit},
		{[]string{"?", "h"}, "?", "help", "this help", false, m.help},
		{[]string{"l", "enter"}, "l", "log", "its log, which follows what the agent prints (Enter, too)", false,
			m.show},
		{[]string{"s"}, "s", m.text(), "its " + m.text() + ": what its agent is given", false, m.show},
		{[]string{"d"}, "d", "diff", "the diff of its last " + unit, false, m.show},
		{nil, "[ ]", "", "there: the " + unit + " before, and the next one", false, nil},
		request("p", store.RequestPause), request("c", store.RequestCancel),
		{[]string{"up", "k"}, "↑↓", "choose", "choose one (also j k, PgUp PgDn, g G)", false, by(-1)},
		{[]string{"down", "j"}, "", "", "", false, by(1)},
		{[]string{"pgup", "ctrl+b"}, "", "", "", false, by(-half)},
		{[]string{"pgdown", "ctrl+f", "space"}, "", "", "", false, by(half)},
		{[]string{"home", "g"}, "", "", "", false, by(-1 << 30)},
		{[]string{"end", "G"}, "", "", "", false, by(1 << 30)},
	}
	if m.opt.Interrupt != nil {
		list = append(list, shortcut{nil, "Ctrl-C", "", "finish the running " + unit +
			" and end; again: interrupt the agent", false, nil})
	}
	return list
}

// help says what every key does, and every sign.
func (m *model) help(string) tea.Cmd {
	text := "Keys\n\n"
	line := func(name, what string) {
		for _, l := range terminal.Wrap(what, max(12, m.width-13)) {
			text += fmt.Sprintf("  %-8s %s\n", name, l)
			name = ""
		}
	}
	for _, s := range m.shortcuts() {
		if s.name != "" {
			line(s.name, s.long)
		}
	}
	if m.loop == nil || !m.loop.Prompt() {
		text += "\nSigns\n\n"
		for _, s := range view.Stands() {
			line(s.Sign(), s.Help())
		}
	}
	m.page = newPage("keys", nil, m.width, m.height)
	m.page.set(text)
	return nil
}
