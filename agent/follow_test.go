package agent

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"descartes/agent/process"
	"descartes/agent/stream"
)

// live feeds a file to a follower while it reads it.
type live struct {
	tb   testing.TB
	f    *watchdog
	q    Request
	log  *os.File
	tick chan time.Time
	over chan struct{}
	done chan struct{}
}

// goLive starts a follower of a file that others may have begun.
func goLive(tb testing.TB, b Backend, q Request, begun []byte) *live {
	tb.Helper()
	return goFollow(tb, NewRunner(nil, b).watchdog(q, time.Now(), func(error) {}), begun)
}

func goFollow(tb testing.TB, f *watchdog, begun []byte) *live {
	tb.Helper()
	log, err := os.OpenFile(f.transcript.q.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		tb.Fatal(err)
	}
	l := &live{tb: tb, f: f, q: f.transcript.q, log: log, tick: make(chan time.Time), over: make(chan struct{}),
		done: make(chan struct{})}
	l.print(begun)
	f.tick, f.over = l.tick, l.over
	go func() { defer close(l.done); l.f.run() }()
	return l
}

func (l *live) print(p []byte) {
	if _, err := l.log.Write(p); err != nil {
		l.tb.Fatal(err)
	}
}

// wait returns when the watchdog has read what was there.
func (l *live) wait() {
	for range 2 { // it may have looked before the last bytes came
		select {
		case l.tick <- time.Time{}:
		case <-l.done: // it has decided
		}
	}
}

// finish is the run's result.
func (l *live) finish(b Backend, exit process.Exit) Result {
	l.tb.Helper()
	close(l.over)
	<-l.done
	l.log.Close()
	res, err := NewRunner(nil, b).result(l.q, exit, l.f)
	if err != nil {
		l.tb.Fatal(err)
	}
	return res
}

// What is read while it is printed, in pieces of any size, ends no recorded run that went on.
func TestRecordedStreamsLive(t *testing.T) {
	t.Parallel()
	for _, c := range cases(t) {
		t.Run(c.File, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(1, uint64(len(c.stream))))
			b, dir := c.backend(t), t.TempDir()
			for round, cut := range []int{len(c.stream), random.IntN(len(c.stream) + 1), len(c.stream) / 997 * 997} {
				q := Request{Prompt: recordedPrompt, Log: filepath.Join(dir, string(rune('a'+round))), Offset: 30}
				l := goLive(t, b, q, []byte("TASK_COMPLETE of somebody else"))
				for rest := c.stream[:cut]; len(rest) > 0; {
					n := min(len(rest), 1+random.IntN(1+random.IntN(4000)))
					l.print(rest[:n])
					rest = rest[n:]
					if random.IntN(4) > 0 {
						l.wait()
					}
				}
				got := l.finish(b, c.exit())
				if want := judged(t, b, c.stream[:cut], c.exit()); !reflect.DeepEqual(got, want) {
					t.Errorf("cut at %d:\nlive %+v\nafterwards %+v", cut, got, want)
				}
			}
		})
	}
}

