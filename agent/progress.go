package agent

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"descartes/agent/process"
	"descartes/agent/stream"
	"descartes/internal/oneline"
)

// messageLimit is how much of a final message is examined. No model answers at such length.
const messageLimit = 1 << 20

// progress sums up the events of a run.
type progress struct {
	events, unknown, noise int64
	tooLong                int64 // lines that were not read
	cut                    bool  // the last line is not whole
	session, model         string
	message                tail // own words since the last tool call
	spoke, acted           bool // any words, any tool
	delegated              bool // to subagents whose cost is not in its own
	retries, retryStatus   int
	retrying               string        // the client's last words, if they say that it tries again
	tries                  int           // in a row
	rows                   int64         // how often it began to do nothing but that
	away                   int           // tries in a row that had no answer
	outages                int64         // how often these began
	delay                  time.Duration // before the next try; 0 where not told
	delays                 int64         // how often one was told
	refused                int           // how many of them, in a row, report a refused key
	refusal                string        // the client's word for that
	limited                bool
	limit                  stream.Event
	denied, kept           []string
	tokens                 Tokens
	usd                    float64
	trouble                stream.Event // the last one
	troubled               bool         // nothing was said or done after it
	ended                  bool
	end                    stream.Event
	ends                   int64    // how often an end was reported
	more                   bool     // something started after it
	pending                []string // the client's words for what it waits for before it goes on by itself
	steps                  int      // turns in a row in which nothing was said or done
	overflows              int      // of the context window, since the last tool call
}

// apply takes the next event.
func (s *progress) apply(e stream.Event) {
	if e.Kind != stream.Retry && e.Kind != stream.Sleep {
		s.retrying, s.tries, s.away = "", 0, 0
	}
	switch e.Kind {
	case stream.Session:
		s.session, s.model = cmp.Or(e.ID, s.session), cmp.Or(e.Model, s.model)
		s.more = true
	case stream.Begin:
		s.ended, s.troubled, s.more = false, false, true
		s.steps++
	case stream.Text:
		s.troubled = s.troubled && e.Text == "" // it recovered
		if e.Whole {
			s.message.reset()
		}
		_, _ = io.WriteString(&s.message, e.Text)
		if e.Text != "" {
			s.spoke, s.steps, s.refused = true, 0, 0
		}
	case stream.Tool:
		s.message.reset()
		s.acted, s.troubled = true, false
		s.steps, s.overflows, s.refused, s.more = 0, 0, 0, true
	case stream.Delegated:
		s.delegated = true
	case stream.Retry:
		s.retry(e)
	case stream.Sleep:
		s.delay, s.delays = e.Delay, s.delays+1
	case stream.Trouble:
		s.trouble, s.troubled = e, true
		if e.Word == stream.Overflow {
			s.overflows++
		}
	case stream.Limit:
		s.limit, s.limited = e, true
	case stream.Allowed:
		s.limited = false
	case stream.Denied:
		s.denied = noted(s.denied, e.Word)
	case stream.Kept:
		s.kept = noted(s.kept, e.Word)
	case stream.Pending:
		s.pending = slices.DeleteFunc(s.pending, func(word string) bool { return word == e.Word })
		if e.OK {
			s.pending = append(s.pending, e.Word)
		}
	case stream.Usage:
		s.use(e)
	case stream.End:
		s.finish(e)
	}
}

// retry counts a try of the client's own, and those in a row whose key is refused.
func (s *progress) retry(e stream.Event) {
	if s.retrying == "" {
		s.rows++
	}
	s.tries++
	s.retrying = cmp.Or(e.Text, e.Word, "it tries again")
	s.retries, s.retryStatus, s.refusal = s.retries+1, e.Status, e.Word
	if !e.Away {
		s.away = 0
	} else if s.away++; s.away == 1 {
		s.outages++
	}
	if e.Away && e.Text == "" && e.Word == "" {
		s.retrying = "it gets no answer"
	}
	if e.Delay > 0 {
		s.delay, s.delays = e.Delay, s.delays+1
	}
	if s.refused++; e.Status != 401 && e.Status != 403 {
		s.refused = 0
	}
}

