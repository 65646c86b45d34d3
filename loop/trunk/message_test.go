package trunk

import "testing"

// The subject says how far a wave is, and the trailers name each task that the commit brings.
func TestWaveMessage(t *testing.T) {
	t.Parallel()
	one, two := Item{ID: "1", Title: "Alpha\nbeta"}, Item{ID: "2", Title: "Beta", Accepted: true}
	for _, tt := range []struct {
		wave Wave
		want string
	}{
		{Wave{Number: 1, Done: 2, Of: 2, Brings: []Item{one, two}}, "feat(x): complete wave 1"},
		{Wave{Number: 2, Done: 1, Of: 2, Brings: []Item{one}}, "feat(x): wave 2, 1 of 2 tasks"},
		{Wave{Number: 2, Done: 1, Of: 2, Brings: []Item{one}, Continued: true}, "feat(x): wave 2 continued, 1 of 2 tasks"},
		{Wave{Number: 2, Done: 2, Of: 2, Brings: []Item{one}, Continued: true}, "feat(x): complete wave 2 (continued)"},
		{Wave{Number: 3, Of: 1, Blocked: []Item{one}}, "chore(x): wave 3 blocked"},
		{Wave{Number: 1, Done: 1, Of: 2, Brings: []Item{one}, PerTask: true}, "feat(x): Alpha beta"},
		{Wave{Number: 1, Done: 1, Of: 1, Brings: []Item{one}, Subject: "mine\nown"}, "mine own"},
	} {
		if tt.wave.Tag = "x"; tt.wave.Line() != tt.want {
			t.Errorf("got %q, want %q", tt.wave.Line(), tt.want)
		}
	}
	one.Proof = "8 tests, 6 turned green, none lost"
	w := Wave{Loop: "night", Tag: "x", Number: 1, Done: 2, Of: 3, Brings: []Item{one, two}, Blocked: []Item{{ID: "3"}},
		Unchanged: []Item{{ID: "4", Title: "Four"}},
		Cost:      "$1"}
	want := `feat(x): wave 1, 2 of 3 tasks

- 1 Alpha beta (8 tests, 6 turned green, none lost)
- 2 Beta (accepted)
- 4 Four (unchanged)
- 3  (blocked)

Descartes-Loop: night
Descartes-Wave: 1
Descartes-Task: x/1
Descartes-Task: x/2
Descartes-Task: x/4
Descartes-Cost: $1
`
	if got := w.Message(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
