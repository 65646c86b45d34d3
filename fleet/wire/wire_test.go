package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"descartes/loop/attempt"
)

// TestRef: no name of a loop or task leads a ref elsewhere.
func TestRef(t *testing.T) {
	const made = "refs/descartes/loop-1/fleet/orders/_"
	for _, c := range []struct{ loop, task, want string }{
		{"loop-1", "3", "refs/descartes/loop-1/fleet/orders/3/2"},
		{"loop-1", "1.2", "refs/descartes/loop-1/fleet/orders/1.2/2"},
		{"loop-1", "auth:7", "refs/descartes/loop-1/fleet/orders/auth_7/2"},
		{"loop-1", "../x", made + "d6b96a97d147daaae49eb87a5ca7bfbc/2"}, {"loop-1", "a..b", made + "f62b42414c514fa689d3e087ba397c60/2"},
		{"loop-1", "a.lock", made + "e018dd87fb8dec2494fe7786270b235e/2"}, {"loop-1", "-x", made + "a420962426d711880258b007d6767792/2"},
		{"loop-1", "a b", made + "c8687a08aa5d6ed2044328fa6a697ab8/2"}, {"loop-1", "a\nb", made + "7e18f737311b2dc3b2f269dd78396b03/2"},
		{"../x", "3", ""}, {"", "3", ""}, {"loop-1", strings.Repeat("x", 200), made + "aa20c23e3201834050679e1d88941b9a/2"},
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

// TestNoSecretInErrors: what a worker says of an attempt that it could not make has neither the values of its variables nor logins.
func TestNoSecretInErrors(t *testing.T) {
	dir := t.TempDir()
	gitconfig := filepath.Join(dir, "gitconfig")
	if err := os.WriteFile(gitconfig, []byte("[url \"http://me:hunter2hunter2@127.0.0.1:1/\"]\n\tinsteadOf = http://host/\n[http]\n\tproxy =\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GIT_CONFIG_GLOBAL", gitconfig)
	t.Setenv("MY_API_KEY", "sk-0123456789abcdefghij")
	for _, remote := range []string{"http://host/x.git", "/nowhere/sk-0123456789abcdefghij"} {
		work, err := json.Marshal(Work{Ask: Ask{Remote: remote, Loop: "l", Task: "1", Try: 1, Ref: "refs/descartes/l/fleet/orders/1/1", Commit: "c"}, Cache: dir, Run: "1-x"})
		if err != nil {
			t.Fatal(err)
		}
		in, keep := io.Pipe()
		go func() { _, _ = keep.Write(append(work, '\n')) }()
		var out, errs bytes.Buffer
		code := Main(t.Context(), in, &out, &errs)
		keep.Close()
		if said := errs.String(); code != 1 || !strings.Contains(said, "fetch the order") || strings.Contains(said, "hunter2") || strings.Contains(said, "sk-0123") {
			t.Errorf("exit status %d: %s", code, said)
		}
	}
}