// use takes what a run was charged for: so far, or for a part of it.
func (s *progress) use(e stream.Event) {
	if e.Tokens.Output > 0 {
		s.steps = 0
	}
	if e.Add {
		e.Tokens, e.USD = s.tokens.Plus(e.Tokens), s.usd+e.USD
	}
	s.tokens, s.usd = e.Tokens, e.USD
}

// finish takes an end. A bad one without words is explained by the trouble before it.
func (s *progress) finish(e stream.Event) {
	s.ended, s.more = true, false
	s.ends++
	if s.end = e; !e.OK && e.Text == "" && s.troubled {
		s.end.Text = s.trouble.Text
		s.end.Word, s.end.Status = cmp.Or(e.Word, s.trouble.Word), cmp.Or(e.Status, s.trouble.Status)
	}
}

// finished reports whether its last word is that all went well.
func (s *progress) finished() bool { return s.ended && s.end.OK && !s.more }

// refusedLast reports whether its last word is that it tries again after 429, and not how long it sleeps before that.
func (s *progress) refusedLast() bool {
	return s.retrying != "" && s.retryStatus == 429 && s.delays == 0
}

// noted adds a word to a list that has it not, and that a person still reads.
func noted(list []string, word string) []string {
	if len(list) < 100 && !slices.Contains(list, word) {
		list = append(list, word)
	}
	return list
}

// line counts what a line was.
func (s *progress) line(kind stream.LineKind, _ []byte, whole bool) {
	switch kind {
	case stream.Known:
		s.events++
	case stream.Unknown:
		s.events, s.unknown = s.events+1, s.unknown+1
	case stream.Noise:
		s.noise, s.cut = s.noise+1, !whole
	case stream.TooLong:
		s.events, s.tooLong, s.cut = s.events+1, s.tooLong+1, !whole
	}
}

// counted takes over what only a reader of the whole output can count, which s is not.
func (s *progress) counted(whole *progress) {
	s.events, s.unknown, s.noise, s.tooLong = whole.events, whole.unknown, whole.noise, whole.tooLong
	s.tokens, s.usd = whole.tokens, whole.usd
	s.spoke, s.acted, s.delegated = whole.spoke, whole.acted, whole.delegated
}

// cost is the run's cost, nil if unknown. Clients print zeros for what they do not know: an answer costs tokens, and
// tokens cost money.
func (s *progress) cost() *Cost {
	var c Cost
	if s.tokens.Input+s.tokens.Output > 0 {
		c.Tokens = &s.tokens
	}
	if s.usd > 0 {
		c.USD = &s.usd
	}
	if c == (Cost{}) {
		return nil
	}
	c.Partial = s.ends > 0 && s.more
	return &c
}

// notes are what else a person should know about a run.
func (s *progress) notes(owner string, exit process.Exit, good bool) (notes []string) {
	if len(s.denied) > 0 {
		notes = append(notes, fmt.Sprintf("%s did not let the agent use %s", owner,
			oneline.Clip(strings.Join(s.denied, ", "), 200)))
	}
	if len(s.kept) > 0 {
		notes = append(notes, "descartes did not allow: "+oneline.Clip(strings.Join(s.kept, "; "), 300))
	}
	if s.delegated && s.cost() != nil {
		notes = append(notes, owner+" leaves out what its subagents cost: this is the cost of the main conversation")
	}
	switch {
	case !s.ended && s.troubled && s.trouble.Word == "exited":
	case !s.ended && s.cut:
		notes = append(notes, "the output is cut off before its end event")
	case !s.ended:
		notes = append(notes, "the output has no end event")
	}
	if s.tooLong > 0 {
		notes = append(notes, fmt.Sprintf("%d lines of the output are longer than %s and were not read", s.tooLong,
			process.Size(stream.MaxLine)))
	}
	if s.unknown > 0 && (!s.ended || 2*s.unknown > s.events) {
		notes = append(notes, fmt.Sprintf("%d of %d events are of unknown kinds: this version of %s may be too new",
			s.unknown, s.events, owner))
	}
	if good && exit.Failed() {
		notes = append(notes, exit.String()+", after "+owner+" had reported that it was finished")
	}
	return notes
}
