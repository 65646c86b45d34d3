//go:build linux

package proc

import (
	"bytes"
	"reflect"
	"testing"
	"time"
)

func TestFrames(t *testing.T) {
	t.Parallel()
	c := Command{Label: "l", Argv: []string{"a", "", "\xff\n"}, Dir: "/d", Env: []string{"A=\xfe"}, Limits: Limits{Wrap: []string{"w"}, Inside: []string{"x", "y"}, Memory: 1 << 40, Procs: 7}, Leave: true, Stdin: "i", Stdout: "o", Stderr: "e",
		Timeout: time.Hour, Idle: 1, Grace: -1}
	stream := append(runFrame(300, c), cancelFrame(300)...)
	for cut := range len(stream) {
		if _, _, ok, err := cutFrame(stream[:cut]); ok != (cut >= len(runFrame(300, c))) || err != nil {
			t.Fatalf("cut at %d: %v %v", cut, ok, err)
		}
	}
	body, rest, ok, err := cutFrame(stream)
	if !ok || err != nil || body[0] != frameRun {
		t.Fatal(ok, err)
	}
	seq, got, err := readRun(body[1:])
	if err != nil || seq != 300 || !reflect.DeepEqual(got, c) {
		t.Errorf("got %d %+v %v, want %+v", seq, got, err, c)
	}
	if body, rest, ok, _ := cutFrame(rest); !ok || body[0] != frameCancel || len(rest) != 0 {
		t.Error("the second frame")
	}
}

func FuzzRequest(f *testing.F) {
	f.Add(runFrame(1, sh("x", "true"))[5:])
	f.Add([]byte{1, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, body []byte) {
		seq, c, err := readRun(body)
		if err != nil {
			return
		}
		again, d, err := readRun(runFrame(seq, c)[5:])
		if err != nil || again != seq || !bytes.Equal(runFrame(again, d), runFrame(seq, c)) {
			t.Errorf("%+v came back as %+v, %v", c, d, err)
		}
	})
}
