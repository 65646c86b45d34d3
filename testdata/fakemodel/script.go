package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"sort"
	"strings"
)

// A Turn is what the fake model does when it is asked once.
// Zero or one of Shell, Write is a tool call; Text may go before it.
// A Turn with neither is final: the client stops after it.
type Turn struct {
	Text  string   `json:"text,omitempty"`
	Think string   `json:"think,omitempty"`
	Shell string   `json:"shell,omitempty"` // run this with the client's shell tool
	Write *WriteOp `json:"write,omitempty"` // write this with the client's file tool

	DelayMS   int `json:"delay_ms,omitempty"`   // before the first byte
	ChunkMS   int `json:"chunk_ms,omitempty"`   // between text chunks
	TextBytes int `json:"text_bytes,omitempty"` // pad Text to this many bytes

	// Fault, when set, replaces the answer (see faults.go). FaultTimes is how
	// many requests get it before this turn answers normally, FaultFor for how
	// many seconds from the first on they get it, which is also when a usage
	// limit is said to reset; 0 is for ever.
	Fault      string `json:"fault,omitempty"`
	FaultTimes int    `json:"fault_times,omitempty"`
	FaultFor   int    `json:"fault_for,omitempty"`
	RetryAfter int    `json:"retry_after,omitempty"` // seconds, in the header; 0 leaves it out
	ResetIn    int    `json:"reset_in,omitempty"`    // seconds until a usage limit resets
	Claim      string `json:"claim,omitempty"`       // which limit was hit: five_hour, seven_day, seven_day_opus, ...

	Usage *Usage `json:"usage,omitempty"`
}

type WriteOp struct {
	Path    string `json:"path"` // "{{cwd}}" stands for the directory the client names in its prompt
	Content string `json:"content"`
}

type Usage struct {
	Input     int `json:"input"`
	Output    int `json:"output"`
	CacheRead int `json:"cache_read"`
	Reasoning int `json:"reasoning"`
}

var defaultUsage = Usage{Input: 1200, Output: 34, CacheRead: 200}

// A Rule holds for a conversation whose user text matches Match ("" is any).
// The number of tool calls already in the conversation picks the turn; past
// the end the last turn is given again.
type Rule struct {
	Match string `json:"match,omitempty"`
	Turns []Turn `json:"turns"`

	re *regexp.Regexp
}

type Scenario struct {
	Name  string `json:"name,omitempty"`
	Rules []Rule `json:"rules"`
}

// A Script is a set of scenarios; a client picks one with the base URL
// http://HOST/s/NAME/... and gets the server's default without the prefix.
type Script struct {
	Scenarios map[string]*Scenario `json:"scenarios"`
}

func (s *Scenario) pick(userText string, done int) (t Turn, rule, turn int) {
	for i := range s.Rules {
		r := &s.Rules[i]
		if r.re != nil && !r.re.MatchString(userText) {
			continue
		}
		n := done
		if n >= len(r.Turns) {
			n = len(r.Turns) - 1
		}
		if n < 0 {
			break
		}
		return r.Turns[n], i, n
	}
	return Turn{Text: "No rule of the script matches this conversation."}, -1, -1
}

func (s *Script) compile() error {
	for name, sc := range s.Scenarios {
		sc.Name = name
		for i := range sc.Rules {
			if sc.Rules[i].Match == "" {
				continue
			}
			re, err := regexp.Compile(sc.Rules[i].Match)
			if err != nil {
				return fmt.Errorf("scenario %s, rule %d: %w", name, i, err)
			}
			sc.Rules[i].re = re
		}
	}
	return nil
}

