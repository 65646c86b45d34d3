package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"descartes/loop/attempt"
)

// TestRef: no name of a loop or task leads a ref elsewhere.
func TestRef(t *testing.T) {
	for _, c := range []struct{ loop, task, want string }{
		{"loop-1", "3", "refs/descartes/loop-1/fleet/orders/3/2"},
		{"loop-1", "1.2", "refs/descartes/loop-1/fleet/orders/1.2/2"},
		{"loop-1", "auth:7", "refs/descartes/loop-1/fleet/orders/auth_7/2"},
		{"loop-1", "../x", ""}, {"loop-1", "a..b", ""}, {"loop-1", "a.lock", ""}, {"loop-1", "", ""}, {"loop-1", "-x", ""}, {"loop-1", "a b", ""}, {"loop-1", "a\nb", ""},
		{"../x", "3", ""}, {"", "3", ""}, {"loop-1", strings.Repeat("x", 101), ""},
	} {
		got, err := Ref(c.loop, orders, c.task, 2)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%q %q: got %q, %v, want %q", c.loop, c.task, got, err, c.want)
		}
	}
}

// TestLines: what one program writes another one reads; what is no line of ours is refused, and so is one without end.
func TestLines(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	want := []Line{{Hello: &Hello{Tag: "x"}}, {ID: 3, Ask: &Ask{Task: "1", Try: 2}, Again: true}, {ID: 3, Done: &Kept{Ref: "r", Commit: "c"}}}
	for _, l := range want {
		if err := w.Say(l); err != nil {
			t.Fatal(err)
		}
	}
	r := NewReader(&b)
	for _, l := range want {
		got, err := r.Next()
		a, _ := json.Marshal(got)
		z, _ := json.Marshal(l)
		if err != nil || !bytes.Equal(a, z) {
			t.Errorf("got %s, %v, want %s", a, err, z)
		}
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want the end", err)
	}
	for _, bad := range []string{"nonsense\n", strings.Repeat("x", maxLine+1)} {
		if _, err := NewReader(strings.NewReader(bad)).Next(); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%.20q: got %v", bad, err)
		}
	}
}

// TestSmall: what is said about an attempt is far below what a server takes.
func TestSmall(t *testing.T) {
	b, err := json.Marshal(Ask{Remote: "https://host/" + strings.Repeat("x", 500), Loop: strings.Repeat("l", 64), Tag: strings.Repeat("t", 100), Task: strings.Repeat("9", 100),
		Title: strings.Repeat("ü", 500), Ref: strings.Repeat("r", 300), Commit: strings.Repeat("c", 64)})
	if err != nil || len(b) > 4<<10 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

// TestLimit: an attempt without a time limit of its own has one all the same, so that a worker that hangs is given up some day.
func TestLimit(t *testing.T) {
	if n := limit(&attempt.Input{}); n < int((24 * time.Hour).Seconds()) {
		t.Errorf("without a limit: %d seconds", n)
	}
	in := attempt.Input{Agent: attempt.Clocks{Timeout: time.Hour}, Clocks: attempt.Clocks{Timeout: time.Hour}, Checks: make([]attempt.Command, 2)}
	if n := limit(&in); n < int((5 * time.Hour).Seconds()) {
		t.Errorf("an hour of work and two checks: %d seconds", n)
	}
}
