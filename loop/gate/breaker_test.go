package gate

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestBreakerOpens(t *testing.T) {
	t.Parallel()
	moved := []string{"a.go"}
	for _, c := range []struct {
		name  string
		limit Limits
		facts []Facts
		open  int // after which iteration, 0 for never
		says  string
	}{
		{"no progress 3 times", Limits{}, []Facts{{}, {}, {}}, 3, "3 iterations in a row"},
		{"progress in between", Limits{}, []Facts{{}, {}, {Changed: moved}, {}, {}}, 0, ""},
		{"a checked item is progress", Limits{}, []Facts{{}, {}, {Before: parsed("- [ ] a"), After: parsed("- [x] a")},
			{}, {}}, 0, ""},
		{"nobody looks at changes", Limits{}, []Facts{{Unwatched: true}, {Unwatched: true}, {Unwatched: true}}, 0, ""},
		{"same error 5 times, with changes", Limits{}, same(5, moved), 5,
			"the same error came 5 times in a row: open /tmp/x4: no such file, after 4s"},
		{"same error 4 times", Limits{}, same(4, moved), 0, ""},
		{"same failing verify 5 times", Limits{}, verify(5, moved), 5,
			"the same error came 5 times in a row: --- FAIL: TestA (0.04s)"},
		{"another error in between", Limits{}, append(append(same(3, moved), Facts{Err: "other", Changed: moved}),
			same(3, moved)...), 0, ""},
		{"output shrinks by 70 %", Limits{}, []Facts{{OutputBytes: 1000, Changed: moved}, {OutputBytes: 300}}, 2,
			"from 1000 bytes to 300"},
		{"output shrinks by 69 %", Limits{}, []Facts{{OutputBytes: 1000, Changed: moved}, {OutputBytes: 310}}, 0, ""},
		{"output shrinks bit by bit", Limits{}, []Facts{{OutputBytes: 1000, Changed: moved}, {OutputBytes: 500},
			{OutputBytes: 250}}, 3, "from 1000 bytes to 250"},
		{"output shrinks with progress", Limits{}, []Facts{{OutputBytes: 1000, Changed: moved},
			{OutputBytes: 10, Changed: moved}}, 0, ""},
		{"little output shrinks", Limits{}, []Facts{{OutputBytes: 400, Changed: moved}, {OutputBytes: 1}}, 0, ""},
		{"limits of one's own", Limits{NoProgress: 1}, []Facts{{}}, 1, "1 iteration in a row"},
		{"switched off", Limits{NoProgress: -1, SameError: -1, Shrink: -1},
			[]Facts{{Err: "x"}, {Err: "x"}, {Err: "x"}, {Err: "x"}, {Err: "x"}, {Err: "x"}}, 0, ""},
	} {
		var b Breaker
		opened := 0
		for i, f := range c.facts {
			if b.Add(f, c.limit) && opened == 0 {
				opened = i + 1
				if b.State != BreakerOpen || !strings.Contains(b.Evidence, c.says) {
					t.Errorf("%s: %s with evidence %q, want %q in it", c.name, b.State, b.Evidence, c.says)
				}
			}
		}
		if opened != c.open {
			t.Errorf("%s: opened after %d, want %d", c.name, opened, c.open)
		}
	}
}

func same(n int, changed []string) []Facts {
	var out []Facts
	for i := range n {
		out = append(out, Facts{Err: fmt.Sprintf("open /tmp/x%d: no such file, after %ds", i, i), Changed: changed})
	}
	return out
}

func verify(n int, changed []string) []Facts {
	var out []Facts
	for i := range n {
		out = append(out, Facts{Verify: &Check{Output: fmt.Sprintf("ok a %d\n--- FAIL: TestA (0.0%ds)\nexit status 1",
			i, i)}, Changed: changed})
	}
	return out
}

func TestBreakerHalfOpen(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	open := func() *Breaker {
		b := &Breaker{}
		b.Begin("one")
		for range 3 {
			b.Add(Facts{Now: at}, Limits{})
		}
		return b
	}
	b := open()
	if ok, until := b.Ready(at.Add(29*time.Minute), Limits{}); ok || !until.Equal(at.Add(30*time.Minute)) {
		t.Errorf("before the cooldown is over: ready %v, until %s", ok, until)
	}
	if ok, _ := b.Ready(at.Add(30*time.Minute), Limits{}); !ok || b.State != BreakerHalfOpen {
		t.Errorf("after the cooldown: ready %v, %s", ok, b.State)
	}
	if b.Add(Facts{Changed: []string{"a"}}, Limits{}) || b.State == BreakerOpen || b.NoProgress != 0 {
		t.Errorf("after progress: %+v, want closed", b)
	}
	b = open()
	b.HalfOpen()
	if !b.Add(Facts{Now: at}, Limits{}) || b.State != BreakerOpen {
		t.Errorf("after no progress: %+v, want open", b)
	}
	b = open()
	if ok, until := b.Ready(at.Add(-time.Hour), Limits{}); ok || !until.Equal(at.Add(-30*time.Minute)) {
		t.Errorf("clock went backwards: ready %v until %s", ok, until)
	}
	b = open()
	b.Begin("two")
	if ok, _ := b.Ready(at, Limits{}); !ok || b.Add(Facts{}, Limits{}) {
		t.Errorf("an open breaker of an earlier run holds up a new one: %+v", b)
	}
	b = open()
	b.Begin("one")
	if ok, _ := b.Ready(at, Limits{}); ok {
		t.Error("a run that is taken up again forgets its open breaker")
	}
	b = &Breaker{}
	b.HalfOpen()
	if b.State != "" {
		t.Errorf("a closed breaker became %s", b.State)
	}
}

func TestSignature(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"FAIL in 0.03s", "FAIL in 1m2.5s", true},
		{"--- FAIL: TestA (0.03s)", "--- FAIL: TestA (12.30s)", true},
		{"at 2026-01-02T03:04:05Z", "at 2027-12-31T23:59:59Z", true},
		{"panic at 0xc000123400", "panic at 0xc0009fffff", true},
		{"commit 1a2b3c4d5e", "commit ffee00112233", true},
		{"open /tmp/abc/def: no", "open /var/folders/x/y: no", true},
		{"/home/a/src/x.go:12: undefined: y", "/builds/1/src/x.go:99: undefined: y", true},
		{"x.go:12: undefined: y", "x.go:12: undefined: z", false},
		{"a/x.go: bad", "a/y.go: bad", false},
		{"deadbeef", "feedface", false},
		{"exit status 1", "exit  status\n2", true},
		{"", "", true},
	} {
		if got := Signature(c.a) == Signature(c.b); got != c.same {
			t.Errorf("%q and %q: %q and %q, want same %v", c.a, c.b, Signature(c.a), Signature(c.b), c.same)
		}
	}
}

func FuzzSignature(f *testing.F) {
	f.Add("a/b.go:12: x 0x1f 3ms 2026-01-02")
	f.Add("µs1µs\xff0x")
	f.Fuzz(func(t *testing.T, text string) {
		if s := Signature(text); len(s) > signatureLimit+2<<10 {
			t.Errorf("%d bytes", len(s))
		}
	})
}
