package agent

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
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

// When a client's own tries end its run: what it printed in which second, and the second of its end, 0 for none.
func TestTriesOfItsOwn(t *testing.T) {
	t.Parallel()
	type said map[float64]string // "!" in front: on standard error
	const (
		init  = `{"type":"system","subtype":"init"}`
		works = `{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Bash"}]},"parent_tool_use_id":null}`
		turn  = `{"type":"turn.started"}`
		lost  = `{"type":"error","message":"Reconnecting... waiting for network (Connection failed: error sending request)"}`
		busy  = `{"type":"error","message":"Reconnecting... 1/5 (exceeded retry limit, last status: 429 Too Many Requests)"}`
		log   = `!2026-11-29T19:10:45.2Z  WARN codex_core::responses_retry: stream `
	)
	retry := func(status string, delay float64) string {
		return fmt.Sprintf(`{"type":"system","subtype":"api_retry","retry_delay_ms":%g,"error_status":%s,"error":"unknown"}`,
			1000*delay, status)
	}
	again := func(delay string) string {
		return log + "disconnected - retrying sampling request (1/5 in " + delay + ")... retries=1"
	}
	network := func(delay string) string {
		return log + "connection failed; waiting to retry error=Connection failed retry_delay=" + delay
	}
	attempt := func(n int) string {
		return fmt.Sprintf("!Attempt %d failed. Retrying with backoff... Error: exception TypeError: fetch failed sending request", n)
	}
	limited := func(n int) string {
		return fmt.Sprintf("!Attempt %d failed with status 429. Retrying with backoff... x", n)
	}
	const opencode = "!small=false error=\"AI_APICallError: "
	for _, tt := range []struct {
		name, backend string
		idle          time.Duration
		said          said
		why           cutoffKind
		ends          float64
		until         time.Duration // the reset, since the start
	}{
		{"a broken connection, then an answer", "claude", DefaultIdle, said{1: init, 2: retry("null", 0.6)}, "", 0, 0},
		{"no answer again and again", "claude", DefaultIdle, said{1: init, 2: retry("null", 0.5), 2.5: retry("null", 1),
			3.5: retry("null", 2), 5.5: retry("null", 4), 9.5: retry("null", 8), 17.5: retry("null", 16)}, cutoffAway, 17, 0},
		{"the same with no idle clock", "claude", 0, said{1: init, 2: retry("null", 0.5), 2.5: retry("null", 1),
			3.5: retry("null", 2), 5.5: retry("null", 4), 9.5: retry("null", 8), 17.5: retry("null", 16)}, cutoffAway, 17, 0},
		{"the last try is answered", "claude", DefaultIdle, said{1: init, 2: retry("null", 0.5), 2.5: retry("null", 1),
			3.5: retry("null", 2), 5.5: retry("null", 4)}, "", 0, 0},
		{"a long answer that breaks, twice", "claude", DefaultIdle, said{1: init, 60: retry("null", 0.5),
			120: retry("null", 1)}, "", 0, 0},
		{"an agent that has something to lose", "claude", DefaultIdle, said{1: init, 2: works, 10: retry("null", 5),
			15: retry("null", 30), 45: retry("null", 30), 75: retry("null", 30), 105: retry("null", 30)}, cutoffAway, 130, 0},
		{"a provider that answers in between", "claude", DefaultIdle, said{1: init, 2: retry("null", 8), 10: retry("529", 8),
			18: retry("null", 8), 26: retry("529", 8), 34: retry("null", 8), 42: retry("529", 8)}, "", 0, 0},
		{"429, then an answer", "claude", DefaultIdle, said{1: init, 2: retry("429", 1)}, "", 0, 0},
		{"429 for minutes", "claude", DefaultIdle, said{1: init, 2: retry("429", 300)}, cutoffSleeps, 122, 302 * time.Second},
		{"429 for hours", "claude", 0, said{1: init, 2: retry("429", 7200)}, cutoffSleeps, 2, 7202 * time.Second},
		{"does nothing but try", "claude", time.Minute, said{1: init, 10: retry("529", 20), 30: retry("529", 20),
			50: retry("529", 20), 70: retry("529", 20)}, cutoffRetries, 70, 0},
		{"nothing but 429", "claude", time.Minute, said{1: init, 10: retry("429", 20), 30: retry("429", 20),
			50: retry("429", 20), 70: retry("429", 30)}, cutoffSleeps, 70, 100 * time.Second},
		{"nothing but one try", "claude", time.Minute, said{1: init, 50: retry("529", 1)}, "", 0, 0},

		{"429, then an answer", "codex", DefaultIdle, said{1: turn, 2: busy, 2.5: again("2.999721978s")}, "", 0, 0},
		{"429, the delay told first", "codex", DefaultIdle, said{1: turn, 2: again("200ms"), 2.5: busy}, "", 0, 0},
		{"429 for hours", "codex", DefaultIdle, said{1: turn, 2: busy, 2.5: again("7632s")}, cutoffSleeps, 2.5,
			7634500 * time.Millisecond},
		{"429, of an older one", "codex", DefaultIdle, said{1: turn, 2: busy}, cutoffSleeps, 122, 0},
		{"no network", "codex", 0, said{1: turn, 4: lost, 4.5: network("5s"), 12: lost, 12.5: network("10s"), 25: lost,
			25.5: network("20s")}, cutoffAway, 19, 0},
		{"the network comes back", "codex", DefaultIdle, said{1: turn, 4: lost, 4.5: network("3s"), 10: lost,
			10.5: network("5s")}, "", 0, 0},
		{"no network, of an older one", "codex", DefaultIdle, said{1: turn, 4: lost, 12: lost}, cutoffAway, 19, 0},

		{"no answer", "gemini", DefaultIdle, said{3: attempt(1), 8: attempt(2), 18: attempt(3)}, cutoffAway, 18, 0},
		{"an answer at last", "gemini", DefaultIdle, said{3: attempt(1), 8: attempt(2)}, "", 0, 0},
		{"429, then an answer", "gemini", DefaultIdle, said{3: limited(1), 8: limited(2)}, "", 0, 0},

		{"a limit of the minute", "opencode", DefaultIdle, said{2: opencode + "You exceeded your current quota, please check your plan and billing details. * Quota exceeded for metric: generate_content_free_tier_requests, limit: 10 Please retry in 3.5s.\""}, "", 0, 0},
		{"milliseconds", "opencode", DefaultIdle, said{2: opencode + "Rate limit reached for M on tokens per min (TPM): Limit 30000. Please try again in 842ms.\""}, "", 0, 0},
		{"a limit of the day", "opencode", DefaultIdle, said{2: opencode + "Rate limit reached for M on requests per day (RPD): Limit 200. Please try again in 2h7m12s.\""}, cutoffErrors, 2, 0},
		{"a quota without a time", "opencode", DefaultIdle, said{2: opencode + "You exceeded your current quota, please check your plan and billing details.\""}, cutoffErrors, 2, 0},
		{"no answer", "opencode", DefaultIdle, said{2: opencode + "Cannot connect to API: x\"", 4: opencode + "Cannot connect to API: x\"",
			8: opencode + "Cannot connect to API: x\"", 16: opencode + "Cannot connect to API: x\""}, cutoffAway, 17, 0},
	} {
		b, _ := Lookup(tt.backend)
		q := Request{ErrLog: filepath.Join(t.TempDir(), "err"), Idle: tt.idle}
		errs, p := b.errorWatch(q), newTranscript(b.Format, q)
		clock := newClocks(b.Format, Clocks{}, tt.idle, time.Now())
		var printed []byte
		var why *cutoff
		second := 0.0
		for ; second < 600 && why == nil; second += 0.5 {
			if line, ok := strings.CutPrefix(tt.said[second], "!"); ok {
				printed = append(printed, line+"\n"...)
				if err := os.WriteFile(q.ErrLog, printed, 0o600); err != nil {
					t.Fatal(err)
				}
			} else if line != "" {
				stream.Line(b.Format, []byte(line), p.progress.apply)
			}
			if why = errs.look(&p.progress); why == nil {
				why = clock.check(&p.progress, time.Duration(second*float64(time.Second)), true, p.claims)
			}
		}
		got := cutoffKind("")
		until := time.Duration(0)
		if why != nil {
			got, second = why.clock, second-0.5
			if why.left > 0 {
				until = time.Duration(second*float64(time.Second)) + why.left
			}
		} else {
			second = 0
		}
		if got != tt.why || second != tt.ends || until != tt.until {
			t.Errorf("%s, %s: ended after %g s by %q, until %v; want %g, %q, %v", tt.backend, tt.name, second, got, until,
				tt.ends, tt.why, tt.until)
		}
	}
}
