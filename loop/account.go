package loop

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"descartes/internal/atomicfile"
)

// Accounts remembers until when the quota of a provider's account is used up, for every loop of one user
// on this machine: who meets a limit spares the others a request that would be refused. It costs one stat
// before an attempt. Nothing that goes wrong with it is an error of a run: what cannot be read or written
// is a warning. A nil *Accounts remembers nothing.
type Accounts struct {
	FS  atomicfile.FS
	Dir string                      // one file for each account; made when it is needed
	For string                      // the project whose loop notes a limit
	ID  func(backend string) string // names the account that a backend works with; "" for none
}

// Limit is what is remembered of one account: its file.
type Limit struct {
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
func (u Limit) By() string {
	who := "loop " + u.Loop
	if u.Project != "" {
		who += " in " + u.Project
	}
	return who + ", " + u.At.Local().Format("Mon 2 Jan 15:04")
}

// Forget says where the knowledge comes from, and the command that clears it.
func (u Limit) Forget() string {
	return fmt.Sprintf("remembered from %s; descartes limits clear %s forgets it", u.By(), u.Account)
}

const (
	accountVersion = 1
	maxAccountFile = 64 << 10
	// longestLimit bounds what is believed of a limit's end: most last hours, some a week, few a month.
	longestLimit = 32 * 24 * time.Hour
)

func (a *Accounts) path(backend string) string {
	if a == nil || a.Dir == "" {
		return ""
	}
	if id := a.ID(backend); id != "" {
		return filepath.Join(a.Dir, fileName(id)+".json")
	}
	return ""
}

// look finds what is known of a backend's account. A limit that has passed is removed.
func (a *Accounts) look(backend string, now time.Time) (u Limit, found bool, err error) {
	path := a.path(backend)
	if path == "" {
		return u, false, nil
	}
	fi, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return u, false, nil
	case err == nil && !fi.Mode().IsRegular():
		err = fmt.Errorf("%s is not a regular file", path)
	case err == nil && fi.Size() > maxAccountFile:
		err = fmt.Errorf("%s has %d bytes", path, fi.Size())
	}
	if err == nil {
		u, err = readLimit(path, now)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return u, false, nil
	}
	if err != nil {
		return u, false, fmt.Errorf("what is known of %s's quota is not used: %w", backend, err)
	}
	if !now.Before(u.Until) {
		return u, false, a.forget(backend)
	}
	return u, true, nil
}

func readLimit(path string, now time.Time) (u Limit, err error) {
	f, err := os.Open(path)
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err := io.ReadAll(io.LimitReader(f, maxAccountFile))
	if err != nil {
		return u, err
	}
	if err := json.Unmarshal(data, &u); err != nil {
		return u, fmt.Errorf("read %s: %w", path, err)
	}
	switch {
	case u.Version != accountVersion:
		return u, fmt.Errorf("read %s: version %d, this program reads %d", path, u.Version, accountVersion)
	case u.Until.Sub(u.At) > longestLimit+time.Minute || u.At.Sub(now) > 24*time.Hour:
		return u, fmt.Errorf("read %s: its times cannot be", path)
	}
	u.Account = strings.TrimSuffix(filepath.Base(path), ".json")
	return u, nil
}

// Known is what is remembered of a backend's account, if that is used up.
func (a *Accounts) Known(backend string, now time.Time) (Limit, bool) {
	path := a.path(backend)
	if path == "" {
		return Limit{}, false
	}
	u, err := readLimit(path, now)
	return u, err == nil && now.Before(u.Until)
}

// List is what is remembered of all accounts that are used up, by name. What cannot be read is left out: no loop
// believes it.
func (a *Accounts) List(now time.Time) (out []Limit, err error) {
	err = a.each(func(path string) error {
		if u, err := readLimit(path, now); err == nil && now.Before(u.Until) {
			out = append(out, u)
		}
		return nil
	})
	return out, err
}

// Clear forgets an account, or all with "", and names what it forgot.
func (a *Accounts) Clear(account string) (cleared []string, err error) {
	err = a.each(func(path string) error {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		if account != "" && name != account {
			return nil
		}
		cleared = append(cleared, name)
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
		return fmt.Errorf("read what is remembered of quotas: %w", err)
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

// note writes down a limit, unless one that lasts longer is known.
func (a *Accounts) note(u Limit) error {
	path := a.path(u.Backend)
	if path == "" {
		return nil
	}
	if old, found, err := a.look(u.Backend, u.At); err == nil && found && old.Until.After(u.Until) {
		return nil
	}
	u.Version, u.Project = accountVersion, a.For
	if last := u.At.Add(longestLimit); u.Until.After(last) {
		u.Until = last
	}
	data, err := json.Marshal(u)
	if err == nil {
		err = os.MkdirAll(a.Dir, 0o700)
	}
	if err == nil {
		err = atomicfile.Write(a.FS, path, append(data, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("other loops are not told of %s's quota: %w", u.Backend, err)
	}
	return nil
}

// forget removes what is known of a backend's account.
func (a *Accounts) forget(backend string) error {
	path := a.path(backend)
	if path == "" {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget a limit that has passed: %w", err)
	}
	return nil
}
