package oneline

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestClip(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		n    int
		want string
	}{{"", 0, ""}, {"short", 5, "short"}, {"longer", 4, "long…"}, {"a  b", 3, "a…"}, {"éé", 3, "é…"}} {
		if got := Clip(c.text, c.n); got != c.want || !utf8.ValidString(got) {
			t.Errorf("%q, %d: got %q, want %q", c.text, c.n, got, c.want)
		}
	}
}

// Nothing that steers a terminal, or turns the order of what follows, stays.
func TestText(t *testing.T) {
	t.Parallel()
	if got, want := Text("a\x1b[31mb\x07c\u009b2Jd\u202ee\r\nf\x7f"), "a [31mb c 2Jd e f"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	if got, want := List(strings.Split("a b\n c d e f g h i j", " ")),
		"a, b, c, d, e, f, g, h and 2 more"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