func (s *Script) names() []string {
	var out []string
	for n := range s.Scenarios {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}

func one(turns ...Turn) *Scenario { return &Scenario{Rules: []Rule{{Turns: turns}}} }

const doneText = "The file is written and checked.\n\n<promise>COMPLETE</promise>"

func builtin() *Script {
	write := Turn{Text: "I will write the file.", Shell: "echo hello > fake.txt && echo tool-ran"}
	done := Turn{Text: doneText}
	fault := func(f string) *Scenario { return one(Turn{Fault: f}) }
	s := &Script{Scenarios: map[string]*Scenario{
		"ok":        one(write, done),
		"write":     one(Turn{Write: &WriteOp{Path: "{{cwd}}/fake.txt", Content: "hello\n"}}, done),
		"textonly":  one(done),
		"nopromise": one(write, Turn{Text: "I wrote the file but more is left to do."}),
		// The promise stands in the prompt and in a tool's output, never in what the model says.
		"trap": one(Turn{Text: "Looking.", Shell: "echo '<promise>COMPLETE</promise>' | tee trap.txt"},
			Turn{Text: "The tool printed a promise, but I am not finished."}),
		// The model says the promise before a tool call, then takes it back.
		"early": one(Turn{Text: "<promise>COMPLETE</promise> soon; one more step.", Shell: "echo more >> fake.txt"},
			Turn{Text: "Not finished after all."}),
		"think": one(Turn{Think: "If all is well I will say <promise>COMPLETE</promise>.", Shell: "echo hi"},
			Turn{Think: "Not yet.", Text: "Still working."}),
		"loop": one(Turn{Text: "Again.", Shell: "echo again >> loop.txt"}), // never ends by itself
		"failing": one(Turn{Text: "Running the tests.", Shell: "echo 'FAIL: 1 test' >&2; exit 3"},
			Turn{Text: "The tests fail; I could not fix them."}),
		"sleep": one(Turn{Text: "Sleeping.", Shell: "tail -f /dev/null"}, done),
		"orphan": one(Turn{Text: "Starting a server.", Shell: "(tail -f /dev/null >/dev/null 2>&1 &) ; echo started"},
			done),
		"slow":    one(Turn{Text: strings.Repeat("word ", 40) + doneText, ChunkMS: 500}),
		"late":    one(Turn{Text: doneText, DelayMS: 20000}),
		"bigtext": one(Turn{Text: doneText, TextBytes: 3 << 20}),
		"bigtool": one(Turn{Text: "Printing much.", Shell: "head -c 3000000 /dev/zero | tr '\\0' 'x'; echo"}, done),
		"fence":   one(Turn{Text: "When finished I would write:\n\n```\n<promise>COMPLETE</promise>\n```\n\nbut I am blocked on a missing key."}),
		"blocked": one(Turn{Text: "I cannot go on.\n\n<promise>BLOCKED: missing key</promise>"}),
		"empty":   one(Turn{Text: ""}),

		"ratelimit":       one(Turn{Fault: "ratelimit", RetryAfter: 1}),
		"ratelimit-once":  one(Turn{Fault: "ratelimit", FaultTimes: 1, RetryAfter: 1, Text: doneText}),
		"overloaded":      fault("overloaded"),
		"overloaded-once": one(Turn{Fault: "overloaded", FaultTimes: 1, Text: doneText}),
		"servererror":     fault("servererror"),
		"usagelimit":      one(Turn{Fault: "usagelimit", ResetIn: 3600}),
		"usagelimit-week": one(Turn{Fault: "usagelimit", ResetIn: 3 * 86400, Claim: "seven_day"}),
		"usagelimit-opus": one(Turn{Fault: "usagelimit", ResetIn: 3 * 86400, Claim: "seven_day_opus"}),
		"quota":           fault("quota"),
		"unauthorized":    fault("unauthorized"),
		"badrequest":      fault("badrequest"),
		"toolong":         fault("toolong"),
		"nomodel":         fault("nomodel"),
		"hang":            fault("hang"),
		"stall":           fault("stall"),
		"garbage":         fault("garbage"),
		"badsse":          fault("badsse"),
		"cut":             fault("cut"),
		"midlimit":        one(write, Turn{Fault: "usagelimit", ResetIn: 3600}),
	}}
	if err := s.compile(); err != nil {
		panic(err)
	}
	return s
}

func loadScript(path string) (*Script, error) {
	s := builtin()
	if path == "" {
		return s, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var own Script
	dec := json.NewDecoder(strings.NewReader(string(b)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&own); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := own.compile(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for n, sc := range own.Scenarios {
		s.Scenarios[n] = sc
	}
	return s, nil
}
