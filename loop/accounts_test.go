package loop

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"descartes/agent/quota"
	"descartes/config"
	"descartes/loop/journal"
)

func accountsIn(t *testing.T) *quota.Accounts {
	return &quota.Accounts{Dir: filepath.Join(t.TempDir(), "limits"),
		IDs: map[string]string{"claude": "claude-one", "codex": "codex-one"}}
}

// A loop in another project waits for the account's quota too, and asks nobody.
func TestAccountHoldsOthers(t *testing.T) {
	t.Parallel()
	a, b := newPatient(t), newPatient(t)
	a.known = accountsIn(t)
	b.known = a.known
	b.time, b.began = a.time, a.time
	reset := a.time.Add(90 * time.Minute)
	a.cfg.OnLimit = config.OnLimitStop
	a.script(limitedUntil(reset))
	a.mustRun(StartOptions{}, journal.QuotaUsedUp)
	b.script()
	b.mustRun(StartOptions{}, journal.AllDone)
	within(t, "the other's wait", b.took(), 90*time.Minute, 91*time.Minute)
	if !slices.Equal(b.runs, []string{"1 1", "2 1", "3 1"}) || len(b.waits) != 1 ||
		b.waits[0].Reason != "Claude's weekly limit" {
		t.Errorf("runs %v, waits %+v", b.runs, b.waits)
	}
	if names, err := os.ReadDir(a.known.Dir); err != nil || len(names) != 0 {
		t.Errorf("the record stays: %v, %v", names, err)
	}
}

// What cannot be read or written of an account is a warning, told once.
func TestAccountTrouble(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(path string) error{
		"not JSON": func(path string) error { return os.WriteFile(path, []byte("{"), 0o600) },
		"a folder": func(path string) error { return os.Mkdir(path, 0o700) },
		"large":    func(path string) error { return os.WriteFile(path, make([]byte, 1<<20), 0o600) },
		"version":  func(path string) error { return os.WriteFile(path, []byte(`{"version":9}`), 0o600) },
		"impossible": func(path string) error {
			return os.WriteFile(path,
				[]byte(`{"version":1,"until":"2999-01-01T00:00:00Z","at":"2026-01-01T00:00:00Z"}`), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPatient(t)
			p.known = accountsIn(t)
			if err := os.Mkdir(p.known.Dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := spoil(p.known.Path("claude")); err != nil {
				t.Fatal(err)
			}
			p.script()
			p.mustRun(StartOptions{}, journal.AllDone)
			if len(p.warned) != 1 || !strings.Contains(p.warned[0], p.known.Path("claude")) {
				t.Errorf("warned of %q", p.warned)
			}
		})
	}
	p := newPatient(t)
	p.known = accountsIn(t)
	if err := os.WriteFile(p.known.Dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.script(limitedUntil(p.time.Add(time.Hour)))
	p.mustRun(StartOptions{}, journal.AllDone)
	if len(p.warned) == 0 || len(p.warned) > 2 {
		t.Errorf("warned of %q", p.warned)
	}
}
