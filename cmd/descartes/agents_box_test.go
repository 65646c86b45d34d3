//go:build agents

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestAgentsSandbox: in a sandbox the clients work as without one, their tools write nowhere but in the project, and
// what these leave running ends too. The strict one has no network but to the hosts that are named.
func TestAgentsSandbox(t *testing.T) {
	each(t, func(t *testing.T, c client) {
		for _, mode := range []string{"auto", "strict"} {
			t.Run(mode, func(t *testing.T) {
				s := newStage(t, c, of("1", 0, turn{Text: "I write it.", Shell: "(setsid tail -f /dev/null >/dev/null 2>&1 &) ; echo x > {{aside}}/outside; " + writes("1")}, turn{Text: claim}))
				s.file(t, filepath.Join(s.root, "descartes.yaml"), "sandbox_domains: [\""+strings.TrimPrefix(strings.TrimSuffix(s.url, "/s/main"), "http://")+"\"]\n")
				s.git(t, "add", "descartes.yaml")
				s.git(t, "commit", "-q", "--amend", "-C", "HEAD")
				r := s.begin(t, "start", "--sandbox", mode, "--timeout", "60", "--max-attempts", "1", "--on-limit", "stop")
				code := r.wait(t)
				s.nothingLeft(t)
				out := readText(t, r.stdout) + readText(t, r.stderr)
				if !strings.Contains(out, "sandbox: "+mode+" (") {
					t.Logf("no sandbox here: %s", grep(out, "sandbox"))
					return
				}
				if code != exitDone {
					t.Fatalf("exit %d\n%s", code, s.story(t))
				}
				if _, err := os.Stat(filepath.Join(s.aside, "outside")); err == nil {
					t.Error("a file outside of the project was written")
				}
				if got := s.ended(t); !slices.Equal(got, []string{"1 1 verified", "2 1 verified", "3 1 verified"}) {
					t.Errorf("attempts %q", got)
				}
				t.Log(lastLines(out, 3))
			})
		}
	})
}
