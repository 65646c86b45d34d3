package quota

import (
	"testing"
	"time"
)

func TestFind(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 14, 30, 0, 0, time.UTC)
	day := func(d, h, m int) time.Time { return time.Date(2026, 11, d, h, m, 0, 0, time.UTC) }
	for _, tt := range []struct {
		text  string
		limit bool
		until time.Time
	}{
		{"Claude AI usage limit reached|1795210344", true, time.Unix(1795210344, 0)},
		{"Claude AI usage limit reached|1750708800", true, time.Time{}}, // long ago
		{"You've reached your Opus limit · resets Dec 1, 5pm (UTC)", true, time.Date(2026, 12, 1, 17, 0, 0, 0, time.UTC)},
		{"Individual quota reached. Upgrade for more. Resets in 143h52m5s", true, now.Add(143*time.Hour + 52*time.Minute + 5*time.Second)},
		{"You've hit your session limit. It resets at 05:40", true, day(21, 5, 40)},
		{"You've hit your session limit. It resets at 21:40 UTC.", true, day(20, 21, 40)},
		{"5-hour limit reached ∙ resets 3pm", true, day(20, 15, 0)},
		{"5-hour limit reached ∙ resets 2pm", true, day(21, 14, 0)},
		{"You've hit your limit · resets 1pm (Europe/Lisbon)", true, day(21, 13, 0)},
		{"You’ve hit your session limit · resets 9:32pm (UTC)", true, day(20, 21, 32)},
		{"You've hit your weekly limit · resets Nov 23, 8:33pm (UTC)", true, day(23, 20, 33)},
		{"You've hit your Opus limit · resets Nov 23rd at 8pm", true, day(23, 20, 0)},
		{"You've hit your weekly limit · resets Jan 2, 12am (UTC)", true, time.Date(2027, 1, 2, 0, 0, 0, 0, time.UTC)},
		{"You're out of extra usage · resets 12pm (No/Such)", true, time.Time{}},
		{"You've hit your session limit", true, time.Time{}},
		{"first\nWeekly limit reached\nlast", true, time.Time{}},
		{"weekly limit reached · resets 99pm", true, time.Time{}},
		{"weekly limit reached · resets Foo 3, 1pm", true, time.Time{}},
		{"Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day", true,
			time.Time{}},
		{"429 [1308][Usage limit reached for 5 hour. Your limit will reset at 2026-11-23 03:04:05][x]", true,
			time.Date(2026, 11, 22, 19, 4, 5, 0, time.UTC)},
		{"已达到 5 小时的使用上限。您的限额将在 2026-11-23 03:04:05 重置。", true, time.Date(2026, 11, 22, 19, 4, 5, 0, time.UTC)},
		{"week allocated quota exceeded, please increase your quota limit.", true, time.Time{}},
		{"Allocated quota exceeded, please increase your quota limit.", false, time.Time{}},
		{"Rate limit reached for gpt on tokens per min", false, time.Time{}},
		{"API Error: Request rejected (429)", false, time.Time{}},
		{"", false, time.Time{}},
	} {
		line, until, ok := Find(tt.text, now)
		if ok != tt.limit || !until.Equal(tt.until) || ok == (line == "") {
			t.Errorf("%q: got %q %v %v, want %v %v", tt.text, line, until, ok, tt.limit, tt.until)
		}
	}
}

// A rate limit that lasts for hours is a quota, one of minutes is not.
func TestTold(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 14, 30, 0, 0, time.UTC)
	for _, tt := range []struct {
		text, name string
		wait       time.Duration
	}{
		{"You hit a rate limit. Please try again in 2 hours", "rate limit", 2 * time.Hour},
		{"You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.",
			"usage limit", 10*24*time.Hour + 9*time.Hour + 30*time.Minute},
		{"Rate limit reached for M on requests per day (RPD): Limit 200. Please try again in 2h7m12.5s.",
			"daily limit", 2*time.Hour + 7*time.Minute + 12*time.Second},
		{"Rate limit reached for M on tokens per min (TPM). Please try again in 1m26.4s.", "", 0},
		{"the request ended after 2 hours", "", 0},
		{"Request timed out after 900 seconds", "", 0},
		{"[API Error: Resource has been exhausted (e.g. check quota).\nSuggested retry after 7200s.]", "rate limit",
			2 * time.Hour},
		{"Resource has been exhausted (e.g. check quota).\nSuggested retry after 20s.", "", 0},
		{"timestamp=2026-11-20T14:30:00.000Z level=ERROR error=\"AI_APICallError: Rate limit reached for M on requests per day (RPD): Limit 200. Please try again in 2h7m12s.\"",
			"daily limit", 2*time.Hour + 7*time.Minute + 12*time.Second},
	} {
		name, until, ok := Told(tt.text, now)
		if ok != (tt.name != "") || ok && (name != tt.name || until.Sub(now) != tt.wait) {
			t.Errorf("%q: got %q %v %v", tt.text, name, until.Sub(now), ok)
		}
	}
}
