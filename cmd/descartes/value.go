package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"descartes/loop"
)

// secs is a number of seconds, given as such or as a duration.
type secs int

func (s *secs) String() string {
	if *s == 0 {
		return ""
	}
	text := (time.Duration(*s) * time.Second).String()
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}
	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
	}
	return text
}
func (*secs) Type() string { return "time" }

// cooldown is a number of seconds that says something: none at all is not what a breaker is for.
type cooldown struct{ *secs }

func (c cooldown) Set(text string) error {
	if err := c.secs.Set(text); err != nil {
		return err
	}
	if text != "" && *c.secs == 0 {
		return errors.New("it must be more than 0; loop resume --yes lets the loop try at once")
	}
	return nil
}

func (s *secs) Set(text string) error {
	if text == "" {
		*s = 0
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		d, derr := time.ParseDuration(text)
		if derr != nil {
			return fmt.Errorf("%q is no number of seconds and no duration like 20m", text)
		}
		n = int(math.Ceil(d.Seconds()))
	}
	if n < 0 || n > 1<<30 {
		return fmt.Errorf("%q is out of range", text)
	}
	*s = secs(n)
	return nil
}

// choice is one of a few words.
type choice struct {
	to    *string
	words string // separated by |
}

func (c choice) String() string {
	if c.to == nil {
		return ""
	}
	return *c.to
}
func (c choice) Type() string { return c.words }

func (c choice) Set(text string) error {
	for w := range strings.SplitSeq(c.words, "|") {
		if w == text {
			*c.to = text
			return nil
		}
	}
	return fmt.Errorf("%q is none of %s", text, strings.ReplaceAll(c.words, "|", ", "))
}

// breaker is a number of tasks, or off.
type breaker struct{ to *int }

func (b breaker) String() string {
	switch {
	case b.to == nil || *b.to == 0:
		return ""
	case *b.to < 0:
		return "off"
	}
	return strconv.Itoa(*b.to)
}
func (breaker) Type() string { return "N|off" }

func (b breaker) Set(text string) error {
	if text == "off" || text == "false" {
		*b.to = loop.BreakerOff
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return fmt.Errorf("%q is neither a number of tasks nor off", text)
	}
	*b.to = n
	return nil
}

// budget is warn or cut.
type budget struct{ cut *bool }

func (b budget) String() string {
	if b.cut != nil && *b.cut {
		return "cut"
	}
	return "warn"
}
func (budget) Type() string { return "warn|cut" }

func (b budget) Set(text string) error {
	word := ""
	if err := (choice{&word, "warn|cut"}).Set(text); err != nil {
		return err
	}
	*b.cut = word == "cut"
	return nil
}

// deadline is a point in time, given as such, as the next HH:MM, or as a duration from now.
type deadline struct{ at **time.Time }

func (d deadline) String() string {
	if d.at == nil || *d.at == nil {
		return ""
	}
	return (*d.at).Format(time.RFC3339Nano)
}
func (deadline) Type() string { return "time" }

func (d deadline) Set(text string) error {
	if text == "" {
		*d.at = nil
		return nil
	}
	t, err := parseDeadline(text, time.Now())
	if err != nil {
		return err
	}
	*d.at = &t
	return nil
}

func parseDeadline(text string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	if c, err := time.Parse("15:04", text); err == nil {
		t := time.Date(now.Year(), now.Month(), now.Day(), c.Hour(), c.Minute(), 0, 0, now.Location())
		if !t.After(now) {
			t = t.AddDate(0, 0, 1)
		}
		return t, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now.Add(d), nil
	}
	return time.Time{}, fmt.Errorf("%q is no time like 2006-01-02T15:04:05Z, no 15:04 and no duration like 8h", text)
}
