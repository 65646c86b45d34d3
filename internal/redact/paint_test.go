package redact

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"descartes/internal/terminal"
)

// TestPainted: a value with colours in it is masked wherever it is written: whoever takes the colours out finds
// nothing of it.
func TestPainted(t *testing.T) {
	t.Parallel()
	const key = "sk-Zb3dEf6hIj9lMn2pQr5t"
	m := New([]string{key})
	for name, in := range map[string]string{
		"grep":               "key=\x1b[01;31m\x1b[Ksk-\x1b[m\x1b[KZb3dEf6hIj9lMn2pQr5t;",
		"in the middle":      "sk-Zb3dEf6h\x1b[31mIj9lMn2pQr5t",
		"a link":             "sk-Zb3dEf6h\x1b]8;;http://x\aIj9l\x1b]8;;\aMn2pQr5t",
		"each letter":        strings.Join(strings.Split(key, ""), "\x1b[1m"),
		"each in three":      strings.Join(strings.Split(key, ""), "\x1b[0m\x1b[1m\x1b[38;2;255;128;64m"),
		"an escape alone":    "sk-Zb3dEf6h\x1bIj9lMn2pQr5t",
		"two, one plain":     key + " \x1b[1msk-\x1b[mZb3dEf6hIj9lMn2pQr5t",
		"ends with a colour": "sk-Zb3dEf6hIj9lMn2pQr5\x1b[mt\x1b[m",
	} {
		once, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		twice, err := json.Marshal(string(once))
		if err != nil {
			t.Fatal(err)
		}
		forms := []string{in}
		if !strings.Contains(in, "]8") && !strings.Contains(in, "\x1bI") { // no colour: nobody shows that out of JSON
			forms = append(forms, string(once), string(twice))
		}
		for _, text := range forms {
			text = "a line before\n" + text + "\nand after"
			seen := func(masked string) string {
				var out string
				for range 2 {
					if json.Unmarshal([]byte(`"`+strings.ReplaceAll(masked, "\n", `\n`)+`"`), &out) == nil {
						masked = out
					}
				}
				return terminal.Strip(masked) + terminal.Strip(strings.NewReplacer(`\\u001b`, "\x1b", `\u001b`, "\x1b").Replace(masked))
			}
			got := m.Text(text)
			if len(got) != len(text) || strings.Contains(seen(got), key) {
				t.Errorf("%s: %q becomes %q", name, text, got)
			}
			for cut := range text { // in whichever two parts it is written
				var b bytes.Buffer
				w := m.Writer(&b)
				_, _ = w.Write([]byte(text[:cut]))
				_, _ = w.Write([]byte(text[cut:]))
				if err := w.Flush(); err != nil || b.String() != got {
					t.Fatalf("%s, written as %q and %q: %q, want %q (%v)", name, text[:cut], text[cut:], b.String(), got, err)
				}
			}
			path := filepath.Join(t.TempDir(), "log")
			at := strings.Repeat("x", chunk-len(text)/2)
			if err := os.WriteFile(path, []byte(at+text+at), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := fileErr(m, path, 0); err != nil {
				t.Fatal(err)
			}
			if b, err := os.ReadFile(path); err != nil || string(b) != at+got+at {
				t.Errorf("%s across two chunks of a file is not masked (%v)", name, err)
			}
		}
	}
}

// TestPaintedLong: wherever a chunk of a file, or what is left out of a log, ends in a value with many colours, it is
// masked; a log without colours is read once.
func TestPaintedLong(t *testing.T) {
	t.Parallel()
	const colour = "\x1b[0m\x1b[1;4m\x1b[38;2;255;128;64m\x1b[48;2;100;100;100m"
	letters := []byte("eyJhbGciOiJIUzI1NiJ9.")
	for i := range 900 { // a token as they come, whose parts are no value
		letters = append(letters, "abcdefghijklmnopqrstuvwxyz0123456789"[(i*i+i/7)%36])
	}
	key := string(letters)
	m := New([]string{key})
	text := strings.Join(strings.Split(key, ""), colour) + "\x1b[0m"
	if len(text) > maxPainted {
		t.Fatalf("the value has %d bytes", len(text))
	}
	for _, inside := range []int{1, 30, len(text) / 2, len(text) - 40, len(text) - 5} {
		before := strings.Repeat("\x1b[32mok\x1b[0m ", chunk)[:chunk-inside]
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, []byte(before+text+before), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := fileErr(m, path, 0); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil || len(b) != 2*len(before)+len(text) || strings.Contains(terminal.Strip(string(b)), key[:40]) {
			t.Errorf("%d bytes of it in the first chunk: it is not masked (%v)", inside, err)
		}
		const most = 20 << 10
		half := strings.Repeat(".", most/2-inside%(most/2)) + text + strings.Repeat(".", 400<<10)
		if err := os.WriteFile(path, []byte(half), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Log(path, 0, most); err != nil {
			t.Fatal(err)
		}
		if b, err = os.ReadFile(path); err != nil || strings.Contains(terminal.Strip(string(b)), key[:10]) {
			t.Errorf("%d bytes of it before the cut: it is not masked (%v)", inside, err)
		}
	}
}
