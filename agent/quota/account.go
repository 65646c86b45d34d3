package quota

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"descartes/internal/atomicfile"
	"descartes/internal/plainfile"
)

// Accounts remembers until when the quota of a provider's account is used up, for every loop of one user on this
// machine: who meets a limit spares the others a request that would be refused. Nothing that goes wrong with it is an
// error of a run: what cannot be read or written is a warning. A nil *Accounts remembers nothing.
type Accounts struct {
	Dir string            // one file for each account; made when it is needed
	For string            // the project whose loop notes a limit
	IDs map[string]string // the account that a backend works with, by its name; none is noted of one without
}

// Record is what is remembered of one account: its file.
type Record struct {
	Version int       `json:"version"`
	Account string    `json:"account,omitempty"` // the file's name
	Backend string    `json:"backend"`
	Until   time.Time `json:"until"`
	Reason  string    `json:"reason"`
	Loop    string    `json:"loop"`
	Project string    `json:"project,omitempty"` // whose loop that is
	At      time.Time `json:"at"`                // when the limit was met
}

// By says who met the limit, and when.
func (r Record) By() string {
	who := "run " + r.Loop
	if r.Project != "" {
		who += " in " + r.Project
	}
	return who + ", " + r.At.Local().Format("Mon 2 Jan 15:04")
}

// Forget says where the knowledge comes from, and the command that clears it.
func (r Record) Forget() string {
	return fmt.Sprintf("remembered from %s; descartes doctor --clear forgets it", r.By())
}

const (
	accountVersion = 1
	maxAccountFile = 64 << 10
	// longestRecord bounds what is believed of a limit's end: most last hours, some a week, few a month.
	longestRecord = 32 * 24 * time.Hour
)

// Path is the file of a backend's account, "" where there is none.
func (a *Accounts) Path(backend string) string {
	if a == nil || a.Dir == "" {
		return ""
	}
	if id := a.IDs[backend]; id != "" {
		return filepath.Join(a.Dir, url.PathEscape(id)+".json")
	}
	return ""
}

// Look finds what is known of a backend's account. A limit that has passed is removed.
func (a *Accounts) Look(backend string, now time.Time) (r Record, found bool, err error) {
	path := a.Path(backend)
	if path == "" {
		return r, false, nil
	}
	r, err = readRecord(path, now)
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err != nil {
		return r, false, fmt.Errorf("ignore what was remembered of %s's quota: %w", backend, err)
	}
	if !now.Before(r.Until) {
		return r, false, a.Forget(backend)
	}
	return r, true, nil
}

func readRecord(path string, now time.Time) (r Record, err error) {
	data, err := plainfile.Read("", path, maxAccountFile)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("read %s: %w", path, err)
	}
	switch {
	case r.Version != accountVersion:
		return r, fmt.Errorf("read %s: version %d, this program reads %d", path, r.Version, accountVersion)
	case r.Until.Sub(r.At) > longestRecord+time.Minute || r.At.Sub(now) > 24*time.Hour:
		return r, fmt.Errorf("read %s: its times are impossible", path)
	}
	r.Account = strings.TrimSuffix(filepath.Base(path), ".json")
	return r, nil
}

// Known is what is remembered of a backend's account, if that is used up.
func (a *Accounts) Known(backend string, now time.Time) (Record, bool) {
	path := a.Path(backend)
	if path == "" {
		return Record{}, false
	}
	r, err := readRecord(path, now)
	return r, err == nil && now.Before(r.Until)
}

// List is what is remembered of all accounts that are used up, by name. What cannot be read is left out: no loop
// believes it.
func (a *Accounts) List(now time.Time) (out []Record, err error) {
	err = a.each(func(path string) error {
		if r, err := readRecord(path, now); err == nil && now.Before(r.Until) {
			out = append(out, r)
		}
		return nil
	})
	return out, err
}

// Clear forgets all accounts, and names them.
func (a *Accounts) Clear() (cleared []string, err error) {
	err = a.each(func(path string) error {
		cleared = append(cleared, strings.TrimSuffix(filepath.Base(path), ".json"))
		return os.Remove(path)
	})
	return cleared, err
}

func (a *Accounts) each(do func(path string) error) error {
	if a == nil {
		return nil
	}
	files, err := os.ReadDir(a.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the remembered quotas: %w", err)
	}
	for _, f := range files {
		if filepath.Ext(f.Name()) == ".json" && f.Type().IsRegular() {
			if err := do(filepath.Join(a.Dir, f.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// Note writes down a limit, unless one that lasts longer is known.
func (a *Accounts) Note(r Record) error {
	path := a.Path(r.Backend)
	if path == "" {
		return nil
	}
	if old, found, err := a.Look(r.Backend, r.At); err == nil && found && old.Until.After(r.Until) {
		return nil
	}
	r.Version, r.Project = accountVersion, a.For
	if last := r.At.Add(longestRecord); r.Until.After(last) {
		r.Until = last
	}
	data, err := json.Marshal(r)
	if err == nil {
		err = os.MkdirAll(a.Dir, 0o700)
	}
	if err == nil {
		err = atomicfile.Write(atomicfile.OS(), path, append(data, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("share %s's quota with other runs: %w", r.Backend, err)
	}
	return nil
}

// Forget removes what is known of a backend's account.
func (a *Accounts) Forget(backend string) error {
	path := a.Path(backend)
	if path == "" {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget a limit that has passed: %w", err)
	}
	return nil
}
