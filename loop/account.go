package loop

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
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
	ID  func(backend string) string // names the account that a backend works with; "" for none
}

// usedUp is one account's file.
type usedUp struct {
	Version int       `json:"version"`
	Backend string    `json:"backend"`
	Until   time.Time `json:"until"`
	Reason  string    `json:"reason"`
	Loop    string    `json:"loop"`
	At      time.Time `json:"at"` // when the limit was met
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
func (a *Accounts) look(backend string, now time.Time) (u usedUp, found bool, err error) {
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
		u, err = readUsedUp(path, now)
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

func readUsedUp(path string, now time.Time) (u usedUp, err error) {
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
	return u, nil
}

// note writes down a limit, unless one that lasts longer is known.
func (a *Accounts) note(u usedUp) error {
	path := a.path(u.Backend)
	if path == "" {
		return nil
	}
	if old, found, err := a.look(u.Backend, u.At); err == nil && found && old.Until.After(u.Until) {
		return nil
	}
	u.Version = accountVersion
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
