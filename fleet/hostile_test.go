package fleet

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"descartes/gitops"
)

// TestHostileOrder: an order that asks for more than a worker grants, or is another one than was asked for, begins
// nothing there.
func TestHostileOrder(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("DEPLOY_TOKEN", "0123456789abcdef")
	open := func(name string) *gitops.Repo {
		r, err := gitops.Mirror(t.Context(), gitops.Options{Dir: filepath.Join(dir, name), Env: os.Environ()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		return r
	}
	for _, name := range []string{"remote", "run", "cache"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	open("remote")
	run, mark, remote := open("run"), filepath.Join(dir, "began"), filepath.Join(dir, "remote")
	m := &Maker{Cache: filepath.Join(dir, "cache"), Confine: true, Note: func(text string) { t.Log(text) }}
	defer m.Close()
	for i, c := range []struct {
		want string
		ask  func(*Order, *Ask)
	}{
		{`the order sets "LD_PRELOAD=./x.so"`, func(o *Order, _ *Ask) {
			o.Order.Input.Env = []string{"LD_PRELOAD=./x.so"}
		}},
		{"no setting may set LD_PRELOAD", func(o *Order, _ *Ask) {
			o.Config.Backend.Environment = map[string]string{"LD_PRELOAD": "./x.so"}
		}},
		{"env_pass", func(o *Order, _ *Ask) { o.Config.EnvPass = []string{"DEPLOY_TOKEN"} }},
		{"verify_env", func(o *Order, _ *Ask) { o.Config.VerifyEnv = "inherit" }},
		{"sandbox_read", func(o *Order, _ *Ask) { o.Config.SandboxRead = []string{"~/.ssh"} }},
		{"sandbox_write", func(o *Order, _ *Ask) { o.Config.SandboxWrite = []string{"~"} }},
		{"held-out checks", func(o *Order, _ *Ask) { o.Config.Holdout.Run, o.Config.Holdout.Dir = "true", "~/.ssh" }},
		{"another version of descartes", func(o *Order, _ *Ask) { o.Version++ }},
		{"was named", func(_ *Order, a *Ask) { a.Commit = strings.Repeat("c", 40) }},
		{"do not fit together", func(_ *Order, a *Ask) { a.Commit = "--upload-pack=touch" }},
		{"cannot be called", func(_ *Order, a *Ask) { a.Loop = "../../heads/x.0123abcd" }},
		{"withdrawn", func(_ *Order, a *Ask) { a.Task = "99" }},
	} {
		o := Order{Version: version}
		o.Config.Command = "touch " + mark
		a := Ask{Remote: remote, Loop: "l.0123abcd", Task: "1", Try: i + 1}
		ref, err := refOf(a.Loop, a.Task, a.Try)
		if err != nil {
			t.Fatal(err)
		}
		c.ask(&o, &a)
		b, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		tree, err := run.Bundle(t.Context(), map[string][]byte{orderFile: b})
		if err == nil {
			var commit string
			if commit, err = run.Link(t.Context(), "", gitops.Link{Tree: tree, Message: "order",
				When: time.Now()}); err == nil {
				if a.Commit == "" {
					a.Commit = commit
				}
				err = run.Send(t.Context(), remote, commit+":"+ref)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if kept, err := m.Make(t.Context(), a, "1-x", func(Live) {}); err == nil ||
			!strings.Contains(err.Error(), c.want) || kept.Commit != "" {
			t.Errorf("%s: %+v, %v", c.want, kept, err)
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("an agent began")
	}
}
