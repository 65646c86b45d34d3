package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"descartes/agent/process"
)

// What a command writes into a layered folder lies in the upper layer, and those below stay as they are.
func TestLayers(t *testing.T) {
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		t.Skip("there is no bubblewrap here")
	}
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"tree", "warm", "base/deps", "up", "work", "a,b:c"} {
		if err := os.MkdirAll(in(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"tree/code": "code", "base/code": "old", "base/deps/lib": "lib",
		"warm/built": "built", "a,b:c/odd": "odd"} {
		if err := os.WriteFile(in(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := sh("layered", `cat code deps/lib built odd; echo patched >deps/lib; rm built; echo new >made
		cat made deps/lib; exit 3`)
	c.Dir, c.Stdout, c.Stderr = in("tree"), in("out"), in("errors")
	c.Limits = process.Limits{
		Wrap: []string{bwrap, "--unshare-pid", "--new-session", "--dev-bind", "/", "/"},
		Layers: []process.Layer{{At: in("tree"), Upper: in("up"), Work: in("work"),
			Lower: []string{in("tree"), in("warm"), in("base"), in("a,b:c")}}},
	}
	s := startShim(t, ShimConfig{})
	e, err := s.Run(t.Context(), c)
	if err != nil && strings.Contains(err.Error(), "mount layers") {
		t.Skipf("no layers here: %v", err)
	}
	said, _ := os.ReadFile(in("errors"))
	if err != nil || e.Code != 3 || len(said) > 0 {
		t.Fatalf("%v %v: %s", e, err, said)
	}
	for name, want := range map[string]string{"out": "codelibbuiltoddnew\npatched\n", "base/deps/lib": "lib",
		"warm/built": "built", "up/deps/lib": "patched\n", "up/made": "new\n", "tree/code": "code"} {
		if is, err := os.ReadFile(in(name)); string(is) != want {
			t.Errorf("%s: %q (%v), want %q", name, is, err, want)
		}
	}
	if _, err := os.Lstat(in("tree/made")); err == nil {
		t.Error("what the command made is in a lower layer")
	}
}
