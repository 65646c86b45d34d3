package quota

import (
	"testing"
	"time"
)

func TestResetTime(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 20, 15, 30, 0, 0, berlin)
	day := func(d, h, m int) time.Time { return time.Date(2026, 11, d, h, m, 0, 0, berlin) }
	for _, tt := range []struct {
		text string
		want time.Time
	}{
		{"Claude AI usage limit reached|1795210344", time.Unix(1795210344, 0)},
		{"limit reached|1795210344123", time.UnixMilli(1795210344123)},
		{"try again at 9:10 PM.", day(20, 21, 10)},
		{"try again at 3:00 PM.", day(21, 15, 0)},
		{"try again at 3:30 PM.", day(20, 15, 30)}, // some seconds from now, the client cuts them off
		{"try again at 3:29 PM.", day(20, 15, 29)}, // said before the process came to its end
		{"resets 2:29pm (UTC)", day(20, 15, 29)},
		{"try again at Nov 23rd, 2026 8:33 PM.", day(23, 20, 33)},
		{"try again at Jan 2nd, 2027 12:05 AM.", time.Date(2027, 1, 2, 0, 5, 0, 0, berlin)},
		{"resets Nov 23, 8:33pm (UTC)", day(23, 21, 33)},
		{"resets 3pm (Europe/Lisbon)", day(20, 16, 0)},
		{"resets 9:32pm (America/New_York)", day(21, 3, 32)},
		{"try again in 5 days 22 hours 11 minutes.", now.Add(5*24*time.Hour + 22*time.Hour + 11*time.Minute)},
		{"Your quota will reset after 8h32m10s.", now.Add(8*time.Hour + 32*time.Minute + 10*time.Second)},
		{"try again in 1 hour and 5 minutes", now.Add(65 * time.Minute)},
		{"available again at 2026-11-21T00:00:00Z", day(21, 1, 0)},
		{"Please try again in 842ms. Visit https://platform.openai.com/account/rate-limits", now.Add(842 * time.Millisecond)},
		{"try again in 250 milliseconds", now.Add(250 * time.Millisecond)},
		{"Please retry in 33.5s.", now.Add(33 * time.Second)},
		{"try again in 2h7m12s", now.Add(2*time.Hour + 7*time.Minute + 12*time.Second)},
		{"try again in 1m30s500ms", now.Add(90 * time.Second)},
		{"try again in 5 min", now.Add(5 * time.Minute)},
		{"try again in 5M", now.Add(5 * time.Minute)},
		{"try again in 2 weeks", now.Add(14 * 24 * time.Hour)},
		{"resets in 1 month", now.Add(30 * 24 * time.Hour)},
		{"resets in 2 mo", now.Add(60 * 24 * time.Hour)},
		{"Rate limit reached in organization org-1 on tokens: try again in 3 hours", now.Add(3 * time.Hour)},
		{"gave up in 3 attempts, retry after 1 day, 2 hours", now.Add(26 * time.Hour)},
		{"failed in 3 attempts", time.Time{}},
		{"resets in about 4 hours", now.Add(4 * time.Hour)},
		{"Claude AI usage limit reached|9999999999", time.Time{}}, // in 2286
		{"available again at 2199-11-21T00:00:00Z", time.Time{}},
		{"try again at Nov 23rd, 2199 8:33 PM.", time.Time{}},
		{"in 5 models", time.Time{}},
		{"resets 5pm (PST)", day(21, 2, 0)},
		{"resets 5pm PT", day(21, 2, 0)},
		{"Your limit will reset at 5pm (UTC+8)", day(21, 10, 0)},
		{"limit resets at 5pm (UTC+8)", day(21, 10, 0)},
		{"resets 5pm (GMT-05:30)", day(20, 23, 30)},
		{"resets at 21:30 CET", day(20, 21, 30)},
		{"resets at 21:30 +0800", day(21, 14, 30)},
		{"resets at 21:30 JST", day(21, 13, 30)},
		{"resets at 21:30 XYZ", time.Time{}},
		{"resets 5pm (CST)", time.Time{}}, // of America, of China or of Cuba
		{"resets 5pm (Middle/Earth)", time.Time{}},
		{"resets 5pm (UTC+25)", time.Time{}},
		{"try again at 9:10 PM. OR SO", day(20, 21, 10)},
		{"available again at 2026-11-21 00:00 PST", day(21, 9, 0)},
		{"available again at 2026-11-21 00:00 XYZ", time.Time{}},
		{"hit your limit", time.Time{}},
		{"try again in a while", time.Time{}},
		{"resets 25pm", time.Time{}},
		{"in 999999 days 999999 days", time.Time{}},
	} {
		if got := Reset(tt.text, now); !got.Equal(tt.want) {
			t.Errorf("%q: got %v, want %v", tt.text, got, tt.want)
		}
	}
}

func TestLimitReason(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 14, 21, 0, 0, time.UTC)
	for want, until := range map[string]time.Time{
		"Claude's weekly limit; resets Mon 23 Nov 20:33 (in 6 h 12 min)":   now.Add(6*time.Hour + 12*time.Minute),
		"Claude's weekly limit; resets Mon 23 Nov 14:21 (now)":             now,
		"Claude's weekly limit; resets Mon 23 Nov 14:26 (in 5 min)":        now.Add(5 * time.Minute),
		"Claude's weekly limit; resets Mon 23 Nov 14:21 (within a minute)": now.Add(20 * time.Second),
		"Claude's weekly limit; resets Mon 23 Nov 16:21 (in 2 h)":          now.Add(2 * time.Hour),
		"Claude's weekly limit; resets Thu 26 Nov 18:21 (in 3 d 4 h)":      now.Add(76 * time.Hour),
		"Claude's weekly limit; resets Sat 2 Jan 2027 14:21 (in 40 d)":     now.Add(40 * 24 * time.Hour),
		"Claude's weekly limit is used up; it does not say when it resets": {},
	} {
		if got := Reason("Claude", "weekly limit", until, now); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestLimitWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"You've hit your limit · resets 1pm":                                        "usage limit",
		"You’ve hit your session limit":                                             "session limit",
		"You've hit your 5-hour limit":                                              "5-hour limit",
		"Weekly limit reached":                                                      "Weekly limit",
		"The usage limit has been reached":                                          "usage limit",
		"You're out of extra usage":                                                 "extra usage",
		"[API Error: You have exhausted your daily quota on this model.]":           "daily quota",
		"You have exhausted your capacity on this model.":                           "capacity",
		"This request would exceed your account's rate limit. Please try later":     "account rate limit",
		"This request would exceed your organization's rate limit of 50,000 tokens": "",
		"Rate limit reached for M on tokens per min (TPM). Please try again in 1s.": "",
		"exceeded retry limit, last status: 429 Too Many Requests":                  "",
		"Resource has been exhausted (e.g. check quota). Suggested retry after 1s.": "",
		"Quota exceeded. Check your plan and billing details.":                      "",
	} {
		got, ok := Named(text)
		if !ok {
			got = ""
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
