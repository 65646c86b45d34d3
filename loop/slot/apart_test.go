package slot

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"descartes/gitops"
	"descartes/internal/atomicfile"
)

// TestApart: a slot at a path of its own is refused where a file in it leads back into the user's tree, and only
// there. An agent would write there, and a check would test what is there.
func TestApart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		back   string // the file that leads back; "" for none
		shown  bool   // slots are mounted at the project's path
	}{
		"nothing special":           {"mkdir build; echo x >build/x", "", false},
		"a path file of an install": {`mkdir build; echo "$PWD/src" >build/me.pth`, "build/me.pth", false},
		"a cache of CMake": {`mkdir build; echo "HOME:INTERNAL=$PWD" >build/CMakeCache.txt`,
			"build/CMakeCache.txt", false},
		"settings": {`echo "HOME=$PWD/x" >.env`, ".env", false},
		// its copy leads to the slot
		"an ignored link by its full path": {`mkdir build; ln -s "$PWD/a" build/abs`, "", false},
		"a link that is tracked":           {`ln -s "$PWD/a" abs; git add abs; git commit -qm link`, "abs", false},
		"a link inside":                    {"mkdir build; ln -s ../a build/in", "", false},
		"a link elsewhere":                 {"mkdir build; ln -s /etc/hostname build/etc", "", false},
		"another folder with its name":     {`mkdir build; echo "$PWD-2/src" >build/me.pth`, "", false},
		"a file that is no such file":      {`mkdir build; echo "$PWD" >build/notes.txt`, "", false},
		"mounted at its place":             {`mkdir build; echo "$PWD/src" >build/me.pth`, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, c.script)
			p.opt.Shown = c.shown
			s := p.take(NewPool(p.opt), 0)
			_, err := s.Prepare(t.Context(), Start{Aside: filepath.Join(p.dir, ".descartes", "aside")})
			if c.back == "" && err != nil {
				t.Fatal(err)
			}
			refused, ok := errors.AsType[*gitops.RefusedError](err)
			if c.back != "" && (!ok || !strings.HasSuffix(refused.Reason, ": "+c.back)) {
				t.Errorf("got %v, want a refusal that names %s", err, c.back)
			}
		})
	}
}

// TestFolder: without git only the project's settings are protected. What an attempt did to them is taken back, and
// said; everything else is its own.
func TestFolder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		does  func(dir string) error
		notes bool
	}{
		"nothing": {func(string) error { return nil }, false},
		"work":    {func(dir string) error { return os.WriteFile(dir+"/new", []byte("x"), 0o600) }, false},
		"changes them": {func(dir string) error { return os.WriteFile(dir+"/descartes.yaml", []byte("x"), 0o600) },
			true},
		"removes them": {func(dir string) error { return os.Remove(dir + "/descartes.yaml") }, true},
		"makes a link of them": {func(dir string) error {
			return errors.Join(os.Remove(dir+"/descartes.yaml"), os.Symlink("/etc/hostname", dir+"/descartes.yaml"))
		}, true},
		"makes one that was not there": {func(dir string) error {
			return os.WriteFile(dir+"/list.json", []byte("x"), 0o600)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			settings, list := filepath.Join(dir, "descartes.yaml"), filepath.Join(dir, "list.json")
			if err := os.WriteFile(settings, []byte("verify: make\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			f := NewFolder(atomicfile.OS(), dir, dir, []string{settings, list})
			if _, err := f.Prepare(t.Context(), Start{Aside: filepath.Join(dir, "aside")}); err != nil {
				t.Fatal(err)
			}
			if err := c.does(dir); err != nil {
				t.Fatal(err)
			}
			notes, err := f.Repair(t.Context(), "attempt")
			if err != nil || (len(notes) > 0) != c.notes {
				t.Errorf("notes %q, %v", notes, err)
			}
			text, err := os.ReadFile(settings)
			info, _ := os.Lstat(settings)
			if err != nil || string(text) != "verify: make\n" || !info.Mode().IsRegular() {
				t.Errorf("the settings are %q, %v", text, err)
			}
			if _, err := os.Lstat(list); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the list that was not there: %v", err)
			}
			if again, err := f.Repair(t.Context(), "attempt"); len(again) > 0 || err != nil {
				t.Errorf("taken back twice: %q, %v", again, err)
			}
			if _, err := os.Stat(filepath.Join(dir, "new")); (err == nil) != (name == "work") {
				t.Errorf("the work: %v", err)
			}
		})
	}
}

// TestDangling: a link that leads somewhere in the user's tree and nowhere in the slot is named.
func TestDangling(t *testing.T) {
	t.Parallel()
	p := newProject(t, `mkdir ../beside; echo x >../beside/x; ln -s ../beside/x out; ln -s a in; ln -s nowhere never; git add .; git commit -qm links`)
	s := p.take(NewPool(p.opt), 0)
	p.prepare(s, Start{})
	got, err := s.Dangling(t.Context())
	if err != nil || !slices.Equal(got, []string{"out"}) {
		t.Errorf("got %q, %v", got, err)
	}
}
