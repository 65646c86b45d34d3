package wire

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"descartes/gitops"
)

// The state of a submitted run is written below the clone, whatever links the submitted commit has.
func TestStateFollowsNoLink(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, link, list, file string }{
		{"list", "tasks", "tasks/keys", "tasks/keys"},
		{"runs", ".descartes/runs/evil", "t.json", ".descartes/runs/evil/keys"},
		{"the file itself", "t.json", "t.json", "t.json"},
		{"descartes", ".descartes", "t.json", ".descartes/runs/evil/keys"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			top := t.TempDir()
			work, remote, outside := filepath.Join(top, "work"), "file://"+filepath.Join(top, "remote"), filepath.Join(top, "outside")
			run := func(stdin string, args ...string) string {
				t.Helper()
				c := exec.Command("git", args...)
				c.Dir, c.Stdin = work, strings.NewReader(stdin)
				c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
				out, err := c.CombinedOutput()
				if err != nil {
					t.Fatalf("git %s: %v\n%s", args, err, out)
				}
				return strings.TrimSpace(string(out))
			}
			for _, dir := range []string{work, outside, filepath.Dir(filepath.Join(work, tt.link))} {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			to := outside
			if tt.link == tt.file {
				to = filepath.Join(outside, "file")
			}
			if err := os.Symlink(to, filepath.Join(work, tt.link)); err != nil {
				t.Fatal(err)
			}
			run("", "init", "-q", "-b", "main")
			run("", "init", "-q", "--bare", filepath.Join(top, "remote"))
			run("", "add", "-f", ".")
			run("", "commit", "-q", "-m", "start")
			head := run("", "rev-parse", "HEAD")
			commit := func(file string, content any, parent string) string {
				t.Helper()
				b, err := json.Marshal(content)
				if err != nil {
					t.Fatal(err)
				}
				tree := run("100644 blob "+run(string(b), "hash-object", "-w", "--stdin")+"\t"+file+"\n100644 blob "+run("", "hash-object", "-w", "--stdin")+"\toutput\n", "mktree")
				return run("", "commit-tree", "-m", "x", "-p", parent, tree)
			}
			start := commit("submission.json", Asked{Version: version, Head: head, List: tt.list}, head)
			state := commit("files.json", keptRun{Root: "/x", Head: head, Files: map[string][]byte{tt.file: []byte("evil")}}, start)
			run("", "push", "-q", remote, "main", start+":refs/descartes/evil/fleet/start", state+":refs/descartes/evil/fleet/state")
			c := &coordinator{Coordination: Coordination{Submission: Submission{Remote: remote, Tag: "t", Loop: "evil", Branch: "main", Commit: start}}, root: filepath.Join(top, "clone"), mine: map[string]bool{}}
			var err error
			if c.ref, err = StateRef(c.Loop); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(c.root, 0o755); err != nil {
				t.Fatal(err)
			}
			if c.repo, err = gitops.Mirror(t.Context(), gitops.Options{Dir: c.root, Env: os.Environ(), Hooks: "skip", Protect: []string{".descartes/"}}); err != nil {
				t.Fatal(err)
			}
			defer c.repo.Close()
			if _, err := c.restore(t.Context()); err == nil || !strings.Contains(err.Error(), "write the state of the run") {
				t.Errorf("got %v", err)
			}
			if found, err := filepath.Glob(filepath.Join(outside, "*")); err != nil || len(found) > 0 {
				t.Errorf("outside there is now %q, %v", found, err)
			}
		})
	}
}
