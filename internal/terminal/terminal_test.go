package terminal

import (
	"strings"
	"testing"
	"time"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain":              "plain",
		"Grüße 日本":           "Grüße 日本",
		"two\nlines\tand\r":  "two lines and ",
		"\x1b]0;evil\x07":    "\uFFFD]0;evil\uFFFD",
		"\x9b31m and \u009b": "\uFFFD31m and \uFFFD",
		"right\u202eleft":    "right\uFFFDleft",
	} {
		if got := Clean(in); got != want {
			t.Errorf("clean(%q): got %q, want %q", in, got, want)
		}
	}
}

func TestFit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{{"short", 10, "short"}, {"exactly", 7, "exactly"}, {"longer text", 7, "longer…"}, {"日本語文", 5, "日本…"}} {
		if got := Fit(c.in, c.n); got != c.want || Width(got) > c.n {
			t.Errorf("fit(%q, %d): got %q, want %q", c.in, c.n, got, c.want)
		}
	}
}

func TestBox(t *testing.T) {
	t.Parallel()
	p := Paint(true)
	got := Box("SCUD Loop: x", []string{"Wave 1: " + p.In(Green, "████") + " Complete", strings.Repeat("very long ", 20), "日本"})
	for line := range strings.Lines(got) {
		if n := Width(Unpainted(strings.TrimSuffix(line, "\n"))); n != BoxWidth+2 {
			t.Errorf("%d columns, want %d: %q", n, BoxWidth+2, line)
		}
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{1234 * time.Millisecond: "1.2s", 59 * time.Second: "59s", time.Minute: "1m", 100 * time.Second: "1m40s", 101 * time.Second: "1m41s",
		10 * time.Minute: "10m", time.Hour: "1h", time.Hour + 20*time.Second: "1h0m20s", time.Hour + 10*time.Minute: "1h10m"} {
		if got := Duration(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}
