package quota

import (
	"strings"

	"descartes/internal/lazyregexp"
)

// dialect is a way to say that a quota is used up.
type dialect struct {
	of     string // who says so: a client, or the provider whose words it passes on
	words  *lazyregexp.Regexp
	name   string // of the quota, with what the groups of words matched; "" where it is not renewed by itself
	person bool   // somebody has to pay, or to raise a cap
}

// dialects are all that is known; the first row that fits counts. Words are the last resort: a client's events, a
// status and the time that it tells come first.
var dialects = []dialect{
	{"Codex", lazyregexp.New(`(?i)\bout of credits\b`), "", true},
	{"Codex", lazyregexp.New(`(?i)\bspend(?:ing)? cap\b`), "", true},
	{"Codex", lazyregexp.New(`(?i)to use \w+ with your .{0,20}plan, upgrade`), "", true},
	{"OpenAI", lazyregexp.New(`(?i)billing.hard.limit`), "", true},
	{"OpenAI", lazyregexp.New(`(?i)insufficient_quota|exceeded your current quota`), "", true},
	{"Anthropic", lazyregexp.New(`(?i)credit balance is too low`), "", true},

	{"Claude, Codex", lazyregexp.New(`(?i)(?:hit|reached) your (.{0,40}?) ?limit\b`), "$1 limit", false},
	{"Claude, opencode, Z.ai", lazyregexp.New(
		`(?i)(usage|\d+-hour|hour|hourly|daily|weekly|session|opus|sonnet|spending) limit (?:has been )?reached`),
		"$1 limit", false},
	{"Claude", lazyregexp.New(`(?i)out of (extra usage|usage credits)`), "$1", false},
	{"Anthropic", lazyregexp.New(`(?i)exceed your account's rate limit`), "account rate limit", false},
	{"Gemini", lazyregexp.New(`(?i)\b(individual) quota reached`), "$1 quota", false},
	{"Gemini", lazyregexp.New(`(?i)exhausted your (daily quota|capacity)`), "$1", false},
	{"OpenAI, OpenRouter", lazyregexp.New(`(?i)rate limit (?:reached|exceeded)\b.{0,160}\bper[- ]day\b`), "daily limit",
		false},
	{"DashScope", lazyregexp.New(`(?i)\b(hour|week|month) allocated quota exceeded`), "$1 quota", false},
	{"Z.ai", lazyregexp.New(`(?i)(weekly/monthly) limit exhausted`), "$1 limit", false},
	{"Z.ai", lazyregexp.New(`使用上限`), "usage limit", false},
}

// Phrase is Named for text that may be the agent's own.
func Phrase(text string) (name string, ok bool) {
	text = strings.ReplaceAll(text, "’", "'")
	for _, d := range dialects {
		if at := d.words.FindStringSubmatchIndex(text); at != nil && !d.person {
			name = strings.TrimSpace(string(d.words.ExpandString(nil, d.name, text, at)))
			if name == "limit" {
				name = "usage limit"
			}
			return name, true
		}
	}
	return "", false
}

// Spent reports whether a text says that money is used up, or a cap is reached, and not when to ask again: a person has
// to do something about that.
func Spent(text string) bool {
	if SaysWhen(text) {
		return false
	}
	for _, d := range dialects {
		if d.person && d.words.MatchString(text) {
			return true
		}
	}
	return false
}

// SaysWhen reports whether an error says when to ask again: "Please retry in 33.5s".
func SaysWhen(text string) bool { return again.MatchString(text) }

var again = lazyregexp.New(`(?i)\b(retry|again) (in|after) +\d`)
