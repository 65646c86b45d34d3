package agent

import (
	"strings"

	"descartes/internal/promise"
)

const (
	doneWord = "TASK_COMPLETE"
	stopWord = "TASK_BLOCKED"

	emphasis = " \t*_"

	reasonLimit = 500
)

// claims looks in an agent's own words for those by which it says how far it
// got, by the rule of package promise; the later one counts.
//
//   - the promise word, "" is COMPLETE;
//   - TASK_COMPLETE alone on a line;
//   - TASK_BLOCKED: reason, on a line of its own.
func claims(own, word string) (complete bool, blocked string) {
	if word = promise.Word(word); word == "" {
		word = "COMPLETE"
	}
	lines := promise.Lines(own)
	done, stopped := promise.Made(lines, word), -1
	for n, line := range lines {
		if !line.Own {
			continue
		}
		if line.Bare() == doneWord {
			done = max(done, n)
		} else if reason, ok := stopReason(line.Text); ok {
			stopped, blocked = n, reason
		}
	}
	if stopped > done {
		return false, blocked
	}
	return done >= 0, ""
}

// stopReason reads TASK_BLOCKED and what follows it.
func stopReason(line string) (reason string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimLeft(line, emphasis), stopWord)
	if !ok {
		return "", false
	}
	rest = strings.TrimLeft(rest, "*_") // **TASK_BLOCKED**: reason
	reason, ok = strings.CutPrefix(rest, ":")
	reason = strings.TrimSpace(strings.TrimLeft(reason, "*_"))
	switch {
	case !ok && strings.Trim(rest, emphasis+".!") != "": // TASK_BLOCKED_BY, "TASK_BLOCKED is for ..."
		return "", false
	case strings.HasPrefix(reason, "<") && strings.HasSuffix(strings.TrimRight(reason, emphasis+".!"), ">"): // <reason>: how to say it
		return "", false
	}
	reason = strings.ReplaceAll(strings.TrimRight(strings.ToValidUTF8(reason, "\uFFFD"), "*_"), "\x00", "")
	return clip(or(reason, "no reason given"), reasonLimit), true
}
