package agent

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// limitIn looks for claude's words about a used-up quota and for when it ends.
// Only the end of a run that failed is to be given to it: a working agent may
// well write about limits.
func limitIn(text string, now time.Time) (line string, until time.Time, ok bool) {
	limit := regexp.MustCompile(`(?i)usage limit reached|(5-hour|hourly|daily|weekly|session|opus|sonnet|spending) limit reached|hit your .{0,40}limit|out of extra usage`)
	for l := range strings.Lines(text) {
		if limit.MatchString(l) {
			line, ok = clip(strings.TrimSpace(l), 200), true // the last one counts
		}
	}
	if ok {
		until = resetTime(line, now)
	}
	return line, until, ok
}

// resetTime reads "|1750708800", "resets 3pm", "resets 9:32pm (UTC)" and
// "resets Nov 23, 8:33pm (Europe/Lisbon)". Without a zone it is the local one,
// without a date the next such time; zero means that there is none.
func resetTime(line string, now time.Time) time.Time {
	if m := regexp.MustCompile(`\|(\d{10})(\d{3})?\b`).FindStringSubmatch(line); m != nil {
		if s, err := strconv.ParseInt(m[1], 10, 64); err == nil {
			return time.Unix(s, 0)
		}
	}
	m := regexp.MustCompile(`(?i)resets?( at)? +(?:([a-z]{3})[a-z]* +(\d{1,2})(?:st|nd|rd|th)?,?(?: +at)? +)?(\d{1,2})(?::(\d{2}))? ?([ap]m)(?: *\(([^)]+)\))?`).FindStringSubmatch(line)
	if m == nil {
		return time.Time{}
	}
	zone := now.Location()
	if m[7] != "" {
		if z, err := time.LoadLocation(strings.TrimSpace(m[7])); err == nil {
			zone = z
		}
	}
	clock, err := time.Parse("3:04pm", m[4]+":"+or(m[5], "00")+strings.ToLower(m[6]))
	if err != nil {
		return time.Time{}
	}
	local := now.In(zone)
	at := time.Date(local.Year(), local.Month(), local.Day(), clock.Hour(), clock.Minute(), 0, 0, zone)
	if m[2] == "" {
		if !at.After(now) {
			at = time.Date(local.Year(), local.Month(), local.Day()+1, clock.Hour(), clock.Minute(), 0, 0, zone)
		}
		return at
	}
	day, err := time.Parse("Jan 2", strings.ToUpper(m[2][:1])+strings.ToLower(m[2][1:])+" "+m[3])
	if err != nil {
		return time.Time{}
	}
	at = time.Date(local.Year(), day.Month(), day.Day(), clock.Hour(), clock.Minute(), 0, 0, zone)
	if at.Before(now.AddDate(0, -6, 0)) { // said in December about January
		at = at.AddDate(1, 0, 0)
	}
	return at
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// refusalIn looks for claude's words for what no further attempt would mend.
func refusalIn(text string) (line string, ok bool) {
	fatal := regexp.MustCompile(`(?i)not logged in|invalid api key|credit balance is too low|cannot be used with root|authentication_(error|failed)|oauth token has expired`)
	for l := range strings.Lines(text) {
		if fatal.MatchString(l) {
			line, ok = clip(strings.TrimSpace(l), 200), true
		}
	}
	return line, ok
}
