package oscall

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A file's bytes are written out in either way; a closed file's are not.
func TestSync(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("bytes"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(Sync(f), f.Close()); err != nil {
		t.Error(err)
	}
	if err := Sync(f); err == nil {
		t.Error("a closed file is synced")
	}
}
