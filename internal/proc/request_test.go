//go:build linux

package proc

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"descartes/agent/process"
)

// Whatever the bytes of a command's strings are, they reach the shim.
func TestRequest(t *testing.T) {
	t.Parallel()
	c := process.Command{Label: "l", Argv: []string{"a", "", "\xff\n", "ö\u2028"}, Dir: "/d", Env: []string{"A=\xfe"}, Limits: process.Limits{Wrap: []string{"w"}, Inside: []string{"x", "y"}, Memory: 1 << 40, Procs: 7}, Leave: true, Stdin: "i", Stdout: "o", Stderr: "e",
		Timeout: time.Hour, Idle: 1, Grace: -1}
	carried := mapped(c, toText)
	line, err := json.Marshal(request{Seq: 300, Command: &carried})
	if err != nil {
		t.Fatal(err)
	}
	stream := append(append(line, '\n'), `{"seq":300,"cancel":true}`+"\n"...)
	s := &server{}
	for n, b := range stream {
		if r, ok := s.next(false); ok != (n == len(line)+1) {
			t.Fatalf("after %d bytes: %+v", n, r)
		} else if ok {
			if got := mapped(*r.Command, fromText); r.Seq != 300 || !reflect.DeepEqual(got, c) {
				t.Errorf("got %+v, want %+v", got, c)
			}
		}
		s.input = append(s.input, b)
	}
	if r, ok := s.next(false); !ok || !r.Cancel || r.Seq != 300 || len(s.input) != 0 {
		t.Error("the second request")
	}
}

func FuzzText(f *testing.F) {
	f.Add("a", "\xff\x00ö")
	f.Fuzz(func(t *testing.T, a, b string) {
		carried := mapped(process.Command{Label: a, Argv: []string{b}}, toText)
		line, err := json.Marshal(carried)
		var back process.Command
		if err == nil {
			err = json.Unmarshal(line, &back)
		}
		if got := mapped(back, fromText); err != nil || got.Label != a || got.Argv[0] != b {
			t.Errorf("%q, %q came back as %+v, %v", a, b, got, err)
		}
	})
}
