package quota

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
	"time"

	"descartes/internal/lazyregexp"
)

// Reset reads when a limit ends: "|1750708800", "in 5 days 22 hours",
// "after 8h32m10s", "at Nov 23rd, 2026 8:33 PM", "resets Nov 23, 8:33pm
// (Europe/Lisbon)", "resets 9:32pm (UTC)", "at 9:10 PM", "on 2026-12-01 at 00:00
// UTC", "resets at 05:40". Without a zone it is the local one, without a date the next such time;
// zero means that there is none, or that its zone is not known. What lies in the past is none, such as the time at which a log has the line.
func Reset(line string, now time.Time) time.Time {
	at := told(line, now)
	if at.After(now.AddDate(100, 0, 0)) { // a number that is no time
		return time.Time{}
	}
	return at
}

func told(line string, now time.Time) time.Time {
	if m := regexp.MustCompile(`\|(\d{10}|\d{13})\b`).FindStringSubmatch(line); m != nil {
		if at := Ahead(epochText(m[1]), now); !at.IsZero() {
			return at
		}
	}
	for _, m := range regexp.MustCompile(
		`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)`).FindAllString(line, 8) {
		if at, err := time.Parse(time.RFC3339, m); err == nil && at.After(now) {
			return at
		}
	}
	if m := dated.FindStringSubmatch(line); m != nil {
		zone := time.FixedZone("", 8*60*60) // Z.ai, the only provider that names none, means Beijing's
		if m[4] != "" {
			zone = zoneOf(m[4])
		}
		if zone == nil {
			return time.Time{}
		}
		if at, err := time.ParseInLocation("2006-01-02 15:04:05", m[1]+" "+m[2]+cmp.Or(m[3], ":00"),
			zone); err == nil && at.After(now) {
			return at
		}
	}
	if d, ok := After(line); ok {
		return now.Add(d)
	}
	return Ahead(resetClock(line, now), now)
}

// Ahead is a reset that lies ahead, or did lately; zero for another one.
func Ahead(at, now time.Time) time.Time {
	if now.Sub(at) > lately {
		return time.Time{}
	}
	return at
}

// dated is a date and a time of day as digits.
var dated = lazyregexp.New(`(?:\bon|\bat|将在) (\d{4}-\d\d-\d\d)(?: at)? (\d\d:\d\d)(:\d\d)?(?: ?(` + zoneWords + `))?`)

func epochText(s string) time.Time {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return time.Time{}
	}
	return Epoch(n)
}

// longestWait is more than any limit lasts.
const longestWait = 400 * 24 * time.Hour

// After reads how long a text asks to wait: "in 2h7m12s", "after 5 days 22 hours", "again in 842ms".
func After(line string) (d time.Duration, ok bool) {
	for _, at := range begins.FindAllStringIndex(line, 32) {
		if d, ok := span(line[at[1]:]); ok {
			return d, true
		}
	}
	return 0, false
}

var (
	begins = lazyregexp.New(`(?i)\b(?:in|after) +(?:about +|around +|approximately +|~ *)?`)
	// amount is a number and the whole word after it: of "842ms" that is "ms", of "8h32m" first "h".
	amount = lazyregexp.New(`^(?:[\s,]*(?:and +)?)(\d{1,7}(?:\.\d+)?)\s*([a-zA-Z]+)`)
)

// unit is how long one of a word is, 0 for a word that is no unit of time.
func unit(word string) time.Duration {
	switch strings.ToLower(word) {
	case "ms", "msec", "msecs", "millisecond", "milliseconds":
		return time.Millisecond
	case "s", "sec", "secs", "second", "seconds":
		return time.Second
	case "m", "min", "mins", "minute", "minutes":
		return time.Minute
	case "h", "hr", "hrs", "hour", "hours":
		return time.Hour
	case "d", "day", "days":
		return 24 * time.Hour
	case "w", "wk", "wks", "week", "weeks":
		return 7 * 24 * time.Hour
	case "mo", "mos", "month", "months":
		return 30 * 24 * time.Hour
	}
	return 0
}

// span adds up the amounts of time with which a text begins.
func span(text string) (sum time.Duration, ok bool) {
	for {
		m := amount.FindStringSubmatch(text)
		if m == nil || unit(m[2]) == 0 {
			if sum >= time.Second {
				sum = sum.Truncate(time.Second)
			}
			return sum, sum > 0
		}
		n, err := strconv.ParseFloat(m[1], 64)
		if d := n * float64(unit(m[2])); err != nil || d > float64(longestWait-sum) {
			return 0, false
		}
		sum += time.Duration(n * float64(unit(m[2])))
		text = text[len(m[0]):]
	}
}

// lately is how long ago a time of day may be that is not meant for tomorrow: clients cut off its seconds, and it is
// read when the process has ended.
const lately = 2 * time.Minute

// resetClock reads a time of day, with or without its date.
func resetClock(line string, now time.Time) time.Time {
	m := regexp.MustCompile(
		`(?i)(?:resets?(?: at)?|again at|until) +(?:([a-z]{3})[a-z]* +(\d{1,2})(?:st|nd|rd|th)?,?(?: +(\d{4}),?)?(?: +at)? +)?` +
			`(\d{1,2})(?:(?::(\d{2}))? ?([ap]m)|:(\d{2})\b)(?: *\(([^)]+)\)| *(` + zoneWords + `))?`).FindStringSubmatch(line)
	if m == nil {
		return time.Time{}
	}
	zone := now.Location()
	if name := cmp.Or(m[8], m[9]); name != "" {
		if zone = zoneOf(name); zone == nil {
			return time.Time{} // in whichever zone it is, it is not that time here
		}
	}
	layout, text := "3:04pm", m[4]+":"+cmp.Or(m[5], "00")+strings.ToLower(m[6])
	if m[6] == "" {
		layout, text = "15:04", m[4]+":"+m[7]
	}
	clock, err := time.Parse(layout, text)
	if err != nil {
		return time.Time{}
	}
	local := now.In(zone)
	on := func(year int, month time.Month, day int) time.Time {
		return time.Date(year, month, day, clock.Hour(), clock.Minute(), 0, 0, zone)
	}
	if m[1] == "" {
		at := on(local.Year(), local.Month(), local.Day())
		if now.Sub(at) > lately {
			at = on(local.Year(), local.Month(), local.Day()+1)
		}
		return at
	}
	day, err := time.Parse("Jan 2", strings.ToUpper(m[1][:1])+strings.ToLower(m[1][1:])+" "+m[2])
	if err != nil {
		return time.Time{}
	}
	if year, err := strconv.Atoi(m[3]); err == nil {
		return on(year, day.Month(), day.Day())
	}
	at := on(local.Year(), day.Month(), day.Day())
	if at.Before(now.AddDate(0, -6, 0)) { // said in December about January
		at = at.AddDate(1, 0, 0)
	}
	return at
}

// Epoch reads seconds or milliseconds since 1970; zero for none.
func Epoch(n float64) time.Time {
	switch {
	case n >= 1e9 && n < 1e11:
		return time.Unix(int64(n), 0)
	case n >= 1e12 && n < 1e14:
		return time.UnixMilli(int64(n))
	}
	return time.Time{}
}