// What an agent does to its log must not keep the watchdog from its end, and what is there in the end counts.
func TestFollowedFileIsMeddledWith(t *testing.T) {
	t.Parallel()
	b, _ := Lookup("claude")
	const end = `{"type":"result","is_error":false,"result":"TASK_COMPLETE"}` + "\n"
	exit := process.Exit{Why: process.Exited, End: recordedAt()}
	for name, meddle := range map[string]func(l *live) error{
		"cut short":   func(l *live) error { return os.Truncate(l.q.Log, 0) },
		"removed":     func(l *live) error { return os.Remove(l.q.Log) },
		"replaced":    func(l *live) error { os.Remove(l.q.Log); return os.WriteFile(l.q.Log, []byte(end), 0o600) },
		"not touched": func(l *live) error { l.print([]byte(end)); return nil },
	} {
		q := Request{Prompt: recordedPrompt, Log: filepath.Join(t.TempDir(), "log")}
		l := goLive(t, b, q, []byte(`{"type":"system","subtype":"init"}`+"\n"+
			`{"type":"result","is_error":false,"result":"no"}`+"\n"))
		l.wait()
		if err := meddle(l); err != nil {
			t.Fatal(err)
		}
		l.wait()
		if name == "cut short" {
			l.print([]byte(end))
			l.wait()
		}
		if got := l.finish(b, exit); got.Complete != (name != "removed") || got.End != Finished && name != "removed" {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// The log may be a pipe that nobody writes to: opening it must not wait.
func TestLogThatIsNoFile(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	q := s.request("pipe")
	q.Timeout = 20 * time.Second
	_, err := NewRunner(s.shim, script(ByStdin, "rm -f pipe.log; mkfifo pipe.log; sleep 0.3")).Run(t.Context(), q)
	if err == nil || err.Error() != "read agent output: "+q.Log+" is not a file any more" {
		t.Errorf("got %v", err)
	}
}

// jumped is a time whose wall clock was set back by an hour, or forward by a
// negative one, after it was read: what time.Now gave before somebody set it.
func jumped(t *testing.T, at time.Time, hours int) time.Time {
	t.Helper()
	was := at
	// The first word: a bit, the seconds since 1885, the nanoseconds.
	wall := (*uint64)(unsafe.Pointer(&at))
	if *wall>>63 != 1 {
		t.Fatal("a time without a monotonic reading")
	}
	*wall = uint64(int64(*wall) + int64(hours)*3600<<30)
	if got := at.Round(0).Sub(was.Round(0)); got != time.Duration(hours)*time.Hour || at.Sub(was) != 0 {
		t.Fatalf("the clock moved by %v, the time by %v", got, at.Sub(was))
	}
	return at
}

// A clock that is set in mid-run, back or forward, neither ends nor prolongs it.
func TestClockJump(t *testing.T) {
	t.Parallel()
	b, _ := Lookup("claude")
	limits := Clocks{Start: 10 * time.Minute, Exit: 10 * time.Minute, Spin: 20}
	for _, hours := range []int{-1, 1, -24 * 365, 24 * 365} {
		for _, text := range []string{"", `{"type":"result","is_error":false,"result":"TASK_COMPLETE"}` + "\n"} {
			q := Request{Log: filepath.Join(t.TempDir(), "log"), Clocks: limits}
			f := NewRunner(nil, b).watchdog(q, jumped(t, time.Now().Add(-time.Minute), hours), func(error) {})
			l := goFollow(t, f, []byte(text))
			l.wait()
			close(l.over)
			<-l.done
			if f.why != nil || f.looked < time.Minute {
				t.Errorf("set by %d hours: ended by %v, looked at %v", hours, f.why, f.looked)
			}
			// And with the time for it really gone they act.
			f.clock.began = jumped(t, time.Now().Add(-11*time.Minute), hours)
			f.clock.ends, f.clock.ended = f.transcript.progress.ends, 0
			if now := time.Since(f.clock.began); f.clock.check(&f.transcript.progress, now,
				f.transcript.started(), f.transcript.claims) == nil {
				t.Errorf("set by %d hours: not ended after %v", hours, now)
			}
		}
	}
}

// A client that says on standard error alone that it waits is out of quota when it has slept for two minutes; the same
// try said again is no other one. One that tries on, or that its provider answers, is not.
func TestSleepsAfterRefusal(t *testing.T) {
	t.Parallel()
	b, _ := Lookup("qwen")
	for _, tt := range []struct {
		name   string
		says   func(second int) string
		answer int // the second in which there is one
		ends   int // 0 for not
	}{
		{"sleeps", func(s int) string {
			return fmt.Sprintf("[qwen-code] Waiting for API capacity... attempt 8, retry in %ds\n", 500-s)
		}, 0, 150},
		{"tries on", func(s int) string {
			return fmt.Sprintf("[qwen-code] Waiting for API capacity... attempt %d, retry in 9s\n", s)
		}, 0, 0},
		{"is answered", func(s int) string {
			return map[bool]string{true: "[qwen-code] Waiting for API capacity... attempt 8, retry in 30s\n"}[s == 30]
		}, 60, 0},
	} {
		q := Request{ErrLog: filepath.Join(t.TempDir(), "err")}
		errs, p := b.errorWatch(q), newTranscript(b.Format, q)
		clock := newClocks(b.Format, Clocks{Start: DefaultStart}, DefaultIdle, time.Now())
		var printed []byte
		ended := 0
		for second := 0; second < 600 && ended == 0; second += 30 {
			if second > 0 {
				printed = append(printed, tt.says(second)...)
				if err := os.WriteFile(q.ErrLog, printed, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if second == tt.answer {
				p.progress.apply(stream.Event{Kind: stream.Text, Text: "Hello."})
			}
			if why := errs.look(&p.progress); why != nil {
				t.Fatalf("%s: %v", tt.name, why)
			}
			now := time.Duration(second) * time.Second
			if why := clock.check(&p.progress, now, tt.answer > 0 && second >= tt.answer, p.claims); why != nil {
				if ended = second; why.clock != cutoffSleeps {
					t.Errorf("%s: %v", tt.name, why)
				}
			}
		}
		if ended != tt.ends {
			t.Errorf("%s: ended after %d s, want %d", tt.name, ended, tt.ends)
		}
	}
}
