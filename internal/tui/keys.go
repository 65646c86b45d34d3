package tui

import (
	"charm.land/bubbles/v2/help"
	"charm.land/bubbles/v2/key"

	"descartes/internal/terminal"
	"descartes/loop/store"
	"descartes/view"
)

// bind is a key as the foot names it.
func bind(name, what string, keys ...string) key.Binding {
	return key.NewBinding(key.WithKeys(keys...), key.WithHelp(name, what))
}

// keys are those that do something now, as many as there is room for.
func (m *model) keys() string {
	var list []key.Binding
	add := func(if_ bool, name, what string) {
		b := bind(name, what, name)
		b.SetEnabled(if_)
		list = append(list, b)
	}
	a, r := m.loop, m.row()
	switch {
	case m.entry != nil:
		add(true, "Enter", "send")
		add(true, "Ctrl-J", "new line")
		add(true, "Esc", "back")
	case len(m.asked) > 0:
		add(true, "y", "yes")
		add(true, "n", "no")
	case m.choice != nil:
		add(true, "Esc", "back")
	case m.page != nil:
		add(true, "q", "back")
		add(true, "↑↓", "scroll")
		add(true, "g/G", "begin/end")
		add(m.page.of != nil, "l", "log")
		add(m.page.of != nil, "s", m.text())
		add(m.page.of != nil, "d", "diff")
		add(m.page.of != nil, "[ ]", "other "+m.unit()+"s")
	default:
		live, undo := a != nil && !a.over(), store.Request("")
		if live && m.opt.TakeBack != nil {
			undo = a.Run.Asked.CanUndo()
		}
		blocked := r != nil && (r.in == view.Blocked || r.in == view.Asks) && m.opt.Answer != nil
		add(a != nil && (len(a.Questions) > 0 && m.opt.Answer != nil || a.gateAsks() != "" && m.opt.Proceed != nil), "a", "answer")
		add(blocked, "r", "retry")
		add(true, "q", "leave")
		add(true, "?", "help")
		add(undo != "", keyOf(undo), "don't "+string(undo))
		add(true, "l", "log")
		add(true, "s", m.text())
		add(true, "d", "diff")
		for _, r := range []store.Request{store.RequestPause, store.RequestCancel} {
			add(live && m.opt.Request != nil && r != undo, keyOf(r), string(r))
		}
		add(true, "↑↓", "choose")
	}
	h := help.New()
	h.SetWidth(max(1, m.width-2))
	h.ShortSeparator = "  "
	h.Styles = help.Styles{Ellipsis: faint, ShortKey: bold, ShortDesc: faint, ShortSeparator: faint}
	return " " + h.ShortHelpView(list)
}

// help says what every key does.
func (m *model) help() string {
	tag := m.loop == nil || !m.loop.Prompt()
	unit, what := "iteration", "an iteration"
	if tag {
		unit, what = "attempt", "a task"
	}
	leave := bind("q Ctrl-C", "leave; the run goes on")
	if m.opt.Here {
		leave = bind("q", "leave the view: plain lines from then on, or cancel")
	}
	list := []key.Binding{
		bind("↑ ↓ j k", "choose "+what), bind("PgUp PgDn g G", "a page up, a page down; to the start, to the end"),
		bind("a", "answer what is asked"), bind("r", "try a blocked task again"),
		bind("Enter l", "its log, which follows what the agent prints"), bind("s", "its "+m.text()+": what its agent is given"), bind("d", "the diff of its last "+unit),
		bind("[ ]", "there: the "+unit+" before, and the next one"), bind("p", "pause the run, or take that back"), bind("c", "cancel the run, or take that back"),
	}
	if m.opt.Interrupt != nil {
		list = append(list, bind("Ctrl-C", "finish the running "+unit+" and end; again: interrupt the agent"))
	}
	list = append(list, leave)
	text := "Keys\n\n"
	line := func(name, what string) {
		for _, l := range terminal.Wrap(what, max(12, m.width-19)) {
			text += "  " + (name + "              ")[:14+len(name)-len([]rune(name))] + " " + l + "\n"
			name = ""
		}
	}
	for _, b := range list {
		line(b.Help().Key, b.Help().Desc)
	}
	if !tag {
		return text
	}
	text += "\nSigns\n\n"
	for _, s := range view.Stands() {
		line(s.Sign(), s.Help())
	}
	return text
}
