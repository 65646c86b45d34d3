package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"descartes/agent/process"
	"descartes/agent/quota"
	"descartes/agent/stream"
	"descartes/internal/lazyregexp"
	"descartes/internal/oneline"
	"descartes/internal/terminal"
)

// result combines what was said with how the process ended. What we ended stays ended by us, whatever the agent said:
// agents answer SIGTERM with promises. f followed the run; nil if nothing did.
func (r *Runner) result(q Request, exit process.Exit, f *watchdog) (Result, error) {
	h, err := r.heard(q, exit, f)
	if err != nil {
		return Result{}, err
	}
	res := Result{Code: exit.Code, Signal: exit.Signal, Final: h.final, Bytes: h.bytes, Duration: exit.Took}
	if s := h.progress; s != nil {
		if q.Session != "" && q.Spent != nil && r.backend.Cumulative {
			s.tokens = s.tokens.Minus(*q.Spent)
		}
		res.Cost, res.Session, res.Model, res.Events, res.Unknown = s.cost(), s.session, s.model, s.events, s.unknown
		res.Idle = s.events > 0 && !s.acted
		r.backend.priced(res.Cost, res.Model, q.Model)
	}
	if err := r.ending(&res, h, q, exit, f.cutoff()); err != nil {
		return Result{}, err
	}
	if q.Session != "" && exit.Why == process.Exited && exit.Code != 0 && h.mute() {
		res.Gone = noSession(terminal.Strip(q.lastErrors()) + "\n" + res.Reason)
	}
	if exit.Left > 0 && (exit.Why == process.Exited || exit.Why == process.Signaled) {
		res.Notes = append(res.Notes, fmt.Sprintf("processes that it left running were ended: %d", exit.Left))
	}
	switch {
	case res.End != Finished:
	case res.Blocked != "":
		res.Question = h.asks
	case !res.Complete:
		res.Question = question(res.Final)
	}
	return res, nil
}

// heard reads what was printed, until we ended the run if we did, after secrets are overwritten and a long log is
// shortened.
func (r *Runner) heard(q Request, exit process.Exit, f *watchdog) (*said, error) {
	most := int64(math.MaxInt64)
	if why := f.cutoff(); why != nil && exit.Why == process.Cancelled { // else it ended by itself just then
		most = why.read
	}
	var whole *progress // of a log that is shortened
	if q.long() {
		all := newTranscript(r.backend.Format, q)
		if f != nil {
			all = f.transcript
		} else if _, err := readFrom(q.Log, q.Offset, all.take); err != nil {
			return nil, fmt.Errorf("read agent output: %w", err)
		}
		whole = &all.progress
	}
	left, err := q.redact()
	if err != nil {
		return nil, err
	}
	if left > 0 {
		most = max(most-left, q.Limits.Share(q.Offset)/2)
	}
	h, err := readTranscript(r.backend.Format, q, most)
	if err != nil {
		return nil, fmt.Errorf("read agent output: %w", err)
	}
	if h.bytes += left; left > 0 && h.progress != nil {
		h.progress.counted(whole)
	}
	return h, nil
}

// ending judges how a run ended. why is why the watchdog ended it; nil if it did not.
func (r *Runner) ending(res *Result, h *said, q Request, exit process.Exit, why *cutoff) error {
	switch exit.Why {
	case process.Exited, process.Signaled:
		if h.progress == nil {
			r.concludeText(res, h, q, exit)
		} else {
			r.conclude(res, h, q, exit)
		}
	case process.TimedOut:
		res.End, res.Reason = TimedOut, fmt.Sprintf("not finished after %v", q.Timeout)
	case process.Idled:
		switch {
		case h.progress != nil && h.progress.finished(): // and waited for something that it had started
			exit.Why, exit.Code, exit.Signal = process.Exited, 0, 0
			r.conclude(res, h, q, exit)
			res.Notes = append(res.Notes, fmt.Sprintf(
				"%s had reported that it was finished, and waited for what it had started, without output for %v: it was ended",
				r.backend.title(), q.Idle))
		case h.progress != nil && h.progress.refusedLast():
			r.limited(res, "rate limit", time.Time{}, exit.End)
		case !r.waits(res, q, exit.End):
			res.End, res.Cause, res.Reason = Idled, Transient, fmt.Sprintf("no output for %v", q.Idle)
		}
	case process.Memory, process.Procs, process.Disk, process.Full:
		res.End, res.Reason = Crashed, "the agent "+q.Limits.Overran(exit.Why)+" and was ended"
	case process.Stopped:
		res.End, res.Reason = Crashed, exit.String()
	case process.Cancelled, process.Orphaned:
		if why == nil {
			res.End, res.Reason = Cancelled, "cancelled"
		} else {
			r.cutOff(res, h, q, exit, why)
		}
	case process.NotStarted:
		res.End, res.Reason = Refused, exit.Err
	default:
		return fmt.Errorf("run agent: unknown end %q", exit.Why)
	}
	return nil
}

