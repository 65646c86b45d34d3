package redact

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A value whose base64 is broken into lines, of any width, with any break, wherever the value begins in what was
// encoded.
func TestFolded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789abcdefghij-", 40)
	for _, value := range []string{"sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789", long} {
		m := New([]string{value})
		for _, width := range []int{9, 20, 57, 60, 64, 76} {
			for _, br := range []string{"\n", "\r\n", "\n      ", `\n`, `\r\n`, `\\n`} {
				for skip := range 4 {
					whole := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("u", skip) + value + "\n"))
					var lines []string
					for len(whole) > width {
						lines, whole = append(lines, whole[:width]), whole[width:]
					}
					text := "before: " + strings.Join(append(lines, whole), br) + " after"
					checkFolded(t, m, text, len(value)*8/6-1)
				}
			}
		}
	}
}

func checkFolded(t *testing.T, m *Redactor, text string, least int) {
	t.Helper()
	want := m.Text(text)
	if n := strings.Count(want, "*"); n < least || len(want) != len(text) || !strings.HasPrefix(want, "before: ") ||
		!strings.HasSuffix(want, " after") {
		t.Fatalf("%q became %q: %d of at least %d letters are masked", text, want, n, least)
	}
	var out bytes.Buffer
	w := m.Writer(&out)
	for _, part := range []string{text[:len(text)/3], text[len(text)/3 : len(text)/2], text[len(text)/2:]} {
		if _, err := w.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil || out.String() != want {
		t.Fatalf("written in parts: %q, %v, want %q", out.String(), err, want)
	}
}

func TestFoldedAtAChunksEnd(t *testing.T) {
	t.Parallel()
	value := "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"
	m := New([]string{value})
	coded := base64.StdEncoding.EncodeToString([]byte(value))
	path := filepath.Join(t.TempDir(), "log")
	for before := chunk - len(coded) - 4; before < chunk+2; before += 5 {
		if err := os.WriteFile(path, []byte(strings.Repeat(" ", before)+coded[:30]+"\n"+coded[30:]+"\n"),
			0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Log(path, 0, 0); err != nil {
			t.Fatalf("%d before it: %v", before, err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if left := strings.Trim(string(b), " *\n="); len(left) > 2 {
			t.Errorf("%d before it: %q is left", before, left)
		}
	}
}
