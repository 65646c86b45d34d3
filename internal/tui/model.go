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
)

// model is what the view shows.
type model struct {
	opt     Options
	unicode bool
	width   int
	height  int

	loop    *account // nil until the loop has a state file
	trouble string   // why it cannot be read
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
	return &model{opt: opt, unicode: unicode, width: 80, height: 24, actions: map[journal.Key]string{}}
}

// Init has nothing to begin with: what happens is sent.
func (m *model) Init() tea.Cmd { return nil }

// again reads everything anew: the task list may have been changed.
func (m *model) again() {
	if m.loop == nil {
		return
	}
	if l, err := view.Of(m.opt.Root, m.loop.saved); err == nil {
		m.loop.Loop = l
		m.loop.arrange()
		m.hold()
	}
}

// hold keeps the chosen task chosen when the list changes, and the cursor on a row.
func (m *model) hold() {
	rows := m.loop.rows
	if key := m.chosen.key(); key != "" {
		if at := slices.IndexFunc(rows, func(r row) bool { return r.key() == key && r.in == m.chosen.in }); at >= 0 {
			m.at = at
		}
	}
	m.at = max(0, min(m.at, len(rows)-1))
	if r := m.row(); r != nil && m.chosen.key() != "" {
		m.chosen = *r
	}
}

func (r *row) key() string {
	switch {
	case r.task != nil:
		return r.task.ID.ID
	case r.attempt != nil:
		return fmt.Sprintf("%d.%d", r.attempt.Iteration, r.attempt.Number)
	}
	return ""
}

