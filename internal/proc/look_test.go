package proc

import (
	"slices"
	"testing"
)

// Search paths lead nowhere that an agent may write: not to the folder where a program works, nor with libraries to the project.
func TestAnchored(t *testing.T) {
	env := []string{"PATH=/bin:bin::/repo/bin:.", "LD_LIBRARY_PATH=:/cuda:lib:/repo/lib:/repository", "LD_PRELOAD=./x.so libjemalloc.so /repo/x.so:/usr/lib/y.so",
		"PYTHONPATH=:", "LD_AUDIT=x/y.so", "OTHER=./a:"}
	for project, want := range map[string][]string{
		"":      {"PATH=/bin:/repo/bin", "LD_LIBRARY_PATH=/cuda:/repo/lib:/repository", "LD_PRELOAD=libjemalloc.so:/repo/x.so:/usr/lib/y.so", "OTHER=./a:"},
		"/repo": {"PATH=/bin:/repo/bin", "LD_LIBRARY_PATH=/cuda:/repository", "LD_PRELOAD=libjemalloc.so:/usr/lib/y.so", "OTHER=./a:"},
	} {
		if got := Anchored(env, project); !slices.Equal(got, want) {
			t.Errorf("project %q:\n got %q\nwant %q", project, got, want)
		}
	}
}
