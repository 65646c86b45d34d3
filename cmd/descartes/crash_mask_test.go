//go:build crashpoints

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const crashToken = "tok-0123456789-abcdef"

// TestCrashMask kills the program when it is about to overwrite a secret in a log: whoever goes on does it.
func TestCrashMask(t *testing.T) {
	chatty := func(t *testing.T) *field {
		f := newField(t, smallPlan())
		script := f.aside + "/agent.sh"
		quiet := readText(t, script)
		text := "echo out $MY_TOKEN; echo err $MY_TOKEN >&2\n" + quiet
		if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		for i := range f.flags {
			if i > 0 && f.flags[i-1] == "--verify" {
				f.flags[i] = "echo verify $MY_TOKEN; " + f.flags[i]
			}
		}
		f.flags = append(f.flags, "--env-pass", "MY_TOKEN")
		f.env = []string{"MY_TOKEN=" + crashToken}
		return f
	}
	f := chatty(t)
	list := filepath.Join(f.aside, "points")
	if code := f.begin(t, "start", "DESCARTES_CRASH_COUNT_FILE="+list).wait(t); code != exitBlocked {
		t.Fatalf("undisturbed: exit %d", code)
	}
	if found := f.leaks(t); len(found) > 0 {
		t.Errorf("undisturbed: the secret is in %q", found)
	}
	points, seen := strings.Split(strings.TrimSpace(readText(t, list)), "\n"), 0
	for k, p := range points {
		if p != "mask" {
			continue
		}
		if seen++; seen%3 != 1 && seen > 6 {
			continue
		}
		t.Run(strconv.Itoa(k+1), func(t *testing.T) {
			t.Parallel()
			f := chatty(t)
			f.fall(t, k+1, "start")
			if f.killed && len(f.leaks(t)) == 0 {
				t.Error("killed before it masked anything, and no log has the secret")
			}
			f.finish(t, f.goOn(t, k))
			f.checkEnd(t)
			if found := f.leaks(t); len(found) > 0 {
				t.Errorf("the secret is in %q", found)
			}
		})
	}
	if seen < 6 {
		t.Errorf("%d points", seen)
	}
}

// leaks lists the files of the loops that have the secret.
func (f *field) leaks(t *testing.T) (found []string) {
	t.Helper()
	err := filepath.WalkDir(f.root+"/.descartes", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.Contains(readText(t, path), crashToken) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
