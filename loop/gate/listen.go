package gate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// heard is what an agent says in one iteration, from whichever place it says it.
type heard struct {
	signal  bool
	blocked string
}

// listen reads .loop/state.json, the last ---LOOP_STATUS--- block (or, in its other dialect,
// ---RALPH_STATUS---) and the tags of the final message. The block outranks the file, which the loop
// itself wrote before; the tag <loop-complete> is a signal where there is no block.
func (c *Criteria) listen(f Facts, d *Decision) heard {
	s := c.readState(f.State, d)
	done, blocked, inner := tags(f.Final)
	b, _, ok := lastBlock(f.Final, "LOOP_STATUS")
	if !ok {
		b, _, ok = lastBlock(f.Final, "RALPH_STATUS")
	}
	switch {
	case ok:
		s.signal = b.signal(func(format string, args ...any) { d.warn("status block: "+format, args...) })
		c.hear(&b, d)
		if done && !s.signal {
			d.warn("the message has <loop-complete>, but EXIT_SIGNAL is not true")
		}
	case done:
		s.signal = true
		c.ticks(inner)
	default:
		d.warn("the final message has no ---LOOP_STATUS--- block")
		d.Prompt += "Your last message had no ---LOOP_STATUS--- block. End every message with it, in exactly the format below.\n"
	}
	switch {
	case blocked:
		s.blocked = orElse(oneLine(inner, 500), "it gives no reason")
	case ok && fieldKey(b.values["STATUS"]) == IsBlocked:
		s.blocked = orElse(oneLine(orElse(b.values["RECOMMENDATION"], b.values["NEXT"]), 500), "it gives no reason")
	}
	return s
}

// readState takes over what the agent wrote into the file: which criteria are met, which steps are
// complete. The criteria themselves are not the agent's to change.
func (c *Criteria) readState(src []byte, d *Decision) heard {
	if src == nil {
		return heard{}
	}
	st, problems, err := DecodeState(src)
	if err != nil {
		d.warn("%s; it is written anew", err)
		return heard{}
	}
	d.Warnings = append(d.Warnings, problems...)
	c.Others = st.Encode()
	for _, k := range slices.Sorted(maps.Keys(st.Status)) {
		c.state(k, st.Status[k], d)
	}
	for _, k := range c.Asked.Criteria {
		if len(st.Criteria) > 0 && !slices.ContainsFunc(st.Criteria, func(s string) bool { return name(s) == name(k.Text) }) {
			d.warn("the criterion %q is gone from .loop/state.json; it still counts", k.Text)
		}
	}
	if n := len(st.Steps); n > 0 && n <= maxCriteria {
		c.Steps = st.Steps
	}
	c.Completed = slices.DeleteFunc(slices.Clone(st.Completed), func(s string) bool { return !slices.Contains(c.Steps, s) })
	return heard{signal: st.ExitSignal}
}

// hear takes a block's CRITERIA and NEXT. CRITERIA is a JSON object, on one line or several, of
// booleans or of {"met": ..., "verification": ...}; where it is none, "name: true" lines are read.
func (c *Criteria) hear(b *fields, d *Decision) {
	if next := orElse(b.values["NEXT"], b.values["RECOMMENDATION"]); next != "" {
		c.Next = oneLine(next, 300)
	}
	body := strings.Join(b.body, "\n")
	at := strings.Index(strings.ToUpper(body), "CRITERIA")
	if at >= 0 && len(strings.ToUpper(body)) == len(body) {
		body = body[at:]
	}
	if from := strings.IndexByte(body, '{'); at >= 0 && from >= 0 {
		var status map[string]json.RawMessage
		if err := json.NewDecoder(strings.NewReader(body[from:])).Decode(&status); err != nil {
			d.warn("status block: CRITERIA is not a JSON object")
			return
		}
		for _, k := range slices.Sorted(maps.Keys(status)) {
			m, ok := decodeMet(status[k])
			if !ok {
				d.warn("status block: %q is neither true nor false", oneLine(k, 80))
				m.Met = false
			}
			c.state(k, m, d)
		}
		return
	}
	for _, k := range c.Asked.Criteria {
		if yes, ok := truth(b.values[fieldKey(k.Text)]); ok {
			c.state(k.Text, Met{Met: yes}, d)
		}
	}
}

