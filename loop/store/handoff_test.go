package store

import (
	"testing"

	"pgregory.net/rapid"
)

// TestHandoffSplice: a section goes in, is replaced and goes out again, and no byte of what a person
// wrote around it is lost.
func TestHandoffSplice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		own := rapid.StringMatching(`[a-z\n #<>!-]{0,40}`).Draw(t, "own")
		more := rapid.StringMatching(`([a-z][a-z\n]{0,20})?`).Draw(t, "more")
		one := splice(own, "## one")
		if got := splice(one, ""); got != own {
			t.Fatalf("taken out again: got %q, want %q", got, own)
		}
		if got, want := splice(splice(one, "## two"), "## one"), one; got != want {
			t.Fatalf("replaced there and back: got %q, want %q", got, want)
		}
		if got := splice(one+more, ""); got != own+more {
			t.Fatalf("with text behind it: got %q, want %q", got, own+more)
		}
	})
}
