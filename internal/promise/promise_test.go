package promise

import "testing"

func TestCloses(t *testing.T) {
	t.Parallel()
	const tag = Open + "DONE" + Close
	for _, c := range []struct {
		line string
		want bool
	}{
		{tag, true},
		{"All green. " + tag, true},
		{"Finished: " + Open + " DONE " + Close, true},
		{"I will not output " + tag, false},
		{"I won't say it. It is done. " + tag, true},
		{"once it passes " + tag, false},
		{tag + " soon", false},
		{Open + "done" + Close, false},
		{"DONE" + Close, false},
		{"", false},
	} {
		if got := Closes(c.line, "DONE"); got != c.want {
			t.Errorf("Closes(%q) = %v, want %v", c.line, got, c.want)
		}
	}
}
