package agent

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"descartes/agent/process"
	"descartes/agent/stream"
)

// recorded is one row of testdata/streams/cases.json.
type recorded struct {
	File     string
	Backend  string
	ExitCode *int    `json:"exit_code"`
	Signal   *string `json:"sent_signal"`
	Outcome  string
	Promise  bool   `json:"promise_in_final_text"`
	Stderr   string // the file of what it printed there; "" where that does not matter
	stream   []byte
}

// request is that of a run which has printed what was recorded.
func (c recorded) request() Request {
	dir := filepath.Join("testdata", "streams")
	q := Request{Prompt: recordedPrompt, Log: filepath.Join(dir, c.File)}
	if c.Stderr != "" {
		q.ErrLog = filepath.Join(dir, c.Stderr)
	}
	return q
}

func cases(tb testing.TB) (all []recorded) {
	tb.Helper()
	dir := filepath.Join("testdata", "streams")
	table, err := os.ReadFile(filepath.Join(dir, "cases.json"))
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(table, &all); err != nil {
		tb.Fatal(err)
	}
	for n := range all {
		if all[n].stream, err = os.ReadFile(filepath.Join(dir, all[n].File)); err != nil {
			tb.Fatal(err)
		}
	}
	return all
}

// backend is the one that the case was recorded with. Cline has no row.
func (c recorded) backend(tb testing.TB) Backend {
	tb.Helper()
	table, err := NewTable(map[string]Row{"cline": {Command: []string{"cline"}, Prompt: "arg",
		Format: stream.FormatCline}})
	if err != nil {
		tb.Fatal(err)
	}
	b, ok := table.Lookup(c.Backend)
	if !ok {
		tb.Fatalf("no backend %s", c.Backend)
	}
	return b
}

// recordedAt is when the streams were made.
func recordedAt() time.Time { return time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC) }

// exit is how the recorded run ended, as the shim would tell it.
func (c recorded) exit() process.Exit {
	e := process.Exit{Why: process.Exited, End: recordedAt()}
	if c.ExitCode != nil {
		e.Code = *c.ExitCode
	}
	if c.Signal != nil {
		e.Why = process.TimedOut
	}
	return e
}

const recordedPrompt = "Create fake.txt. Say <promise>COMPLETE</promise> when done.\n"

