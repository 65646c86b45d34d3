package safename

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// odd are texts that git, a file system or another of them could trip over.
var odd = []string{"", "1", "1.2", "../x", "a/b", "a:b", ".", "..", "...", "x.lock", "x.lock.lock", "a.lock.b", ".hidden",
	"end.", "a..b", "ä", "ü日本", "a b", " ", "A", "a@{b", "@", "@{", "~^:?*[\\", "-dash", "back\\slash", "new\nline", "\x00",
	"\x7f", "\xff", "%41", "%-", "a%20b", "HEAD", "v1:x", "x[1]", strings.Repeat("l", 200), strings.Repeat("l", 201),
	strings.Repeat("l", 250), strings.Repeat("l", 249) + "m", strings.Repeat("ä", 125)}

// Git takes every name as part of a ref, and different texts have different names.
func TestNames(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, text := range odd {
		name := Of(text)
		if prev, dup := seen[name]; dup {
			t.Errorf("%q and %q are both %q", prev, text, name)
		}
		seen[name] = text
		for _, ref := range []string{"refs/descartes/" + name, "refs/descartes/" + name + "/1"} {
			if out, err := exec.Command("git", "check-ref-format", ref).CombinedOutput(); err != nil {
				t.Errorf("%q: git refuses %q: %v %s", text, ref, err, out)
			}
		}
	}
	for text, want := range map[string]string{"12": "12", "app.v1-x_y": "app.v1-x_y", "my project": "my%20project"} {
		if got := Of(text); got != want {
			t.Errorf("Of(%q) = %q, want %q", text, got, want)
		}
	}
}

// back reads a name that is not a sum.
func back(t *testing.T, name string) string {
	var b bytes.Buffer
	for i := 0; i < len(name); i++ {
		if name[i] != '%' {
			b.WriteByte(name[i])
			continue
		}
		high, low := strings.IndexByte("0123456789abcdef", name[i+1]), strings.IndexByte("0123456789abcdef", name[i+2])
		if high < 0 || low < 0 {
			t.Fatalf("%q cannot be read back", name)
		}
		b.WriteByte(byte(high<<4 | low))
		i += 2
	}
	return b.String()
}

// Every name is short, of plain characters, and can be read back, so that no two texts have the same; that is git's
// law for refs without its process.
func FuzzOf(f *testing.F) {
	for _, text := range odd {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		name := Of(text)
		const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.%"
		if name == "" || len(name) > most || strings.Trim(name, plain) != "" || name != filepath.Base(name) ||
			strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") || strings.Contains(name, "..") ||
			strings.HasSuffix(name, ".lock") {
			t.Fatalf("Of(%q) = %q, which is no name", text, name)
		}
		if strings.HasPrefix(name, "%-") {
			if text != "" && len(text)*3 <= most {
				t.Fatalf("Of(%q) = %q: there was room for it", text, name)
			}
		} else if again := back(t, name); again != text {
			t.Fatalf("Of(%q) = %q, which is also the name of %q", text, name, again)
		}
	})
}