// concludeText judges plain output, for which only the exit status counts.
func (r *Runner) concludeText(res *Result, h *said, q Request, exit process.Exit) {
	switch {
	case h.blocked != "":
		res.End, res.Blocked = Finished, h.blocked
		if exit.Failed() {
			res.Reason = exit.String()
		}
		return
	case !exit.Failed():
		res.End, res.Complete = Finished, h.complete
		return
	}
	errs := q.lastErrors()
	res.End, res.Reason = Crashed, exit.String()
	if line := lastLine(errs, res.Final); line != "" {
		res.Reason += ": " + line
	}
	if !stream.HasEvents(r.backend.Format) {
		return
	}
	name, until, ok := quota.Find(res.Final, exit.End)
	if more, at, is := r.limitOnErrors(errs, exit.End); is {
		name, until, ok = more, at, true
	}
	if ok {
		r.limited(res, name, until, exit.End)
		return
	}
	line, refused := refusalIn(res.Final + "\n" + errs)
	why, misused := "", false
	if strings.TrimSpace(res.Final) == "" && exit.Why != process.Signaled {
		why, misused = r.misused(q)
	}
	switch cause := r.backend.exitCause(exit); {
	case refused:
		res.End, res.Cause, res.Reason = Refused, Fatal, line
	case misused:
		res.End, res.Cause, res.Reason = Refused, Fatal, r.backend.title()+" does not accept its command line: "+why
	case cause == Fatal:
		res.End, res.Cause = Refused, cause
	default:
		res.Cause = cause
	}
}

// conclude judges a stream: first a limit, then how the client says that it ended, and last the exit status, which
// alone is worthless: half of the clients exit with 0 after one failure or another.
func (r *Runner) conclude(res *Result, h *said, q Request, exit process.Exit) {
	s := h.progress
	if s.ended && s.end.OK && !s.acted && strings.HasPrefix(h.final, "Error: ") && hopeless(h.final) {
		s.end.OK, s.end.Text = false, h.final // copilot by ACP says its provider's error as its answer
	}
	good := s.ended && s.end.OK
	res.Notes = s.notes(r.backend.title(), exit, good)
	if good || !s.ended && !exit.Failed() && !s.limited && !s.troubled && !h.mute() {
		res.End, res.Blocked = Finished, h.blocked
		res.Complete = h.complete && h.blocked == ""
		return
	}
	told := s.failure(q)
	if !quota.Spent(told.Text) && r.quota(res, s, told, q, exit) {
		return
	}
	cause := r.cause(told, exit)
	if told.Word == "exited" && h.mute() && exit.Code != 0 {
		if why, misused := r.misused(q); misused {
			cause, told.Text = Fatal, "it does not accept its command line: "+why
		}
	}
	words := failureWords(told, q, exit)
	// a further attempt at the task would have even more to read
	if limit := oversizeWords.FindString(words); limit != "" {
		res.End, res.Blocked = Finished, r.backend.title()+" takes no prompt of this length: "+limit
		return
	}
	if told.Word == stream.Overflow || told.Status == 413 || overflows(told.Text) {
		res.End, res.Blocked = Finished, r.backend.title()+"'s conversation grew longer than its model takes: "+words
		return
	}
	if s.retries > 1 {
		words += fmt.Sprintf(" (it tried %d times more)", s.retries)
	}
	res.Cause, res.End = cause, Crashed
	switch cause {
	case Fatal:
		res.End, res.Reason = Refused, r.backend.title()+" cannot go on: "+words
	case Budget:
		res.Reason = r.backend.title() + " stopped at a limit of its own: " + words
	default:
		res.Reason = r.backend.title() + " failed: " + words
	}
}

