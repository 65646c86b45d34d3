//go:build unix

package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestServeOpensABrowser gives the browser the key in a file that only the user can read and that is gone once the page was seen, and never in
// the arguments of a program, which all users can read.
func TestServeOpensABrowser(t *testing.T) {
	if !haveTerminals(t) {
		return
	}
	dir := t.TempDir()
	bin, run, work := filepath.Join(dir, "bin"), filepath.Join(dir, "run"), filepath.Join(dir, "work")
	for _, d := range []string{bin, run, work} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	opener := "#!/bin/sh\necho \"$@\" >" + dir + "/args.new\ncp \"$1\" " + dir + "/page\nls -ld \"$1\" \"${1%/*}\" >" + dir + "/modes\nmv " + dir + "/args.new " + dir + "/args\n"
	if err := os.WriteFile(filepath.Join(bin, "xdg-open"), []byte(opener), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, seen := range []bool{true, false} {
		cmd := exec.Command("descartes", "serve")
		cmd.Dir, cmd.Env = work, append(os.Environ(), "HOME="+dir, "XDG_RUNTIME_DIR="+run, "PATH="+bin+":"+os.Getenv("PATH"))
		a := startAtTerminal(t, cmd, 0, 0)
		a.shows("#key=")
		eventually := func(what string, ok func() bool) {
			t.Helper()
			for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("never: %s", what)
				}
			}
		}
		read := func(name string) string {
			b, _ := os.ReadFile(filepath.Join(dir, name))
			return string(b)
		}
		eventually("a browser is opened", func() bool { return read("args") != "" })
		url := regexp.MustCompile(`(http://\S+/)#key=(\S+)`).FindStringSubmatch(a.seen.text())
		if args := read("args"); strings.Contains(args, url[2]) || !strings.HasPrefix(args, run+"/") {
			t.Errorf("the browser's arguments are %q", args)
		}
		if page := read("page"); !strings.Contains(page, fmt.Sprintf(`http-equiv="refresh" content="0;url=%s"`, url[0])) {
			t.Errorf("the file leads to %q", page)
		}
		if modes := read("modes"); !regexp.MustCompile(`^drwx------ .*\n-rw------- .*\n$`).MatchString(modes) {
			t.Errorf("modes: %s", modes)
		}
		empty := func() bool { names, err := os.ReadDir(run); return err == nil && len(names) == 0 }
		if empty() {
			t.Error("the file is gone before the page was seen")
		}
		if seen {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url[1], nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Descartes-Key", url[2])
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			eventually("the file is removed", empty)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code, text := a.ended(); code != 0 || !empty() {
			t.Errorf("exit status %d; left over: %v; it showed %s", code, !empty(), text)
		}
		if err := os.Remove(filepath.Join(dir, "args")); err != nil {
			t.Fatal(err)
		}
	}
}