// row is the one that is chosen; nil where there is none.
func (m *model) row() *row {
	if m.loop == nil || m.at >= len(m.loop.rows) {
		return nil
	}
	return &m.loop.rows[m.at]
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
	case foundMsg:
		if m.loop = msg.loop; msg.err != nil {
			m.trouble = msg.err.Error()
		}
	case eventsMsg:
		m.trouble = ""
		if err := cmp.Or(msg.err, m.loop.see(msg.events)); err != nil {
			m.trouble = err.Error()
		}
		m.hold()
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
		if msg.err != nil {
			m.say("error: " + msg.err.Error())
			break
		}
		if m.leaving {
			return m, tea.Quit
		}
		m.again()
		if msg.said != "" {
			m.say(msg.said)
		}
	case tea.PasteMsg:
		if m.entry != nil {
			return m, m.entry.update(msg)
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
	if m.loop != nil && m.notice != "" {
		m.loop.say(m.noticed, m.notice)
	}
}

// look asks what the agents do now.
func (m *model) look() tea.Cmd {
	if m.loop == nil || m.looking || m.opt.Action == nil {
		return nil
	}
	work := m.loop.Working()
	if len(work) == 0 {
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
		m.reply(key)
		return nil
	case m.choice != nil:
		return m.choose(key)
	case m.page != nil:
		return m.turn(k)
	}
	return m.command(key)
}

// reply answers the oldest question of the run.
func (m *model) reply(key string) {
	var yes bool
	switch key {
	case "y", "Y", "enter":
		yes = true
	case "n", "N":
	default:
		return
	}
	m.asked[0].reply <- yes
	m.asked = m.asked[1:]
}

func (m *model) choose(key string) tea.Cmd {
	c := m.choice
	if key == "esc" || key == "q" && !slices.ContainsFunc(c.keys, func(a answer) bool { return slices.Contains(a.keys, "q") }) {
		m.choice = nil
		return nil
	}
	for _, a := range c.keys {
		if slices.Contains(a.keys, key) {
			m.choice = nil
			return a.do()
		}
	}
	return nil
}

// command is a key over the list.
func (m *model) command(key string) tea.Cmd {
	switch key {
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup", "ctrl+b":
		m.move(-max(1, m.height/2))
	case "pgdown", "ctrl+f", "space":
		m.move(max(1, m.height/2))
	case "home", "g":
		m.move(-1 << 30)
	case "end", "G":
		m.move(1 << 30)
	case "enter", "l", "s", "d":
		return m.show(key)
	case "p":
		m.request(store.RequestPause)
	case "c":
		m.request(store.RequestCancel)
	case "r":
		return m.retry()
	case "a":
		return m.answer()
	case "?", "h":
		m.page = newPage("keys", nil, m.width, m.height)
		m.page.set(m.help())
	case "q":
		return m.quit()
	}
	return nil
}

func (m *model) move(by int) {
	if m.loop == nil {
		return
	}
	m.at = max(0, min(m.at+by, len(m.loop.rows)-1))
	if r := m.row(); r != nil {
		m.chosen = *r
	}
}

// quit leaves the view. A loop of this process ends with it, or prints lines from then on: that is for the person to say.
func (m *model) quit() tea.Cmd {
	if !m.opt.Here || m.loop == nil || m.loop.over() {
		return tea.Quit
	}
	m.choice = &choice{"The run is in this terminal.", []answer{
		{[]string{"k", "enter"}, "keep it running, in plain lines", func() tea.Cmd { return tea.Quit }},
		{[]string{"c"}, "cancel it after the running " + m.unit(), m.asking(store.RequestCancel, false)},
		{[]string{"n"}, "cancel it now", m.asking(store.RequestCancel, true)},
	}}
	return nil
}

func (m *model) unit() string { return view.Unit(m.loop.Kind) }

// text is what an agent is given.
func (m *model) text() string {
	if m.loop == nil || !m.loop.Prompt() {
		return "spec"
	}
	return "prompt"
}

// keyOf is the one that a request is made with, and taken back.
func keyOf(r store.Request) string { return string(r[:min(1, len(r))]) }

// request asks whether a live loop is to pause or to end, and when, or whether it is to do so no more.
func (m *model) request(r store.Request) {
	word := strings.ToUpper(keyOf(r)) + string(r[1:])
	switch {
	case m.opt.Request == nil || m.loop == nil:
	case !m.loop.Run.Live:
		m.say("it is not running")
	case m.loop.Run.Asked.CanUndo() == r && m.opt.TakeBack != nil:
		m.choice = &choice{word + " is requested.", []answer{
			{[]string{keyOf(r), "enter", "y"}, "take it back: the run goes on", m.takingBack(r)},
			{[]string{"n"}, string(r) + " now: the agent is interrupted", m.asking(r, true)},
		}}
	default:
		m.choice = &choice{word + " the run?", []answer{
			{[]string{keyOf(r), "enter", "y"}, "after the running " + m.unit(), m.asking(r, false)},
			{[]string{"n"}, "now: the agent is interrupted", m.asking(r, true)},
		}}
	}
}

func (m *model) asking(r store.Request, now bool) func() tea.Cmd {
	return func() tea.Cmd {
		ask := m.opt.Request
		here := m.opt.Here
		return func() tea.Msg {
			said, err := ask(r, now)
			if here { // the run itself says what is asked of it
				said = ""
			}
			return doneWith(said, err)
		}
	}
}

func (m *model) takingBack(r store.Request) func() tea.Cmd {
	return func() tea.Cmd {
		undo := m.opt.TakeBack
		return func() tea.Msg { return doneWith(undo(r)) }
	}
}

func doneWith(said string, err error) tea.Msg { return doneMsg{said, err} }

func (m *model) proceeding() tea.Cmd {
	proceed := m.opt.Proceed
	return func() tea.Msg { return doneWith(proceed()) }
}

// retry has the chosen blocked task tried again.
func (m *model) retry() tea.Cmd {
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
func (m *model) answer() tea.Cmd {
	if m.opt.Answer == nil || m.loop == nil {
		return nil
	}
	r := m.row()
	if r == nil || r.in != view.Asks {
		at := slices.IndexFunc(m.loop.rows, func(r row) bool { return r.in == view.Asks })
		if text := m.loop.gateAsks(); at < 0 && text != "" && m.opt.Proceed != nil {
			m.choice = &choice{text, []answer{
				{[]string{"y", "enter"}, "yes: it goes on in the background", m.proceeding},
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
	return m.ask(entry{title: "Task " + terminal.Clean(r.task.ID.ID) + " asks", task: r.task.ID.ID, about: terminal.CleanLines(r.task.Why)})
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
	case "enter":
		return m.send(e)
	case "ctrl+j", "alt+enter", "shift+enter":
		e.area.InsertString("\n")
		return nil
	}
	return e.update(k)
}

// send hands over what was written.
func (m *model) send(e *entry) tea.Cmd {
	text := strings.TrimSpace(e.area.Value())
	if text == "" && !e.empty {
		m.say("the answer is empty")
		return nil
	}
	m.entry = nil
	answer, task := m.opt.Answer, e.task
	return func() tea.Msg {
		return doneWith(answer(task, text))
	}
}

// show opens a page about the chosen row's last attempt.
func (m *model) show(key string) tea.Cmd {
	r := m.row()
	switch {
	case r == nil:
		return nil
	case r.attempt != nil:
		return m.open(key, r.attempt.Attempt)
	case r.task == nil:
		return nil
	}
	return m.open(key, &journal.Attempt{Key: journal.Key{Task: r.task.ID.ID}})
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
	var list []*journal.Attempt
	for _, b := range m.loop.Run.History.Attempts {
		if b.Task == a.Task {
			list = append(list, b)
		}
	}
	at := slices.IndexFunc(list, func(b *journal.Attempt) bool { return b.Key == a.Key })
	if at += step; at < 0 || at >= len(list) {
		return nil
	}
	return list[at]
}