// failure is the event in which the client says why it failed, with what only standard error says of that.
func (s *progress) failure(q Request) stream.Event {
	told := s.end
	if !s.ended {
		told = s.trouble
	}
	if line := lastLine(q.lastErrors()); told.Word == "exited" && line != "" {
		told.Text += ": " + line
	}
	if strings.Contains(told.Text, "server logs") { // the client's own, of which standard error has the end
		told.Text = cmp.Or(loggedError(q.lastErrors()), told.Text)
	}
	return told
}

// failureWords are a failure as one line, from the client or else from how its process ended.
func failureWords(told stream.Event, q Request, exit process.Exit) string {
	if words := sentence(told.Text); words != "" {
		return words
	}
	if !exit.Failed() {
		return "it ended without an answer"
	}
	if line := lastLine(q.lastErrors()); line != "" {
		return exit.String() + ": " + line
	}
	return exit.String()
}

// quota looks for a used-up quota in what the client reported: first in an event of its own, then in its words, and
// without a reported end, on standard error.
func (r *Runner) quota(res *Result, s *progress, told stream.Event, q Request, exit process.Exit) bool {
	name, until, ok := quota.Told(told.Text, exit.End)
	if !ok && !s.ended && exit.Failed() {
		name, until, ok = r.limitOnErrors(q.lastErrors(), exit.End)
	}
	if s.limited {
		name, ok = cmp.Or(quota.Kind(s.limit.Word), cmp.Or(name, "usage limit")), true
		if at := quota.Ahead(s.limit.Until, exit.End); !at.IsZero() {
			until = at
		}
	}
	if ok {
		r.limited(res, name, until, exit.End)
	}
	return ok
}

// limitOnErrors looks for a used-up quota in what was printed on standard error.
func (r *Runner) limitOnErrors(text string, now time.Time) (name string, until time.Time, ok bool) {
	if name, until, ok = quota.Find(text, now); ok {
		return name, until, ok
	}
	for _, t := range r.backend.tries() {
		if line, found := limitLine([]*regexp.Regexp{t.words}, []byte(text)); found && t.Status == 429 {
			if name, until, ok = quota.Told(line, now); ok {
				return name, until, ok
			}
		}
	}
	line, ok := limitLine(r.backend.limitPatterns(), []byte(text))
	if !ok || fatalWords(line) || quota.Passes(line, now) {
		return "", until, false
	}
	name, _ = quota.Named(line)
	return name, quota.Reset(line, now), true
}

// waits reports whether a silent client said on standard error that it waits for a quota.
func (r *Runner) waits(res *Result, q Request, now time.Time) bool {
	name, until, ok := r.limitOnErrors(q.lastErrors(), now)
	if ok = ok && stream.HasEvents(r.backend.Format); ok {
		r.limited(res, name, until, now)
	}
	return ok
}

func (r *Runner) limited(res *Result, name string, until, now time.Time) {
	res.End, res.Until, res.Reason = Limited, until, quota.Reason(r.backend.title(), name, until, now)
}

