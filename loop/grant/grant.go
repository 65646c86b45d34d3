// Package grant owns the consent that a person gives ahead: so many passes of one gate, until a time. A grant is kept in the
// project's .descartes folder; each use of it is written down before the gate is passed, so that a kill in between neither
// loses a use nor gives one more.
package grant

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gofrs/flock"

	"descartes/internal/atomicfile"
	"descartes/internal/crash"
	"descartes/internal/plainfile"
)

// Gates are those that a grant may be for.
const Gates = "G1, G2, G3"

// MaxUses and MaxTime bound a grant.
const (
	MaxUses = 1000
	MaxTime = 90 * 24 * time.Hour
)

// Grant is a person's consent to pass a gate.
//
//	open -> used up | expired | revoked
type Grant struct {
	ID      string     `json:"id"`
	Gate    string     `json:"gate"`
	Uses    int        `json:"uses"`
	Loop    string     `json:"loop,omitempty"` // the only loop that may use it; "" for any of the project
	At      time.Time  `json:"granted_at"`
	Expires time.Time  `json:"expires_at"`
	Revoked *time.Time `json:"revoked_at,omitempty"`
	Used    []Use      `json:"used,omitempty"`
}

// Use is one pass of the gate, taken before it is made.
type Use struct {
	Loop string    `json:"loop"`
	For  string    `json:"for"` // what was asked: the gate and the iteration. The same is not taken twice
	At   time.Time `json:"at"`
}

// Left is how often it may still be used.
func (g *Grant) Left() int { return max(0, g.Uses-len(g.Used)) }

// State says how it stands, in words: open, used up, expired or revoked.
func (g *Grant) State(now time.Time) string {
	switch {
	case g.Revoked != nil:
		return "revoked"
	case !now.Before(g.Expires):
		return "expired"
	case g.Left() == 0:
		return "used up"
	}
	return "open"
}

// Valid says why a grant cannot be given.
func (g *Grant) Valid() error {
	switch {
	case !slices.Contains([]string{"G1", "G2", "G3"}, g.Gate):
		return fmt.Errorf("no gate %q can be granted, only %s", g.Gate, Gates)
	case g.Uses < 1 || g.Uses > MaxUses:
		return fmt.Errorf("a grant has 1 to %[2]d uses, not %[1]d", g.Uses, MaxUses)
	case !g.Expires.After(g.At):
		return errors.New("a grant cannot expire before it is given")
	case g.Expires.Sub(g.At) > MaxTime:
		return fmt.Errorf("a grant lasts at most %d days", int(MaxTime.Hours()/24))
	}
	return nil
}

// Book is the file of a project's grants. Several processes may use it at the same time.
type Book struct {
	FS   atomicfile.FS
	Path string
}

// version is that of the file. One of another version is refused and left alone.
const version = "1.0"

const (
	maxBook  = 4 << 20              // bytes
	lockWait = 5 * time.Second      // for another process that reads or writes
	keep     = 30 * 24 * time.Hour  // how long a grant that is over is listed
	lockPoll = 5 * time.Millisecond // between two tries
)

type book struct {
	Version string  `json:"version"`
	Grants  []Grant `json:"grants"`
}

// Read lists the grants, oldest first.
func (b Book) Read() ([]Grant, error) {
	data, err := plainfile.Read(filepath.Dir(b.Path), b.Path, maxBook)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read grants: %w", err)
	}
	var f book
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("read grants %s: %w", b.Path, err)
	}
	if f.Version != version {
		return nil, fmt.Errorf("read grants %s: it has the version %q, this program knows %s", b.Path, f.Version, version)
	}
	return f.Grants, nil
}

// change reads, changes and writes the grants while no other process does. do reports whether there is something to write.
func (b Book) change(ctx context.Context, do func(list []Grant) (now []Grant, changed bool, err error)) (err error) {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	k := flock.New(b.Path+".lock", flock.SetFlag(os.O_CREATE|os.O_RDWR))
	if ok, err := k.TryLockContext(ctx, lockPoll); err != nil || !ok {
		return fmt.Errorf("lock grants: %w", errors.Join(err, ctx.Err()))
	}
	defer func() { err = errors.Join(err, k.Unlock()) }()
	list, err := b.Read()
	if err != nil {
		return err
	}
	list, changed, err := do(list)
	if err != nil || !changed {
		return err
	}
	data, err := json.MarshalIndent(book{version, list}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode grants: %w", err)
	}
	if err := atomicfile.Write(b.FS, b.Path, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("save grants: %w", err)
	}
	return nil
}

// Add gives a grant, under a name that is drawn. What has been over for long is dropped.
func (b Book) Add(ctx context.Context, g Grant) (Grant, error) {
	if err := g.Valid(); err != nil {
		return g, err
	}
	return g, b.change(ctx, func(list []Grant) ([]Grant, bool, error) {
		list = slices.DeleteFunc(list, func(o Grant) bool { return g.At.Sub(o.Expires) > keep })
		for g.ID == "" || slices.ContainsFunc(list, func(o Grant) bool { return o.ID == g.ID }) {
			var drawn [3]byte
			if _, err := rand.Read(drawn[:]); err != nil {
				return nil, false, fmt.Errorf("draw a name: %w", err)
			}
			g.ID = "g-" + hex.EncodeToString(drawn[:])
		}
		return append(list, g), true, nil
	})
}

