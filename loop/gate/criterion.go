package gate

import (
	"errors"
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"

	"descartes/internal/markdown"
)

// maxCriteria and maxText limit what a person can ask of a criteria loop.
const (
	maxCriteria = 200
	maxText     = 1000
)

// Criterion is one condition of success, or, in a list of what must not be, of failure.
type Criterion struct {
	Text         string `json:"text"`
	Command      string `json:"command,omitempty"`      // exit status 0 says that the text is true
	Verification string `json:"verification,omitempty"` // how to verify it: "execution output", "observation" ...
}

// ParseCriterion reads "text" or "text :: command". The last " :: " divides.
func ParseCriterion(s string) (Criterion, error) {
	text, command := s, ""
	if at := strings.LastIndex(s, "::"); at >= 0 {
		text, command = s[:at], strings.TrimSpace(s[at+2:])
		if command == "" {
			return Criterion{}, fmt.Errorf("criterion %q: no command after ::", oneLine(s, 80))
		}
	}
	c := Criterion{Text: squeeze(text), Command: command}
	switch {
	case c.Text == "":
		return c, fmt.Errorf("criterion %q: no text", oneLine(s, 80))
	case len(c.Text) > maxText || len(command) > 16*maxText:
		return c, fmt.Errorf("criterion %q: longer than %d bytes", oneLine(s, 80), maxText)
	}
	return c, nil
}

// ParseCriteria reads several, as flags give them.
func ParseCriteria(list []string) ([]Criterion, error) {
	var out []Criterion
	for _, s := range list {
		c, err := ParseCriterion(s)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, CheckCriteria(out)
}

// CheckCriteria says what is wrong with a list as a whole: duplicate names, or too many entries.
func CheckCriteria(list []Criterion) error {
	if len(list) > maxCriteria {
		return fmt.Errorf("%d criteria: at most %d are allowed", len(list), maxCriteria)
	}
	seen := map[string]string{}
	for _, c := range list {
		k := name(c.Text)
		if before, ok := seen[k]; ok {
			return fmt.Errorf("the criteria %q and %q have the same name", before, c.Text)
		}
		seen[k] = c.Text
	}
	return nil
}

// name identifies a criterion by its words, so that an agent may write it in its own way.
func name(text string) string {
	if k := strings.Join(words(text), " "); k != "" {
		return k
	}
	return squeeze(text)
}

// Asked is what a criteria loop is asked for, in whichever place.
type Asked struct {
	Criteria []Criterion
	MustNot  []Criterion // conditions that must not become true; a command tests the condition itself
}

// ParseYAML reads a YAML list of criteria, or a mapping with criteria, mustNot and verification. An
// entry is a text, "text :: command", or a mapping with text (or criterion, name), command (or run)
// and verification.
func ParseYAML(src []byte) (Asked, error) {
	if len(src) > 1<<20 {
		return Asked{}, errors.New("criteria file is larger than 1 MiB")
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(src, &doc); err != nil {
		return Asked{}, fmt.Errorf("read criteria: %w", err)
	}
	if len(doc.Content) == 0 {
		return Asked{}, errors.New("the criteria file is empty")
	}
	var a Asked
	var err error
	switch root := doc.Content[0]; root.Kind {
	case yaml.SequenceNode:
		a.Criteria, err = yamlList(root)
	case yaml.MappingNode:
		err = a.yamlMap(root)
	default:
		err = fmt.Errorf("line %d: expected a list of criteria", root.Line)
	}
	if err == nil && len(a.Criteria) == 0 {
		err = errors.New("the criteria file names no criterion")
	}
	if err == nil {
		err = CheckCriteria(a.Criteria)
	}
	return a, err
}

func (a *Asked) yamlMap(m *yaml.Node) (err error) {
	how := map[string]string{}
	for i := 0; i+1 < len(m.Content); i += 2 {
		key, value := m.Content[i], m.Content[i+1]
		switch sectionOf(key.Value) {
		case "criteria":
			a.Criteria, err = yamlList(value)
		case "mustnot":
			a.MustNot, err = yamlList(value)
		case "verification":
			for k := 0; value.Kind == yaml.MappingNode && k+1 < len(value.Content); k += 2 {
				how[name(value.Content[k].Value)] = value.Content[k+1].Value
			}
		}
		if err != nil {
			return err
		}
	}
	a.verify(how)
	return nil
}

func yamlList(list *yaml.Node) ([]Criterion, error) {
	if list.Kind != yaml.SequenceNode {
		return nil, fmt.Errorf("line %d: expected a list", list.Line)
	}
	var out []Criterion
	for _, n := range list.Content {
		c, err := yamlCriterion(n)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n.Line, err)
		}
		out = append(out, c)
	}
	return out, nil
}