// cause separates what a later try may fix from what it will not: by the status, then the client's words, then its
// exit status.
func (r *Runner) cause(told stream.Event, exit process.Exit) Cause {
	status := told.Status
	if status == 0 {
		if m := regexp.MustCompile(`(?i)(?:API Error:?|status:?|HTTP) (\d{3})\b`).FindStringSubmatch(
			told.Text); m != nil {
			status, _ = strconv.Atoi(m[1])
		}
	}
	switch {
	case hopeless(told.Text):
		return Fatal
	case status == 408 || status == 409 || status == 425 || status == 429 || status >= 500:
		return Transient
	case status >= 400:
		return Fatal
	case strings.HasPrefix(told.Word, "error_max"):
		return Budget
	}
	switch told.Word {
	case "billing_error", "invalid_request", "model_not_found", "authentication_failed", "authentication",
		"not_started":
		return Fatal
	case "refusal": // of this task
		return ""
	}
	if regexp.MustCompile(`(?i)\bloop (was |has been )?detect`).MatchString(told.Text) { // of this task too
		return ""
	}
	if fatalWords(told.Text) {
		return Fatal
	}
	if cause := r.backend.exitCause(exit); cause != "" {
		return cause
	}
	return Transient
}

// The words that clients and providers use for what waiting does not change.
var (
	// oversizeWords say that the client takes no prompt of this size.
	oversizeWords = oneOf(`input exceeds the maximum length of \d+ characters`, `input_too_large`)
	// loginWords are whole phrases, fatal even among the agent's own words.
	loginWords = oneOf(`not logged in`, `(invalid|incorrect) api key`, `api key not valid`,
		`cannot be used with root`,
		`oauth token has expired`, `authentication_(error|failed)`, `no authentication information found`,
		`no auth type is selected`)
	// modelWords are fatal whatever the status: agents report an unknown model as their own server's error 500.
	modelWords = oneOf(`\bmodels?\b.{0,100}\b(not found|(?:does|may) not exist|is not supported)`)
	// bareWords are fatal in an error without a status.
	bareWords = oneOf(`quota exceeded`, `unauthorized`)
)

func oneOf(words ...string) *lazyregexp.Regexp {
	return lazyregexp.New(`(?i)` + strings.Join(words, "|"))
}

// fatalWords reports whether a client's error is one that waiting does not fix.
func fatalWords(text string) bool {
	return hopeless(text) || !quota.SaysWhen(text) && bareWords.MatchString(text)
}

// hopeless reports whether waiting cannot fix a client's error, whatever its status: used-up money comes as 429. An
// error that says when to ask again is not hopeless.
func hopeless(text string) bool {
	return quota.Spent(text) ||
		!quota.SaysWhen(text) && (modelWords.MatchString(text) || loginWords.MatchString(text))
}

// loggedError is the last error in a log of key="value" lines.
func loggedError(log string) string {
	all := regexp.MustCompile(`\berror="([^"\n]+)"`).FindAllStringSubmatch(log, -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1][1]
}

// exitCause is what the exit status means to this client; "" if nothing.
func (b Backend) exitCause(exit process.Exit) Cause {
	if exit.Why == process.Signaled {
		return ""
	}
	return b.ExitCodes[exit.Code]
}

// sentence is a client's error as one line.
func sentence(text string) string {
	text = strings.TrimSpace(terminal.Strip(strings.ToValidUTF8(text, "\uFFFD")))
	if first, _, more := strings.Cut(text, "\n"); more && strings.HasPrefix(text, "[") {
		text = strings.TrimSpace(first)
	}
	if inner, ok := strings.CutPrefix(text, "[API Error: "); ok {
		text = strings.TrimSuffix(inner, "]")
	}
	var answer struct { // of the provider, as it came
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal([]byte(text), &answer) == nil {
		text = cmp.Or(answer.Error.Message, text)
	}
	return oneline.Clip(strings.Join(strings.Fields(text), " "), 300)
}

// noSession reports whether a client says that it does not know the conversation that it should continue.
func noSession(text string) bool {
	return regexp.MustCompile(
		`(?i)\b(no|invalid) ([a-z]+,? ){0,3}(sessions?|conversation|rollout|thread)\b|\b(session|conversation|thread) (was )?not found`).MatchString(text)
}

// refusalIn looks for a client's refusal in what a failed run printed as text.
func refusalIn(text string) (line string, ok bool) {
	for l := range strings.Lines(text) {
		if loginWords.MatchString(l) || quota.Spent(l) {
			line, ok = oneline.Clip(strings.TrimSpace(l), 200), true
		}
	}
	return line, ok
}
