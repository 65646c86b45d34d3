package terminal

import (
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
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

// No clean text begins a command of a CI system, at whichever word a line is broken.
func TestWithoutCommands(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"::error file=a.go::forged":         ": :error file=a.go::forged",
		"  ::add-mask::x":                   "  : :add-mask::x",
		"a title ::group::x":                "a title : :group::x",
		"\r::error::x":                      " : :error::x",
		"\x1b::error::x":                    "\uFFFD: :error::x",
		"\u00a0::error::x a\u3000::group::": "\u00a0: :error::x a\u3000: :group::",
		":::error::x":                       ": : :error::x",
		"##[error]x":                        "## [error]x",
		"x##[set-output name=a]1":           "x## [set-output name=a]1",
		"##vso[task.setvariable]":           "## vso[task.setvariable]",
		"##teamcity[message]":               "## teamcity[message]",
		"std::vector<int> a; Foo::Bar":      "std::vector<int> a; Foo::Bar",
		"a :: b, ::1, ## Title [x]":         "a :: b, ::1, ## Title [x]",
	} {
		if got := CleanLines(in); got != want {
			t.Errorf("CleanLines(%q): got %q, want %q", in, got, want)
		}
	}
	for _, line := range Hang(Clean(strings.Repeat("x", 20)+"::error::forged"), 20, 0) {
		if strings.HasPrefix(line, "::") {
			t.Errorf("a word broken before its colons: %q", line)
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
	got := Box("SCUD Loop: x", []string{"Wave 1: " + p.In(Green, "████") + " Complete",
		strings.Repeat("very long ", 20), "日本"})
	for line := range strings.Lines(got) {
		if n := Width(strings.TrimSuffix(line, "\n")); n != BoxWidth+2 {
			t.Errorf("%d columns, want %d: %q", n, BoxWidth+2, line)
		}
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{1234 * time.Millisecond: "1.2s", 59 * time.Second: "59s",
		time.Minute: "1m", 100 * time.Second: "1m40s", 101 * time.Second: "1m41s",
		10 * time.Minute: "10m", time.Hour: "1h", time.Hour + 20*time.Second: "1h0m20s",
		time.Hour + 10*time.Minute: "1h10m"} {
		if got := Duration(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}

// Words stay whole where they can, painted or wide ones too, and nothing of them is lost.
func TestHang(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in         string
		n, further int
		want       string
	}{
		{"one --two-three four", 13, 2, "one|  --two-three|  four"},
		{"  in one two", 8, 0, "  in one|  two"},
		{"日本語文字列です end", 9, 0, "日本語文|字列です|end"},
		{Paint(true).In(Red, "abcdefghijkl") + " end", 8, 0, "abcdefgh|ijkl end"},
		{"kept as it is", 0, 2, "kept as it is"},
	} {
		if got := ansi.Strip(strings.Join(Hang(c.in, c.n, c.further), "|")); got != c.want {
			t.Errorf("%q: got %q, want %q", c.in, got, c.want)
		}
	}
}

func TestStrip(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{"none", "none"},
		{"\x1b[1;31mred\x1b[0m", "red"},
		{"\x1b]0;title\aa\x1b]8;;url\x1b\\b\x1b]open\nc", "ab\nc"},
		{"a\x1b", "a"},
		{"a\x1b[", "a"},
		{"a\x1b[12", "a"},
		{"a\x1b[1\nb", "a\nb"},
		{"a\x1b]title", "a"},
		{"a\x1bMb", "ab"},
		{"a\x1b7b", "a7b"},
	} {
		if got := Strip(tt.text); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.text, got, tt.want)
		}
	}
}
