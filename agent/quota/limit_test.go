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
		{"Claude AI usage limit reached|1750708800", true, time.Unix(1750708800, 0)},
		{"5-hour limit reached ∙ resets 3pm", true, day(20, 15, 0)},
		{"5-hour limit reached ∙ resets 2pm", true, day(21, 14, 0)},
		{"You've hit your limit · resets 1pm (Europe/Lisbon)", true, day(21, 13, 0)},
		{"You’ve hit your session limit · resets 9:32pm (UTC)", true, day(20, 21, 32)},
		{"You've hit your weekly limit · resets Nov 23, 8:33pm (UTC)", true, day(23, 20, 33)},
		{"You've hit your Opus limit · resets Nov 23rd at 8pm", true, day(23, 20, 0)},
		{"You've hit your weekly limit · resets Jan 2, 12am (UTC)", true, time.Date(2027, 1, 2, 0, 0, 0, 0, time.UTC)},
		{"You're out of extra usage · resets 12pm (No/Such)", true, day(21, 12, 0)},
		{"You've hit your session limit", true, time.Time{}},
		{"first\nWeekly limit reached\nlast", true, time.Time{}},
		{"weekly limit reached · resets 99pm", true, time.Time{}},
		{"weekly limit reached · resets Foo 3, 1pm", true, time.Time{}},
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
