package redact

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A log over its limit keeps head and tail, says what is missing, and shows no part of a secret, wherever the cut
// falls.
func TestLogIsCut(t *testing.T) {
	t.Parallel()
	const key = "sk-0123456789-abcdefghijklmnop"
	const before, most = "earlier\n", 20 << 10
	path := filepath.Join(t.TempDir(), "log")
	for at := most/2 - len(key) - 1; at <= most/2+1; at++ {
		half := strings.Repeat(".", at) + key + strings.Repeat(".", 100<<10)
		text := half + backwards(half)
		if err := os.WriteFile(path, []byte(before+text), 0o600); err != nil {
			t.Fatal(err)
		}
		left, err := New([]string{key, backwards(key)}).Log(path, int64(len(before)), most)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		head, tail, _ := strings.Cut(string(b), fmt.Sprintf(
			"\n--- %d bytes of output are left out here: the log is limited (max_log) ---\n", len(text)-most))
		if want := before + masked(half, key)[:most/2]; head != want || tail != backwards(want[len(before):]) {
			t.Fatalf("key at %d: the log is %.40q...%q, then %q...%.40q", at, head, last(head, 50),
				tail[:min(50, len(tail))], last(tail, 40))
		}
		if left != int64(len(before)+len(text)-len(b)) {
			t.Errorf("left out %d, of %d bytes there are %d", left, len(before)+len(text), len(b))
		}
		if again, err := New([]string{key}).Log(path, int64(len(before)), most); again != 0 || err != nil {
			t.Errorf("cut twice: %d, %v", again, err)
		}
	}
}

// Without secrets a log is cut all the same, and what is left out is not read: here it would be a terabyte.
func TestLogIsCutUnread(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	for _, m := range []*Redactor{nil, New([]string{"sk-0123456789-abcdefghijklmnop"})} {
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := f.Truncate(1 << 40); err != nil {
			t.Skip("no sparse files here: ", err)
		}
		if _, err := f.WriteAt([]byte("the end"), 1<<40); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Log(path, 0, 8<<10); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); err != nil || !strings.HasSuffix(string(b), "\x00the end") || len(b) > 13<<10 {
			t.Errorf("%d bytes, %v", len(b), err)
		}
	}
}

func masked(s, key string) string { return strings.ReplaceAll(s, key, strings.Repeat("*", len(key))) }

func last(s string, n int) string { return s[max(0, len(s)-n):] }

func backwards(s string) string {
	b := []byte(s)
	for i, k := 0, len(b)-1; i < k; i, k = i+1, k-1 {
		b[i], b[k] = b[k], b[i]
	}
	return string(b)
}
