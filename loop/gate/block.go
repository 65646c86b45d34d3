package gate

import (
	"strings"

	"descartes/internal/oneline"
)

// fields are the "KEY: value" lines of one status block, with keys in capitals and _ for blanks.
type fields struct {
	values map[string]string
	twice  map[string]bool // keys given again with another value
	closed bool            // the end line exists
	body   []string        // its lines, without quote marks
}

// lastBlock finds the last block that begins with ---NAME--- and ends with ---END_NAME---, with another of the ends,
// or with its fence or the message. Blocks may be in fenced code, in a quote or in emphasis, and their lines in a
// list: agents write them like that. The second result is the message without its blocks.
func lastBlock(message, name string) (f fields, rest string, ok bool) {
	var out []string
	inside, blank := false, false
	for _, line := range strings.Split(strings.ReplaceAll(message, "\r\n", "\n"), "\n") {
		switch marker := blockMarker(line); {
		case marker == name:
			f, inside, ok = fields{values: map[string]string{}, twice: map[string]bool{}}, true, true
			blank = false
		case inside && (marker == "END_"+name || marker == "END_STATUS" || marker == "END"):
			f.closed, inside = true, false
		case inside && (strings.HasPrefix(strings.TrimSpace(line), "```") ||
			strings.HasPrefix(strings.TrimSpace(line), "~~~")):
			inside = false
			out = append(out, line)
		case inside && blank && !f.known(line): // words after an unclosed block
			inside = false
			out = append(out, line)
		case inside:
			blank = strings.TrimSpace(line) == ""
			f.add(line)
		default:
			out = append(out, line)
		}
	}
	return f, strings.Join(out, "\n"), ok
}

// blockMarker is the NAME of a line ---NAME---, in capitals, or "".
func blockMarker(line string) string {
	line = bare(strings.TrimLeft(line, "# \t"))
	if len(line) > 100 || !strings.ContainsAny(line, "-—–") {
		return ""
	}
	name := strings.Trim(line, "-—– \t")
	if lead := line[:strings.Index(line, name)]; name == "" || len(strings.TrimSpace(lead)) < 2 {
		return ""
	}
	if !strings.HasSuffix(line, "-") && !strings.HasSuffix(line, "—") && !strings.HasSuffix(line, "–") {
		return ""
	}
	return fieldKey(name)
}

// known reports whether a line after a blank one still looks like a field or is blank too.
func (f *fields) known(line string) bool {
	key, _, ok := strings.Cut(bare(line), ":")
	key = bare(key)
	return bare(line) == "" || ok && key == strings.ToUpper(key) && len(strings.Fields(key)) < 5
}

func fieldKey(text string) string {
	return strings.ToUpper(strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return strings.ContainsRune(" \t_-*`", r)
	}), "_"))
}

func (f *fields) add(line string) {
	line = strings.TrimLeft(line, " \t>")
	if len(f.body) < 1000 {
		f.body = append(f.body, line)
	}
	line, _ = entry(line)
	at := strings.IndexAny(line, ":=")
	if at <= 0 || len(f.values) >= 64 {
		return
	}
	key, value := fieldKey(line[:at]), bare(line[at+1:])
	if key == "" || len(key) > 64 {
		return
	}
	if old, ok := f.values[key]; ok && !strings.EqualFold(old, value) {
		f.twice[key] = true
	}
	f.values[key] = oneline.Clip(value, 2000)
}

// truth reads a yes or no.
func truth(value string) (yes, ok bool) {
	switch strings.ToLower(strings.Trim(value, " .\"'")) {
	case "true", "yes", "1", "on":
		return true, true
	case "false", "no", "0", "off":
		return false, true
	}
	return false, false
}

// signal reads EXIT_SIGNAL. What is not clearly true is false, and gets reported.
func (f *fields) signal(problem func(string, ...any)) bool {
	value, given := f.values["EXIT_SIGNAL"]
	yes, ok := truth(value)
	switch {
	case !given:
		problem("EXIT_SIGNAL is missing and taken as false")
	case !ok:
		problem("EXIT_SIGNAL is %q, not true or false, and taken as false", oneline.Clip(value, 80))
	case f.twice["EXIT_SIGNAL"]:
		problem("EXIT_SIGNAL is given twice with different values and taken as false")
		return false
	}
	return yes
}

// word reads a field with a fixed set of words.
func (f *fields) word(key string, allowed []string, also map[string]string, problem func(string, ...any)) string {
	value, given := f.values[key]
	if !given || value == "" {
		return ""
	}
	w := fieldKey(strings.Trim(value, " .\"'[]"))
	if other, ok := also[w]; ok {
		w = other
	}
	for _, a := range allowed {
		if w == a {
			return a
		}
	}
	problem("%s is %q, not one of %s", key, oneline.Clip(value, 80), strings.Join(allowed, ", "))
	return ""
}
