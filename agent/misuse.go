package agent

import (
	"regexp"
	"strings"

	"descartes/internal/oneline"
	"descartes/internal/terminal"
)

// misused reports whether the client rejected its command line, and returns the line that says why. Use it for a run
// that failed without an event or a word on standard output: another attempt, at whatever task, would fail in the same
// way.
func (r *Runner) misused(q Request) (why string, ok bool) {
	return usageError(terminal.Strip(q.errors(false)), r.backend.Name)
}

// usageError looks for a complaint about the command line in the beginning of
// what a program printed on standard error.
func usageError(text, name string) (why string, ok bool) {
	help := regexp.MustCompile(`(?im)^(usage|options):`).MatchString(text)
	complaint := regexp.MustCompile(
		`(?i)^(\S+: )?(error: )?(unknown|unexpected|unrecognized|invalid|bad|no such) (arguments?|options?|values?|choices?|subcommand|command)\b` +
			`|^error: (option|the argument|the following (required )?arguments|a value is required|when using --)`)
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for n, line := range lines {
		if line = strings.TrimSpace(line); !complaint.MatchString(line) {
			continue
		}
		if strings.HasSuffix(line, ":") && n+1 < len(lines) {
			line += " " + strings.TrimSpace(lines[n+1])
		}
		return oneline.Clip(strings.TrimPrefix(strings.TrimPrefix(line, "error: "), "Error: "), 200), true
	}
	if !help {
		return "", false
	}
	first := strings.TrimSpace(lines[0])
	if first == "" || strings.HasPrefix(strings.ToLower(first), "usage") || strings.HasPrefix(first, name+" ") {
		return "it printed its usage, and nothing else", true
	}
	return oneline.Clip(first, 200), true
}
