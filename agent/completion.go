package agent

import (
	"cmp"
	"regexp"
	"strings"

	"descartes/internal/oneline"
	"descartes/internal/promise"
)

// Asks is what the reason of an attempt begins with whose agent asks.
const Asks = "it asks: "

const (
	doneWord = "TASK_COMPLETE"
	stopWord = "TASK_BLOCKED"
	askWord  = "TASK_QUESTION"

	emphasis = " \t*_"

	reasonLimit = 500
)

// claims looks in an agent's own words for those that say how far it got, by the rule of package promise; the later
// one counts.
//
//   - the promise word, "" is COMPLETE;
//   - TASK_COMPLETE alone on a line;
//   - TASK_BLOCKED: reason, or TASK_QUESTION: question, on a line of its own.
func claims(own, word string) (complete bool, blocked, asks string) {
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
		} else if reason, ok := after(stopWord, line.Text); ok {
			stopped, blocked, asks = n, reason, ""
		} else if text, ok := after(askWord, line.Text); ok {
			stopped, blocked, asks = n, Asks+text, text
		}
	}
	if stopped > done {
		return false, blocked, asks
	}
	return done >= 0, "", ""
}

// after reads TASK_BLOCKED, or another word, and what follows it.
func after(word, line string) (reason string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimLeft(line, emphasis), word)
	if !ok {
		return "", false
	}
	rest = strings.TrimLeft(rest, "*_") // **TASK_BLOCKED**: reason
	reason, ok = strings.CutPrefix(rest, ":")
	reason = strings.TrimSpace(strings.TrimLeft(reason, "*_"))
	switch {
	case !ok && strings.Trim(rest, emphasis+".!") != "": // TASK_BLOCKED_BY, "TASK_BLOCKED is for ..."
		return "", false
	// <reason>: how to say it
	case strings.HasPrefix(reason, "<") && strings.HasSuffix(strings.TrimRight(reason, emphasis+".!"), ">"):
		return "", false
	}
	reason = strings.ReplaceAll(strings.TrimRight(strings.ToValidUTF8(reason, "\uFFFD"), "*_"), "\x00", "")
	return oneline.Clip(cmp.Or(reason, "no reason given"), reasonLimit), true
}

// questionLimit is how much of a question is kept.
const questionLimit = 1000

// question returns what a final message asks its reader: the paragraph with the question and the choices below it; ""
// if it asks nothing. It does not know whether the agent did anything else.
func question(message string) string { return ending(message, asks) }

// ToReader returns the end of a final message that speaks to its reader: a request, or what the agent lacks, with or
// without a question mark. A report of finished work and an announcement of what it does next are neither.
func ToReader(message string) string { return ending(message, speaks) }

func ending(message string, wanted func(paragraph string) bool) string {
	paragraphs := strings.Split(strings.TrimSpace(unfenced(message)), "\n\n")
	for back := 1; back <= min(3, len(paragraphs)); back++ {
		at := len(paragraphs) - back
		switch text := strings.TrimSpace(paragraphs[at]); {
		case wanted(text):
			return oneline.Clip(strings.TrimSpace(strings.Join(paragraphs[at:], "\n\n")), questionLimit)
		case back > 1 && !isList(text):
			return ""
		}
	}
	return ""
}

// asks reports whether a line of the paragraph ends with a question mark, or asks the reader what to do.
func asks(paragraph string) bool {
	question := regexp.MustCompile(
		`[?？][\s*_\x60"')”»]*$|(?i)\b((should|shall) I|(do|would) you (want|like|prefer))\b.*\?`)
	for line := range strings.Lines(paragraph) {
		if question.MatchString(line) && !strings.Contains(line, "anything else") &&
			!strings.Contains(line, "any questions") {
			return true
		}
	}
	return false
}

// speaks reports whether a sentence of the paragraph is for its reader.
func speaks(paragraph string) bool {
	reader := regexp.MustCompile(`(?i)[?？]\W*$|\b(you|your|please|let me know|tell me|I need|waiting|unclear|await)\b`)
	courtesy := regexp.MustCompile(
		`(?i)anything else|any questions|feel free|as (you )?(asked|requested)|happy to|you can now|for you\W*$`)
	reports := regexp.MustCompile(
		`(?i)\b(done|(is|are|was|were|been|already|now) (complete|completed|finished|implemented|fixed|there|in place)|I('ve| have)? (implemented|finished|completed|fixed|added|wrote)|pass(es)?|no changes? (is |are |was |were )?(needed|required|necessary)|nothing (left )?to do)\b`)
	intent := regexp.MustCompile(
		`(?i)^(\W|now|next|first|then|okay|ok)*(I('|’)(ll|m going to)|I will|I am going to|let me ([^k]|k[^n]))`)
	found := false
	for _, s := range regexp.MustCompile(`[^.!?？\n]+[.!?？]*`).FindAllString(paragraph, -1) {
		if s = strings.TrimSpace(s); reports.MatchString(s) {
			return false
		}
		found = found || reader.MatchString(s) && !courtesy.MatchString(s) &&
			(!intent.MatchString(s) || strings.Contains(s, "wait"))
	}
	return found
}

// isList reports whether every line is an item or belongs to one: the choices
// that a question offers.
func isList(paragraph string) bool {
	item := regexp.MustCompile(`^(\s|[-*•] |[(*]*\w{1,2}[.):])`)
	for line := range strings.Lines(paragraph) {
		if !item.MatchString(line) {
			return false
		}
	}
	return true
}