// state takes what is said about one criterion, by any spelling of its name.
func (c *Criteria) state(said string, m Met, d *Decision) {
	for _, k := range c.Asked.Criteria {
		if name(k.Text) != name(said) {
			continue
		}
		if m.Verification == "" {
			m.Verification = orElse(c.Status[k.Text].Verification, k.Verification)
		}
		c.Status[k.Text] = m
		return
	}
	if unknown := fmt.Sprintf("%q is no criterion of this loop", oneLine(said, 80)); !slices.Contains(d.Warnings, unknown) {
		d.warn("%s", unknown)
	}
}

// ticks takes the list inside <loop-complete>: "- tests pass: ✓".
func (c *Criteria) ticks(inner string) {
	for line := range strings.SplitSeq(inner, "\n") {
		line = strings.TrimSpace(line)
		text := strings.TrimSpace(line[listMark(line):])
		for _, mark := range []string{"✓", "✔", "✅"} {
			if rest, ok := strings.CutSuffix(text, mark); ok {
				c.state(strings.TrimRight(rest, " :-—"), Met{Met: true}, &Decision{})
			}
		}
	}
}

// check lets the commands decide that are bound to criteria, and warns of what rests on nothing.
func (c *Criteria) check(f Facts, d *Decision) {
	for _, k := range c.Asked.Criteria {
		m := c.Status[k.Text]
		if k.Command != "" {
			agent := m.Met
			m.Met, m.Verification = false, ByExecution
			at := slices.IndexFunc(f.Checks, func(r Check) bool { return r.Name == k.Text })
			switch {
			case at < 0:
				d.warn("the command of %q has not run", k.Text)
			case f.Checks[at].Passed:
				m.Met = true
			case agent:
				d.warn("the agent says that %q is met, but its command fails", k.Text)
			}
			c.Status[k.Text] = m
		}
		if m.Met && assumed(m.Verification) {
			d.warn("%q rests on an assumption (%s) and does not count", k.Text, oneLine(m.Verification, 80))
		}
	}
}

// violated names the first mustNot condition whose command says that it is true.
func (c *Criteria) violated(f Facts) string {
	for _, k := range c.Asked.MustNot {
		for _, r := range f.Checks {
			if r.Name == mustNotName(k) && r.Passed {
				return k.Text
			}
		}
	}
	return ""
}

// tags finds <loop-complete> and <loop-blocked> at the start of a line outside code, the last of
// either. inner is what stands between the tag and its end, or the end of the message.
func tags(message string) (done, blocked bool, inner string) {
	lines, code := prose(message)
	end := ""
	var body []string
	for n, line := range lines {
		text := bare(line)
		for _, tag := range []string{"complete", "blocked"} {
			rest, ok := strings.CutPrefix(text, "<loop-"+tag+">")
			if !ok || code[n] || strings.HasPrefix(strings.TrimLeft(line, " \t>*_"), "`") && !strings.HasSuffix(strings.TrimSpace(line), "`") {
				continue
			}
			done, blocked, end, body = tag == "complete", tag == "blocked", "</loop-"+tag+">", nil
			text, line = rest, rest
		}
		if end == "" {
			continue
		}
		before, _, closed := strings.Cut(line, end)
		if body = append(body, before); closed {
			end = ""
			inner = strings.TrimSpace(strings.Join(body, "\n"))
		}
	}
	if end != "" {
		inner = strings.TrimSpace(strings.Join(body, "\n"))
	}
	return done, blocked, inner
}

func orElse(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
