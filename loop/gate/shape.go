package gate

import (
	"encoding/json"
	"fmt"
	"strings"
)

// ParseShape reads the criteria, mustNot and verification sections of a SHAPE.md. A section begins at
// a heading or at a line such as "criteria:", in fenced YAML or outside; its entries are list items,
// "name: value" lines or rows of a table. Whatever else the document says is not read. One that has neither
// criteria nor mustNot is an error: its author meant to ask something.
func ParseShape(text string) (Asked, error) {
	if len(text) > 1<<20 {
		return Asked{}, fmt.Errorf("SHAPE.md is larger than 1 MiB")
	}
	r := shapeReader{how: map[string]string{}, commands: map[string]string{}}
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
		r.line(line)
		if r.err != nil {
			return Asked{}, r.err
		}
	}
	r.asked.verify(r.how)
	for i := range r.asked.Criteria {
		if c := &r.asked.Criteria[i]; c.Command == "" {
			c.Command = r.commands[name(c.Text)]
		}
	}
	if len(r.asked.Criteria)+len(r.asked.MustNot) == 0 {
		return Asked{}, fmt.Errorf(`SHAPE.md has no criteria: expected a section "criteria:" with a list`)
	}
	return r.asked, CheckCriteria(r.asked.Criteria)
}

type shapeReader struct {
	asked    Asked
	section  string
	fenced   bool
	header   bool              // the next row of a table is its head
	how      map[string]string // name of a criterion to its kind of verification
	commands map[string]string
	err      error
}

func (r *shapeReader) line(line string) {
	text := strings.TrimSpace(line)
	switch {
	case text == "" || text == "---":
		r.header = true
		return
	case strings.HasPrefix(text, "```") || strings.HasPrefix(text, "~~~"):
		if r.fenced = !r.fenced; !r.fenced && r.section != "" && indentOf(line) == 0 {
			r.header = true
		}
		return
	case heading(text) > 0 && !r.fenced:
		r.section, r.header = sectionOf(strings.Trim(text, "# \t")), true
		return
	case strings.HasSuffix(text, ":") && listMark(text) == 0 && indentOf(line) == 0:
		if s := sectionOf(bare(text)); s != "" || r.fenced {
			r.section = s
		}
		return
	}
	if r.json(text) {
		return
	}
	switch r.section {
	case "criteria":
		r.item(text, &r.asked.Criteria)
	case "mustnot":
		r.item(text, &r.asked.MustNot)
	case "verification":
		r.verification(text)
	}
}

// item takes a list item; other lines of the section are its prose, and tables in it are details.
func (r *shapeReader) item(text string, to *[]Criterion) {
	mark := listMark(text)
	if strings.HasPrefix(text, "|") {
		if to == &r.asked.Criteria {
			r.verification(text)
		}
		return
	}
	if mark == 0 {
		return
	}
	if _, _, rest, ok := entry(text); ok {
		text, mark = rest, 0
	}
	text = strings.TrimSpace(text[mark:])
	if n := len(text); n > 1 && (text[0] == '"' || text[0] == '\'') && text[n-1] == text[0] {
		text = text[1 : n-1]
	}
	c, err := ParseCriterion(text)
	if err == nil && len(*to) >= maxCriteria {
		err = fmt.Errorf("SHAPE.md has more than %d entries in one section", maxCriteria)
	}
	if err != nil {
		r.err = err
		return
	}
	*to = append(*to, c)
}

// verification takes "name: kind", or a row of the table Criterion, Verification Type, Command/Method.
// A method that is one piece of code binds it as a command, where the kind is execution output.
func (r *shapeReader) verification(text string) {
	if strings.HasPrefix(text, "|") {
		cells := strings.Split(strings.Trim(text, "|"), "|")
		if strings.Trim(text, "|-: \t") == "" || r.header {
			r.header = false
			return
		}
		if len(cells) < 2 {
			return
		}
		k, kind := name(unquote(cells[0])), squeeze(bare(cells[1]))
		r.how[k] = kind
		if len(cells) > 2 && isExecution(kind) {
			method := strings.TrimSpace(strings.Join(cells[2:], "|"))
			if n := len(method); n > 2 && method[0] == '`' && method[n-1] == '`' && strings.Count(method, "`") == 2 {
				r.commands[k] = method[1 : n-1]
			}
		}
		return
	}
	text = strings.TrimSpace(text[listMark(text):])
	if at := strings.LastIndex(text, ":"); at > 0 && len(r.how) < maxCriteria {
		r.how[name(unquote(text[:at]))] = squeeze(unquote(text[at+1:]))
	}
}

// json takes a line of a criteriaStatus mapping: "tests pass": {"met": false, "verification": "..."}.
func (r *shapeReader) json(text string) bool {
	if !r.fenced || !strings.HasPrefix(text, `"`) || !strings.Contains(text, `"verification"`) {
		return false
	}
	var m map[string]struct{ Verification string }
	if json.Unmarshal([]byte("{"+strings.TrimSuffix(text, ",")+"}"), &m) != nil {
		return false
	}
	for k, v := range m {
		if v.Verification != "" && len(r.how) < maxCriteria {
			r.how[name(k)] = squeeze(v.Verification)
		}
	}
	return true
}

func unquote(s string) string { return strings.Trim(s, " \t\"'*_`") }

// Kinds of evidence, the strongest first. Only an assumption never counts.
const (
	ByExecution   = "execution output"
	ByMeasurement = "measurement"
	ByObservation = "observation"
	ByReview      = "code review"
	ByAssumption  = "assumption"
)

func isExecution(kind string) bool { return strings.HasPrefix(strings.ToLower(kind), "execution") }

// assumed reports whether what is said to be the evidence is none.
func assumed(kind string) bool {
	for _, w := range words(kind) {
		switch w {
		case "assumption", "assumptions", "assumed", "assume", "unverified", "guess", "guessed", "presumed", "none":
			return true
		}
	}
	return strings.Contains(strings.ToLower(kind), "not verified")
}
