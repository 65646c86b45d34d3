package grant

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"descartes/internal/atomicfile"
)

func newBook(t *testing.T) Book {
	return Book{FS: atomicfile.OS(), Path: filepath.Join(t.TempDir(), "grants.json")}
}

func give(t *testing.T, b Book, g Grant) Grant {
	t.Helper()
	if g.At.IsZero() {
		g.At = now()
	}
	if g.Expires.IsZero() {
		g.Expires = g.At.Add(time.Hour)
	}
	g, err := b.Add(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func now() time.Time { return time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC) }

func reserve(t *testing.T, b Book, gate, loop, what string, at time.Time) (Grant, int) {
	t.Helper()
	g, n, err := b.Reserve(t.Context(), gate, loop, what, at)
	if err != nil {
		t.Fatal(err)
	}
	return g, n
}

func TestReserve(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	if _, n := reserve(t, b, "G2", "a", "1", now()); n != 0 {
		t.Fatal("a use of nothing")
	}
	later := give(t, b, Grant{Gate: "G2", Uses: 1, Expires: now().Add(2 * time.Hour)})
	sooner := give(t, b, Grant{Gate: "G2", Uses: 2, Expires: now().Add(time.Hour)})
	mine := give(t, b, Grant{Gate: "G2", Uses: 1, Loop: "mine", Expires: now().Add(time.Minute)})
	for _, c := range []struct {
		gate, loop, what string
		after            time.Duration
		want             string
		nth              int
	}{
		{"G1", "a", "G1", 0, "", 0},
		{"G2", "a", "1", 0, sooner.ID, 1}, // that expires first
		{"G2", "a", "1", 0, sooner.ID, 1}, // killed in between: the same use
		{"G2", "mine", "1", 0, mine.ID, 1},
		{"G2", "b", "1", 0, sooner.ID, 2},
		{"G2", "b", "2", 61 * time.Minute, later.ID, 1},
		{"G2", "b", "1", 61 * time.Minute, "", 0}, // what was taken for it has expired
		{"G2", "b", "3", 61 * time.Minute, "", 0}, // used up
		{"G2", "b", "2", 61 * time.Minute, later.ID, 1},
	} {
		if g, n := reserve(t, b, c.gate, c.loop, c.what, now().Add(c.after)); g.ID != c.want || n != c.nth {
			t.Errorf("%s by %s for %s after %v: use %d of %q, want %d of %q", c.gate, c.loop, c.what, c.after, n, g.ID, c.nth, c.want)
		}
	}
	if _, err := b.Revoke(t.Context(), later.ID, now()); err != nil {
		t.Fatal(err)
	}
	if _, n := reserve(t, b, "G2", "c", "9", now()); n != 0 {
		t.Error("a revoked grant is used")
	}
}

// However many ask at the same time, a grant is used as often as it says, and each asker has one use of its own.
func TestReserveTogether(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	give(t, b, Grant{Gate: "G2", Uses: 5})
	var mu sync.Mutex
	seen := map[int]int{}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			_, n, err := b.Reserve(t.Context(), "G2", fmt.Sprint("loop-", i), "x", now())
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			seen[n]++
		})
	}
	wg.Wait()
	if seen[0] != 15 || seen[1] != 1 || seen[5] != 1 || len(seen) != 6 {
		t.Errorf("uses were taken so: %v", seen)
	}
}

func TestHold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do    func(t *testing.T, b Book, g Grant)
		notes int
		left  int // of 3 uses, afterwards
	}{
		"nothing": {func(*testing.T, Book, Grant) {}, 0, 3},
		"used":    {func(t *testing.T, b Book, _ Grant) { reserve(t, b, "G2", "a", "1", now()) }, 0, 2},
		"made":    {func(t *testing.T, b Book, _ Grant) { give(t, b, Grant{Gate: "G1", Uses: 1}) }, 1, 3},
		"deleted": {func(t *testing.T, b Book, _ Grant) { remove(t, b) }, 1, 3},
		"broken":  {func(t *testing.T, b Book, _ Grant) { put(t, b, "{") }, 2, 3},
		"a folder": {func(t *testing.T, b Book, _ Grant) {
			remove(t, b)
			if err := os.Mkdir(b.Path, 0o755); err != nil {
				t.Fatal(err)
			}
		}, 2, 3},
		"wider, and a use": {func(t *testing.T, b Book, g Grant) {
			reserve(t, b, "G2", "a", "1", now())
			put(t, b, fmt.Sprintf(`{"version":"1.0","grants":[{"id":%q,"gate":"G2","uses":99,"granted_at":"2030-01-02T03:04:05Z","expires_at":"2030-01-02T04:04:05Z","used":[{"loop":"a","for":"1","at":"2030-01-02T03:04:05Z"}]}]}`, g.ID))
		}, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBook(t)
			g := give(t, b, Grant{Gate: "G2", Uses: 3})
			before, err := b.Read()
			if err != nil {
				t.Fatal(err)
			}
			c.do(t, b, g)
			notes, err := b.Hold(t.Context(), before)
			if err != nil || len(notes) != c.notes {
				t.Errorf("notes %q, %v; want %d", notes, err, c.notes)
			}
			now, err := b.Read()
			if err != nil || len(now) != 1 || now[0].ID != g.ID || now[0].Uses != 3 || now[0].Left() != c.left {
				t.Errorf("afterwards there are %+v, %v", now, err)
			}
			if notes, err := b.Hold(t.Context(), before); err != nil || len(notes) > 0 {
				t.Errorf("once more it undoes %q, %v", notes, err)
			}
		})
	}
}

func remove(t *testing.T, b Book) {
	if err := os.Remove(b.Path); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, b Book, text string) {
	if err := os.WriteFile(b.Path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