func yamlCriterion(n *yaml.Node) (Criterion, error) {
	switch n.Kind {
	case yaml.ScalarNode:
		return ParseCriterion(n.Value)
	case yaml.MappingNode:
	default:
		return Criterion{}, errors.New("expected a text")
	}
	var c Criterion
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i].Value, n.Content[i+1].Value
		switch strings.ToLower(key) {
		case "text", "criterion", "name":
			c.Text = squeeze(value)
		case "command", "run":
			c.Command = strings.TrimSpace(value)
		case "verification":
			c.Verification = squeeze(value)
		default:
			if len(n.Content) != 2 {
				return c, fmt.Errorf("unknown key %q: expected text, command, verification", key)
			}
			if rest, ok := strings.CutSuffix(key, ":"); ok { // text :: command, without quotes
				return ParseCriterion(rest + " :: " + value)
			}
			return ParseCriterion(key + ": " + value)
		}
	}
	if c.Text == "" || len(c.Text) > maxText {
		return c, errors.New("a criterion needs a text of at most 1000 bytes")
	}
	return c, nil
}

// verify sets, by name, how criteria are to be verified.
func (a *Asked) verify(how map[string]string) {
	for i := range a.Criteria {
		c := &a.Criteria[i]
		if v, ok := how[name(c.Text)]; ok && c.Verification == "" {
			c.Verification = squeeze(v)
		}
	}
}

// sectionOf says which part begins at a key or heading: criteria, mustnot, verification, or "".
func sectionOf(title string) string {
	switch strings.Join(words(title), "") {
	case "criteria", "successcriteria", "implementationcriteria", "acceptancecriteria":
		return "criteria"
	case "mustnot", "mustnots", "mustnotconstraints", "mustnotconditions":
		return "mustnot"
	case "verification", "verificationplan", "criteriadetails", "verificationtypes":
		return "verification"
	}
	return ""
}

// ParseShape reads the criteria, mustNot and verification sections of a SHAPE.md. A section begins at a heading or at
// a line such as "criteria:", in fenced YAML or outside; its entries are list items, "name: value" lines or rows of a
// table. The rest of the document is ignored. A document with neither criteria nor mustNot is an error: its author
// meant to ask something.
func ParseShape(text string) (Asked, error) {
	if len(text) > 1<<20 {
		return Asked{}, errors.New("SHAPE.md is larger than 1 MiB")
	}
	doc, err := markdown.Parse(text)
	if err != nil {
		return Asked{}, fmt.Errorf("SHAPE.md %w", err)
	}
	var a Asked
	section, how, commands := "", map[string]string{}, map[string]string{}
	for n := range doc.Lines {
		line := strings.TrimSpace(doc.Line(n))
		label := strings.HasSuffix(line, ":") && doc.Line(n)[0] == line[0] && sectionOf(line) != ""
		if doc.Lines[n].Kind == markdown.Heading || label {
			section = sectionOf(line)
			continue
		}
		item, listed := entry(line)
		var c Criterion
		switch {
		case strings.HasPrefix(line, "|") && (section == "criteria" || section == "verification"):
			verificationRow(line, how, commands)
		case section == "verification" && strings.Contains(line, ":"):
			at := strings.LastIndex(item, ":")
			how[name(unquote(item[:at]))] = squeeze(unquote(item[at+1:]))
		case listed && (section == "criteria" || section == "mustnot"):
			if n := len(item); n > 1 && strings.ContainsRune(`"'`, rune(item[0])) && item[n-1] == item[0] {
				item = item[1 : n-1]
			}
			if c, err = ParseCriterion(item); err != nil {
				return Asked{}, err
			}
			if section == "criteria" {
				a.Criteria = append(a.Criteria, c)
			} else {
				a.MustNot = append(a.MustNot, c)
			}
		}
	}
	a.verify(how)
	for i := range a.Criteria {
		if c := &a.Criteria[i]; c.Command == "" {
			c.Command = commands[name(c.Text)]
		}
	}
	if len(a.Criteria)+len(a.MustNot) == 0 {
		return Asked{}, errors.New(`SHAPE.md has no criteria: expected a section "criteria:" with a list`)
	}
	return a, errors.Join(CheckCriteria(a.Criteria), CheckCriteria(a.MustNot))
}

// verificationRow reads a row of the table Criterion, Verification Type, Command/Method. A method that is one piece of
// code becomes the command, if the type is execution output.
func verificationRow(row string, how, commands map[string]string) {
	cells := markdown.Cells(row)
	if len(cells) < 2 {
		return
	}
	k, kind := name(unquote(cells[0])), squeeze(bare(cells[1]))
	how[k] = kind
	if len(cells) > 2 && isExecution(kind) {
		if code := strings.Trim(cells[2], "`"); len(code) == len(cells[2])-2 && !strings.Contains(code, "`") {
			commands[k] = code
		}
	}
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

// assumed reports whether the stated evidence is none.
func assumed(kind string) bool {
	for _, w := range words(kind) {
		switch w {
		case "assumption", "assumptions", "assumed", "assume", "unverified", "guess", "guessed", "presumed", "none":
			return true
		}
	}
	return strings.Contains(strings.ToLower(kind), "not verified")
}