// ErrUnknown says that no grant has that name.
var ErrUnknown = errors.New("no such grant")

// Revoke ends a grant, or with "all" each that is open, and returns those that it ended.
func (b Book) Revoke(ctx context.Context, id string, now time.Time) (ended []Grant, err error) {
	err = b.change(ctx, func(list []Grant) ([]Grant, bool, error) {
		if id != "all" && !slices.ContainsFunc(list, func(g Grant) bool { return g.ID == id }) {
			return nil, false, fmt.Errorf("%w: %q", ErrUnknown, id)
		}
		for i := range list {
			if g := &list[i]; (g.ID == id || id == "all") && g.State(now) == "open" {
				g.Revoked = &now
				ended = append(ended, *g)
			}
		}
		return list, len(ended) > 0, nil
	})
	return ended, err
}

// Reserve takes a use of a grant for what a loop asks at a gate. What was taken for the same before is that use again: the loop was killed
// between it and the gate. The one that expires first is used first. nth counts from 1; 0: there is no grant for it.
func (b Book) Reserve(ctx context.Context, gate, loop, what string, now time.Time) (g Grant, nth int, err error) {
	if list, err := b.Read(); err != nil || !slices.ContainsFunc(list, func(g Grant) bool { return g.Gate == gate }) {
		return g, 0, err
	}
	err = b.change(ctx, func(list []Grant) ([]Grant, bool, error) {
		best := -1
		for i := range list {
			o := &list[i]
			if o.Gate != gate || o.Loop != "" && o.Loop != loop || o.Revoked != nil || !now.Before(o.Expires) {
				continue
			}
			if u := slices.IndexFunc(o.Used, func(u Use) bool { return u.Loop == loop && u.For == what }); u >= 0 {
				g, nth = *o, u+1
				return list, false, nil
			}
			if o.Left() > 0 && (best < 0 || o.Expires.Before(list[best].Expires)) {
				best = i
			}
		}
		if best < 0 {
			return list, false, nil
		}
		list[best].Used = append(list[best].Used, Use{Loop: loop, For: what, At: now})
		g, nth = list[best], len(list[best].Used)
		return list, true, nil
	})
	if err != nil {
		return Grant{}, 0, err
	}
	crash.Point("grant: reserved")
	return g, nth, nil
}

// Hold undoes what an attempt that no sandbox held in may have done to the grants since they were read: one that was made, made wider or
// deleted. Uses and revocations, which only take away, stay. It says what it undid.
func (b Book) Hold(ctx context.Context, before []Grant) (notes []string, err error) {
	if now, err := b.Read(); err == nil && narrower(now, before) {
		return nil, nil
	}
	if _, err := b.Read(); err != nil { // what nobody can read is replaced
		if err := os.RemoveAll(b.Path); err != nil {
			return nil, fmt.Errorf("put back the grants: %w", err)
		}
		notes = append(notes, "the grants could no longer be read")
	}
	err = b.change(ctx, func(list []Grant) (out []Grant, _ bool, _ error) {
		for _, o := range list {
			if !slices.ContainsFunc(before, func(g Grant) bool { return g.ID == o.ID }) {
				notes = append(notes, "grant "+o.ID+" was made")
			}
		}
		for _, g := range before {
			i := slices.IndexFunc(list, func(o Grant) bool { return o.ID == g.ID })
			switch {
			case i < 0:
				notes = append(notes, "grant "+g.ID+" was deleted")
			case !list[i].within(g):
				notes = append(notes, "grant "+g.ID+" was changed")
			}
			if i >= 0 {
				g = g.plus(list[i])
			}
			out = append(out, g)
		}
		return out, true, nil
	})
	return notes, err
}

// narrower reports whether the grants of now allow no more than those before.
func narrower(now, before []Grant) bool {
	return len(now) == len(before) && !slices.ContainsFunc(now, func(g Grant) bool {
		i := slices.IndexFunc(before, func(o Grant) bool { return o.ID == g.ID })
		return i < 0 || !g.within(before[i])
	})
}

// within reports whether a grant is another one with perhaps more uses taken, or revoked.
func (g Grant) within(o Grant) bool {
	return g.ID == o.ID && g.Gate == o.Gate && g.Uses == o.Uses && g.Loop == o.Loop && g.At.Equal(o.At) && g.Expires.Equal(o.Expires) &&
		(o.Revoked == nil || g.Revoked != nil) && len(g.Used) >= len(o.Used) && slices.Equal(g.Used[:len(o.Used)], o.Used)
}

// plus is the grant with the uses and the revocation of what became of it.
func (g Grant) plus(o Grant) Grant {
	g.Used = slices.Clone(g.Used)
	for _, u := range o.Used {
		if !slices.Contains(g.Used, u) {
			g.Used = append(g.Used, u)
		}
	}
	if g.Revoked == nil {
		g.Revoked = o.Revoked
	}
	return g
}
