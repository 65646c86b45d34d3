//go:build linux

package sandbox

import (
	"os"
	"strings"
	"testing"
)

// A slot is seen at the project's own path. What is the user's cannot be reached, but for what is shown.
func TestSlot(t *testing.T) {
	for _, mode := range []Mode{Auto, Strict} {
		t.Run(string(mode), func(t *testing.T) {
			w := newWorld(t, mode)
			if w == nil {
				return
			}
			pool := w.home + "/.local/state/descartes/pool/p"
			slot := pool + "/1/tree"
			w.write(slot+"/file", "slot\n")
			w.write(slot+"/.git/config", "[core]\n")
			w.write(slot+"/sub/x", "x\n")
			w.write(pool+"/2/tree/file", "another's\n")
			w.write(w.project+"/.git/objects/ab/cdef", "object\n")
			w.write(w.project+"/sub/.scud/tasks/s.json", "{}\n")
			c := w.box.c
			c.Root = w.project + "/sub"
			c.Slot = Slot{Tree: slot, Objects: map[string]string{pool + "/objects": w.project + "/.git/objects"},
				Shown: []string{pool + "/1.files/r"}}
			w.write(pool+"/1.files/r/prompt", "do it\n")
			if err := os.Symlink(w.project+"/.git/objects", pool+"/objects"); err != nil {
				t.Fatal(err)
			}
			before := w.guarded()
			w.use(c)
			for _, c := range []struct{ script, want string }{
				{"pwd; cat file", w.project + "\nslot\n"},
				{"echo 2 >file; echo n >new; echo y >>sub/x; echo mine >.git/config; rm -r .git; mkdir .git; cat file",
					"2\n"},
				{"cat sub/.scud/tasks/s.json; echo 1 2>/dev/null >sub/.scud/tasks/s.json || echo refused",
					"{}\nrefused\n"},
				{"cat " + pool + "/objects/ab/cdef; echo 1 2>/dev/null >" + pool + "/objects/ab/cdef || echo refused",
					"object\nrefused\n"},
				{"cat " + pool + "/1.files/r/prompt; ls " + pool + "; touch " + pool +
					"/1.files/r/z 2>/dev/null || echo refused", "do it\n1.files\nobjects\nrefused\n"},
				{"mv sub gone 2>/dev/null || echo refused; ls -d .descartes/* " + pool +
					"/2 .git/objects 2>/dev/null; ls .scud/tasks", "refused\nt.json\n"},
			} {
				if e, text := w.run("sh", "-c", c.script); text != c.want {
					t.Errorf("%s: got %q (exit %d), want %q", c.script, text, e.Code, c.want)
				}
			}
			for file, want := range map[string]string{w.project + "/file": "text\n", slot + "/file": "2\n",
				slot + "/new": "n\n", slot + "/sub/x": "x\ny\n"} {
				if b, err := os.ReadFile(file); err != nil || string(b) != want {
					t.Errorf("%s: got %q %v", strings.TrimPrefix(file, w.base), b, err)
				}
			}
			if _, err := os.Lstat(w.project + "/new"); err == nil {
				t.Error("a file of the slot's is in the user's tree")
			}
			for path, was := range before {
				if is := w.guarded()[path]; is != was && !strings.HasPrefix(path,
					"home/.local/state/descartes/pool/p/1/") {
					t.Errorf("%s: got %q, was %q", path, is, was)
				}
			}
		})
	}
}
