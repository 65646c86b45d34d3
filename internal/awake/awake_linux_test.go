package awake

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// systemdInhibit puts a program in the place of the system's, and returns the folder of its own files.
func systemdInhibit(t *testing.T, dir, script string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "systemd-inhibit"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func TestHold(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	systemdInhibit(t, dir, `echo "$*" >"`+log+`"; while [ "$1" != cat ]; do shift; done; "$@"; echo over >>"`+log+`"`)
	release, held := Hold(t.TempDir())
	if !held {
		t.Fatal("not held")
	}
	release()
	b, err := os.ReadFile(log)
	if want := strings.Join(holder[1:], " ") + " cat\nover\n"; err != nil || string(b) != want {
		t.Errorf("%q, %v, want %q", b, err, want)
	}
}

func TestHoldIsRefused(t *testing.T) {
	for name, script := range map[string]string{
		"no systemd":       "echo 'System has not been booted with systemd as init system' >&2; exit 1",
		"another program":  "echo hello; cat >/dev/null",
		"ends at once":     "exit 0",
		"of the project's": "exec /bin/cat",
	} {
		t.Run(name, func(t *testing.T) {
			dir, project := t.TempDir(), t.TempDir()
			if strings.Contains(name, "project") {
				dir = project
				t.Setenv("PATH", "/nothing")
			}
			systemdInhibit(t, dir, script)
			release, held := Hold(project)
			if held {
				t.Error("held")
			}
			release()
		})
	}
}
