// Package quota reads what providers' clients say of a quota that is used up, which one it is and when it resets, and
// remembers it for every loop of a user.
package quota

import (
	"fmt"
	"strings"
	"time"

	"descartes/internal/lazyregexp"
)

// LongestFault is how long a provider may ask to be left alone without a quota being used up.
const LongestFault = 10 * time.Minute

// Told reads what a client said of the end of a run: which quota is used up, and when it resets. "Rate limit reached
// for M on tokens per min" is none, as the client or the next attempt gets past it, unless it takes long.
func Told(text string, now time.Time) (name string, until time.Time, ok bool) {
	until = Reset(text, now)
	if name, ok = Named(text); ok {
		return name, until, true
	}
	return "rate limit", until, until.Sub(now) > LongestFault && refusals.MatchString(text)
}

// Passes reports whether a refusal says that it is over so soon that no quota is used up: the client waits for that.
func Passes(text string, now time.Time) bool {
	if _, named := Named(text); named {
		return false
	}
	until := Reset(text, now)
	return !until.IsZero() && until.Sub(now) <= LongestFault
}

// refusals are words for a request that came too early, beside which a long wait is a quota's.
var refusals = lazyregexp.New(`(?i)rate.?limit|too many requests|\b429\b|exhausted|\b(?:retry|again) (?:in|after|at)\b`)

// Named looks for what clients say of a used-up quota, and gives it a name.
func Named(text string) (name string, ok bool) {
	if name, ok := Phrase(text); ok {
		return name, true
	}
	return "usage limit", strings.Contains(strings.ToLower(text), "usage limit")
}

// Kind is the name of a limit that claude's stream tells of.
func Kind(word string) string {
	switch word {
	case "five_hour":
		return "5-hour limit"
	case "seven_day":
		return "weekly limit"
	case "seven_day_opus":
		return "weekly Opus limit"
	case "seven_day_sonnet":
		return "weekly Sonnet limit"
	case "overage":
		return "extra usage limit"
	}
	return ""
}

// Find looks through the lines of a text for a limit and for when it ends.
// The last one counts. Only the end of a run that failed is to be given to it:
// a working agent may well write about limits.
func Find(text string, now time.Time) (name string, until time.Time, ok bool) {
	for l := range strings.Lines(text) {
		if n, is := Phrase(l); is {
			name, until, ok = n, Reset(l, now), true
		}
	}
	return name, until, ok
}

// Reason says in a person's words what is used up, and until when.
func Reason(owner, name string, until, now time.Time) string {
	what := owner + "'s " + name
	if until.IsZero() {
		return what + " is used up; it does not say when it resets"
	}
	until = until.In(now.Location())
	layout := "Mon 2 Jan 15:04"
	if until.Year() != now.Year() {
		layout = "Mon 2 Jan 2006 15:04"
	}
	return fmt.Sprintf("%s; resets %s (%s)", what, until.Format(layout), inWords(until.Sub(now)))
}

// inWords says how far away a time is.
func inWords(d time.Duration) string {
	if d > 0 && d < time.Minute {
		return "within a minute"
	}
	d = d.Round(time.Minute)
	days, hours, minutes := int(d/(24*time.Hour)), int(d/time.Hour)%24, int(d/time.Minute)%60
	switch {
	case d <= 0:
		return "now"
	case days > 0 && hours == 0:
		return fmt.Sprintf("in %d d", days)
	case days > 0:
		return fmt.Sprintf("in %d d %d h", days, hours)
	case hours > 0 && minutes == 0:
		return fmt.Sprintf("in %d h", hours)
	case hours > 0:
		return fmt.Sprintf("in %d h %d min", hours, minutes)
	}
	return fmt.Sprintf("in %d min", minutes)
}
