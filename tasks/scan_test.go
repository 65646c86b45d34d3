package tasks

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// validByUs is what parse accepts, without its refusals of other texts.
func validByUs(src string) bool {
	s := &scanner{src: src}
	s.space()
	ok := s.value()
	s.space()
	return ok && s.pos == len(src) && s.fault == ""
}

func jsonSeeds() []string {
	return []string{``, ` `, `{}`, `[]`, `{"a":1}`, `[1,2,]`, `{"a"}`, `{"a":}`, `{,}`, `[,]`, `nul`, `null`, `true`, `tru`, `-`, `-0`, `01`, `1.`, `.5`,
		`1e5`, `1E+`, `1e-2`, `"`, `"\`, `"\u12`, `"\u00e9"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00\ud83d"`, `"\ud83d\u0041"`, `"\x"`, "\"\t\"", "\"\x00\"", `{"a":[{"b":"c\n"}]}`,
		`{"a":1}}`, `[[]`, `"a" "b"`, `[1 2]`, `{"a" 1}`, "\u00a0[]", `"é\/\b\f\n\r\t\"\\"`}
}

func FuzzScanner(f *testing.F) {
	for _, s := range jsonSeeds() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		if strings.Count(src, "[")+strings.Count(src, "{") > maxDepth {
			return
		}
		if got, want := validByUs(src), json.Valid([]byte(src)); got != want {
			t.Fatalf("%q: got valid %v, want %v", src, got, want)
		}
	})
}

func FuzzUnquote(f *testing.F) {
	for _, s := range jsonSeeds() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		s := &scanner{src: src}
		if !utf8.ValidString(src) || s.peek() != '"' || !s.str() || s.pos != len(src) {
			return
		}
		var want string
		if err := json.Unmarshal([]byte(src), &want); err != nil {
			t.Fatalf("%q: %v", src, err)
		}
		if got := unquote(src); got != want {
			t.Fatalf("%q: got %q, want %q", src, got, want)
		}
	})
}

func TestScannerDepth(t *testing.T) {
	t.Parallel()
	for _, pair := range []string{"[]", "{}"} {
		open, shut := pair[:1], pair[1:]
		if open == "{" {
			open = `{"a":`
		}
		nest := func(n int) string { return strings.Repeat(open, n) + "1" + strings.Repeat(shut, n) }
		if !validByUs(nest(maxDepth)) {
			t.Errorf("%s: depth %d is refused", pair, maxDepth)
		}
		if validByUs(nest(maxDepth + 1)) {
			t.Errorf("%s: depth %d is accepted", pair, maxDepth+1)
		}
		if validByUs(strings.Repeat(open, 1_000_000)) {
			t.Errorf("%s: a million levels are accepted", pair)
		}
	}
}