// judged is a result of a stream in a file.
func judged(tb testing.TB, b Backend, stream []byte, exit process.Exit) Result {
	tb.Helper()
	log := filepath.Join(tb.TempDir(), "log")
	if err := os.WriteFile(log, stream, 0o600); err != nil {
		tb.Fatal(err)
	}
	res, err := NewRunner(nil, b).result(Request{Prompt: recordedPrompt, Log: log}, exit, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return res
}

// outcome is a result in the words of cases.json.
func outcome(r Result) string {
	switch {
	case r.End == Limited:
		return "limit"
	case r.End == Refused && r.Cause == Fatal:
		return "fatal"
	case r.End == Crashed && r.Cause == Budget:
		return "budget"
	case r.End == Crashed && r.Cause == Transient:
		return "retryable"
	case r.End == TimedOut:
		return "killed"
	case r.End == Finished && r.Complete:
		return "complete"
	case r.End == Finished && r.Blocked != "":
		return "blocked"
	case r.End == Finished:
		return "incomplete"
	}
	return string(r.End)
}

func TestRecordedStreams(t *testing.T) {
	t.Parallel()
	for _, c := range cases(t) {
		t.Run(c.File, func(t *testing.T) {
			t.Parallel()
			res, err := NewRunner(nil, c.backend(t)).result(c.request(), c.exit(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.Signal != nil && c.Outcome != "killed" && c.Outcome != "stuck" { // it would have gone on for hours
				res = cutShort(t, c)
			}
			want := c.Outcome
			switch want {
			case "stuck": // somebody has to end it
				want = "killed"
			case "truncated": // the promise was made, and it ended well
				want = "complete"
			}
			if got := outcome(res); got != want {
				t.Errorf("got %s, want %s: %+v", got, want, res)
			}
			if res.Unknown != 0 {
				t.Errorf("%d of %d events unknown", res.Unknown, res.Events)
			}
			if bad := want != "complete" && want != "incomplete"; bad == (res.Reason+res.Blocked == "") {
				t.Errorf("reason %q", res.Reason)
			}
			told := listenTo(t, c)
			if told.complete != c.Promise {
				t.Errorf("promise %v, want %v in %q", told.complete, c.Promise, told.final)
			}
		})
	}
}

// cutShort is the result of a case whose client says no more, and which its clocks end before it has been silent for too
// long.
func cutShort(tb testing.TB, c recorded) Result {
	tb.Helper()
	b := c.backend(tb)
	r := NewRunner(nil, b)
	q := c.request()
	p := newTranscript(b.Format, q)
	if err := p.take(bytes.NewReader(c.stream), pieceSize); err != nil {
		tb.Fatal(err)
	}
	f := &watchdog{errs: b.errorWatch(q),
		clock: newClocks(b.Format, Clocks{Start: DefaultStart}, DefaultIdle, time.Now())}
	for now := time.Duration(0); f.why == nil && now < 3*time.Minute; now += time.Second {
		if f.why = f.errs.look(&p.progress); f.why == nil {
			f.why = f.clock.check(&p.progress, now, p.started(), p.claims)
		}
	}
	if f.why == nil {
		tb.Fatal("its clocks do not end it")
	}
	f.why.read = int64(len(c.stream))
	res, err := r.result(q, process.Exit{Why: process.Cancelled, End: recordedAt()}, f)
	if err != nil {
		tb.Fatal(err)
	}
	return res
}

// Each expression for a client's standard error stands for a line that it has printed there.
func TestErrorsAreRecorded(t *testing.T) {
	t.Parallel()
	printed := map[string][]byte{} // by the client's name
	for _, c := range cases(t) {
		if c.Stderr != "" {
			text, err := os.ReadFile(c.request().ErrLog)
			if err != nil {
				t.Fatal(err)
			}
			printed[c.Backend] = append(printed[c.Backend], text...)
		}
	}
	for _, b := range builtin() {
		words := b.StderrLimit
		for _, try := range b.StderrTries {
			words = append(words, try.Words)
		}
		for _, re := range words {
			if !regexp.MustCompile(re).Match(printed[strings.TrimSuffix(b.Name, "-acp")]) {
				t.Errorf("%s: no recording has %s", b.Name, re)
			}
		}
	}
}

// listenTo reads a case's words alone.
func listenTo(tb testing.TB, c recorded) *said {
	tb.Helper()
	h, err := readTranscript(c.backend(tb).Format, Request{Prompt: recordedPrompt,
		Log: filepath.Join("testdata", "streams", c.File)}, math.MaxInt64)
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

// A stream that was cut anywhere is no success that the whole one is not, and
// never more than it said.
func TestCutStreams(t *testing.T) {
	t.Parallel()
	for _, c := range cases(t) {
		t.Run(c.File, func(t *testing.T) {
			t.Parallel()
			b, exit := c.backend(t), c.exit()
			for n := 0; n < len(c.stream); n += 997 {
				res := judged(t, b, c.stream[:n], exit)
				if res.Complete && c.Outcome != "complete" && c.Outcome != "truncated" {
					t.Errorf("cut at %d: complete: %+v", n, res)
				}
				if exit.Why == process.TimedOut && res.End != TimedOut {
					t.Errorf("cut at %d: %+v", n, res)
				}
				if c.ExitCode != nil && *c.ExitCode != 0 && exit.Why == process.Exited && res.End == Finished &&
					res.Blocked == "" {
					t.Errorf("cut at %d, exit status %d: %+v", n, *c.ExitCode, res)
				}
			}
		})
	}
}

func TestReasons(t *testing.T) {
	t.Parallel()
	byFile := map[string]recorded{}
	for _, c := range cases(t) {
		byFile[c.File] = c
	}
	for file, want := range map[string]string{
		"claude-usagelimit.ndjson":                      "Claude's 5-hour limit; resets Fri 20 Nov 21:32 (in 1 h 32 min)",
		"claude-usagelimit-opus.ndjson":                 "Claude's weekly Opus limit; resets Mon 23 Nov 20:33 (in 3 d)",
		"claude-usagelimit-apikey.ndjson":               "Claude's account rate limit is used up; it does not say when it resets",
		"codex-usagelimit-week.ndjson":                  "Codex's usage limit; resets Mon 23 Nov 20:33 (in 3 d)",
		"codex-usagelimit.ndjson":                       "Codex's usage limit; resets Fri 20 Nov 21:10 (in 1 h 10 min)",
		"opencode-midlimit.ndjson":                      "opencode's usage limit; resets Fri 20 Nov 21:42 (in 1 h 43 min)",
		"gemini-usagelimit.ndjson":                      "Gemini's daily quota is used up; it does not say when it resets",
		"claude-unauthorized.ndjson":                    "Claude cannot go on: Invalid API key · Fix external API key (it tried 10 times more)",
		"claude-maxbudget.ndjson":                       "Claude stopped at a limit of its own: Reached maximum budget ($0.03)",
		"codex-stall.ndjson":                            "Codex failed: stream disconnected before completion: idle timeout waiting for SSE",
		"gemini-overloaded.ndjson":                      "Gemini failed: The model is overloaded. Please try again later.",
		"qwen-unauthorized.ndjson":                      "Qwen cannot go on: 401 Incorrect API key provided.",
		"qwen-0.24.4-nomodel.ndjson":                    "Qwen cannot go on: 404 The model `fake-model` does not exist or you do not have access to it.",
		"qwen-0.24.4-unauthorized.ndjson":               "Qwen cannot go on: 401 Incorrect API key provided.",
		"copilot-quota.ndjson":                          "Copilot cannot go on: Failed to get response from the AI model; retried 5 times (total retry wait time: 57.18 seconds) Last error: 429 You exceeded your current quota, please check your plan and billing details. (it tried 6 times more)",
		"gemini-toolong.ndjson":                         "Gemini's conversation grew longer than its model takes: The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
		"copilot-rpd.ndjson":                            "Copilot's daily limit; resets Fri 20 Nov 22:07 (in 2 h 7 min)",
		"claude-spend.ndjson":                           "Claude's usage limit; resets Tue 1 Dec 00:00 (in 10 d 4 h)",
		"opencode-freeday.ndjson":                       "opencode's daily limit; resets Wed 25 Nov 00:00 (in 4 d 4 h)",
		"codex-0.171.0-workspace-out-of-credits.ndjson": "Codex cannot go on: Your workspace is out of credits. Add credits to continue.",
		"codex-hardlimit.ndjson":                        "Codex cannot go on: Billing hard limit has been reached",
		"qwen-maxturns.ndjson":                          "Qwen stopped at a limit of its own: exit status 53",
		"claude-2.1.332-extra-usage.ndjson":             "Claude's extra usage limit; resets Sun 29 Nov 22:00 (in 9 d 2 h)",
		"claude-2.1.332-zai-week.ndjson":                "Claude's Weekly/Monthly limit; resets Sun 22 Nov 19:04 (in 1 d 23 h)",
		"codex-0.171.0-spend-cap.ndjson":                "Codex cannot go on: You hit your spend cap set by the owner of your workspace. Ask an owner to increase your spend cap to continue.",
		"codex-0.171.0-429-retry-after-hours.ndjson":    "Codex's rate limit is used up; it does not say when it resets",
		"gemini-hours.ndjson":                           "Gemini's rate limit; resets Fri 20 Nov 22:00 (in 2 h)",
		"gemini-individual-quota.ndjson":                "Gemini's Individual quota; resets Thu 26 Nov 19:52 (in 5 d 23 h)",
		"opencode-hours.ndjson":                         "opencode's daily limit; resets Fri 20 Nov 22:07 (in 2 h 7 min)",
		"opencode-429-retry-after.ndjson":               "opencode's rate limit is used up; it does not say when it resets",
		"qwen-0.24.4-hours.ndjson":                      "Qwen's rate limit; resets Fri 20 Nov 22:06 (in 2 h 7 min)",
	} {
		c := byFile[file]
		res := judged(t, c.backend(t), c.stream, c.exit())
		if c.Signal != nil {
			res = cutShort(t, c)
		}
		if got := res.Reason + res.Blocked; got != want {
			t.Errorf("%s: got %q, want %q", file, got, want)
		}
	}
}

func TestCostOfStreams(t *testing.T) {
	t.Parallel()
	both := Tokens{Input: 2400, CacheRead: 400, Output: 68}
	for _, c := range cases(t) {
		cost := judged(t, c.backend(t), c.stream, c.exit()).Cost
		usd := 0.0
		if cost != nil && cost.USD != nil {
			usd = *cost.USD
		}
		switch c.File {
		case "claude-ok.ndjson":
			// with a title that it asked for besides
			if cost == nil || *cost.Tokens != (Tokens{Input: 3600, CacheRead: 600, Output: 102}) || usd != 0.01785 {
				t.Errorf("%s: %+v", c.File, cost)
			}
		case "claude-2.1.330-resumed.ndjson": // not the 0.01416 of the whole session
			if cost == nil || *cost.Tokens != (Tokens{Input: 1200, CacheRead: 200, Output: 34}) || usd != 0.00472 {
				t.Errorf("%s: %+v", c.File, cost)
			}
		case "opencode-ok.ndjson":
			if cost == nil || *cost.Tokens != both || usd < 0.00713 || usd > 0.00715 {
				t.Errorf("%s: %+v", c.File, cost)
			}
		case "codex-ok.ndjson", "gemini-ok.ndjson", "qwen-ok.ndjson", "qwen-0.24.4-ok.ndjson", "cline-ok.ndjson":
			if cost == nil || *cost.Tokens != both || cost.USD != nil {
				t.Errorf("%s: %+v", c.File, cost)
			}
		case "claude-2.1.332-subagent.ndjson":
			if cost == nil || *cost.Tokens != (Tokens{Input: 4800, CacheRead: 800, Output: 136}) || usd != 0.00944 {
				t.Errorf("%s: %+v", c.File, cost)
			}
		case "codex-0.171.0-subagent.ndjson", "opencode-subagent.ndjson":
			if notes := judged(t, c.backend(t), c.stream, c.exit()).Notes; !slices.ContainsFunc(notes,
				func(n string) bool { return strings.Contains(n, "leaves out what its subagents cost") }) {
				t.Errorf("%s: notes %q", c.File, notes)
			}
		case "copilot-ok.ndjson", "claude-truncated.ndjson", "gemini-nomodel.ndjson", "codex-quota.ndjson":
			if cost != nil {
				t.Errorf("%s: %+v", c.File, cost)
			}
		}
	}
}

// What is told at the first of two ends is not the whole cost, until the second has come.
func TestPartialCost(t *testing.T) {
	t.Parallel()
	for _, c := range cases(t) {
		if c.File != "claude-2.1.332-background-command.ndjson" {
			continue
		}
		ends, parts := 0, 0
		lines := bytes.SplitAfter(c.stream, []byte("\n"))
		for i, line := range lines {
			s := readProgress(t, c.backend(t).Format, bytes.NewReader(bytes.Join(lines[:i+1], nil)), 1<<20)
			if bytes.Contains(line, []byte(`"type":"result"`)) {
				if ends++; s.cost() == nil || s.cost().Partial {
					t.Errorf("at end %d: %+v", ends, s.cost())
				}
			} else if ends == 1 && s.cost().Partial {
				parts++
			}
		}
		if ends != 2 || parts == 0 {
			t.Fatalf("%d ends, part of the cost after %d lines between them", ends, parts)
		}
		return
	}
	t.Fatal("no such recording")
}

// The order of the bytes' arrival, and what stands between the events, does not
// matter.
func TestStreamsInPieces(t *testing.T) {
	t.Parallel()
	for _, c := range cases(t) {
		format := c.backend(t).Format
		dirtied := "starting\n\n[1]\n" + strings.ReplaceAll(string(c.stream), "\n", "\r\n \x00\n\n")
		whole := readProgress(t, format, bytes.NewReader(c.stream), len(c.stream))
		pieces := readProgress(t, format, iotest.OneByteReader(bytes.NewReader(c.stream)), 7)
		dirty := readProgress(t, format, strings.NewReader(dirtied), 64)
		for name, s := range map[string]*progress{"in pieces": &pieces, "with noise": &dirty} {
			if string(s.message.buf) != string(whole.message.buf) || s.ended != whole.ended || s.end != whole.end ||
				s.tokens != whole.tokens || s.events != whole.events {
				t.Errorf("%s %s: got %+v, want %+v", c.File, name, s, whole)
			}
		}
	}
}

// A client that waits for its own work is not ended for staying after a result, unless that claims the task. A result
// after which nothing is pending is its last.
func TestWaitsForItsOwnWork(t *testing.T) {
	t.Parallel()
	const (
		begun  = `{"type":"system","subtype":"background_tasks_changed","tasks":[{"task_id":"b"}]}` + "\n"
		over   = `{"type":"system","subtype":"background_tasks_changed","tasks":[]}` + "\n"
		wakes  = `{"type":"assistant","message":{"content":[{"type":"tool_use","name":"ScheduleWakeup"}]},"parent_tool_use_id":null}` + "\n"
		woken  = `{"type":"command_lifecycle","state":"started","wakeup_source":"loop_wakeup"}` + "\n"
		waits  = `{"type":"result","is_error":false,"result":"I wait."}` + "\n"
		claims = `{"type":"result","is_error":false,"result":"<promise>COMPLETE</promise>"}` + "\n"
		stops  = `{"type":"result","is_error":false,"result":"TASK_BLOCKED: no key"}` + "\n"
	)
	for _, tt := range []struct {
		stream string
		ends   bool
	}{
		{waits, true},
		{begun + waits, false},
		{begun + over + waits, true},
		{begun + waits + over, true}, // it did not go on
		{begun + claims, true},       // a server that was left running
		{begun + stops, true},
		{wakes + waits, false},
		{wakes + waits + woken + waits, true},
		{begun + wakes + woken + waits, false},
		{begun + wakes + over + waits, false},
	} {
		p := newTranscript(stream.FormatClaude, Request{})
		if err := p.take(strings.NewReader(tt.stream), 100); err != nil {
			t.Fatal(err)
		}
		c := newClocks(stream.FormatClaude, Clocks{Exit: DefaultExit}, DefaultIdle, time.Now())
		for now := time.Minute; now < DefaultIdle; now += time.Minute {
			if why := c.check(&p.progress, now, true, p.claims); (why != nil) != (tt.ends && now > time.Minute) {
				t.Errorf("%s: after %v: %v", tt.stream, now, why)
				break
			}
		}
	}
}
