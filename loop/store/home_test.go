package store

import (
	"bytes"
	"testing"
)

func TestFileNames(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, id := range []string{"1", "1.2", "../x", "a/b", "a:b", ".", "..", "...", "x.lock", ".hidden", "end.",
		"a..b", "ä", "a b", "A", "a@{b", "~^:?*[\\", ""} {
		n := FileName(id)
		if prev, dup := seen[n]; dup {
			t.Errorf("%q and %q are both %q", prev, id, n)
		}
		seen[n] = id
		if bytes.ContainsAny([]byte(n), "/\\ ~^:?*[\x7f") || n == "." || n == ".." {
			t.Errorf("%q: unsafe name %q", id, n)
		}
	}
}
