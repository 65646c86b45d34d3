// Package receipt owns the proof of a task's work: in-toto statements about the commit that holds it, how they are
// written on notes and signed, and what is wrong with a forged one. It runs no check and writes no ref.
package receipt

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"descartes/internal/oneline"
	"descartes/loop/journal"
)

// The types of statements that a receipt consists of.
const (
	StatementType  = "https://in-toto.io/Statement/v1"
	ReceiptType    = "urn:descartes:receipt:v1" // docs/receipt.schema.json
	TestResultType = "https://in-toto.io/attestation/test-result/v0.1"
	SummaryType    = "https://slsa.dev/verification_summary/v1"
)

// Statement is an in-toto Statement v1. Its bytes are what is signed, and what other statements name by digest.
type Statement struct {
	Type          string          `json:"_type"`
	Subject       []Resource      `json:"subject"`
	PredicateType string          `json:"predicateType"`
	Predicate     json.RawMessage `json:"predicate"`
}

// Resource is an in-toto ResourceDescriptor.
type Resource struct {
	Name        string            `json:"name,omitempty"`
	URI         string            `json:"uri,omitempty"`
	Digest      map[string]string `json:"digest,omitempty"`
	Content     []byte            `json:"content,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// TestResult is the predicate test-result v0.1, of one check.
type TestResult struct {
	Result        string     `json:"result"` // PASSED, WARNED or FAILED
	Configuration []Resource `json:"configuration"`
	PassedTests   []string   `json:"passedTests,omitempty"`
	WarnedTests   []string   `json:"warnedTests,omitempty"`
}

// Summary is the predicate of a SLSA verification summary v1.
type Summary struct {
	Verifier           Verifier   `json:"verifier"`
	TimeVerified       time.Time  `json:"timeVerified"`
	ResourceURI        string     `json:"resourceUri"`
	Policy             Resource   `json:"policy"`
	InputAttestations  []Resource `json:"inputAttestations"`
	VerificationResult string     `json:"verificationResult"`
	VerifiedLevels     []string   `json:"verifiedLevels"`
	SLSAVersion        string     `json:"slsaVersion"`
}

// Verifier is who verified.
type Verifier struct {
	ID string `json:"id"`
}

const (
	passed = "PASSED"
	warned = "WARNED" // it passed with tests that are flaky or known to fail, or failed as it had before any attempt
	failed = "FAILED"
)

// Receipt is the predicate of our own: what is known of a task's work when a commit holds it.
type Receipt struct {
	Tag      string         `json:"tag"`
	Task     string         `json:"task"`
	Title    string         `json:"title"`
	Wave     int            `json:"wave"` // of the commit
	Loop     string         `json:"loop"`
	Attempt  int            `json:"attempt"`             // that was verified, by number in its loop
	Grade    journal.Grade  `json:"grade,omitempty"`     // what limits the word done: regression only, accepted, unchanged
	Accepted string         `json:"accepted,omitempty"`  // whose decision it was, where no check made it
	Commit   Commit         `json:"commit"`              // that holds the work
	Base     string         `json:"base_tree,omitempty"` // before the task's first attempt
	Result   string         `json:"result_tree"`         // that the attempt left, and the checks passed on
	Ref      string         `json:"ref,omitempty"`       // where the attempt is kept
	Inputs   journal.Inputs `json:"inputs"`              // digests of what the attempt was made from
	Policy   []string       `json:"policy"`              // what was in force, in words
	Checks   []Check        `json:"checks"`              // that ran on the work, in their order
	Looks    []Look         `json:"looks"`               // that examined it after the checks
	Agent    Agent          `json:"agent"`
	Sandbox  string         `json:"sandbox"` // that agent and checks ran in, in words
	Started  time.Time      `json:"started"`
	Finished time.Time      `json:"finished"`
	Cost     Cost           `json:"cost"` // of the attempt
	Program  string         `json:"program"`
}

// Commit is the commit of a wave, and how it is found again after a rebase.
type Commit struct {
	Hash    string `json:"hash"`
	Tree    string `json:"tree"`
	PatchID string `json:"patch_id,omitempty"` // of what it changes, by git patch-id --stable
}

// Check is one check as it ran on the work.
type Check struct {
	Name    string  `json:"name"`
	Command string  `json:"command"`
	Passed  bool    `json:"passed"`
	Code    int     `json:"exit_code"`
	Output  string  `json:"output_sha256,omitempty"` // of what it printed, as the log has it
	Seconds float64 `json:"seconds"`

	Standing bool     `json:"standing,omitempty"` // it failed before any attempt too, and decides nothing
	Tries    int      `json:"tries,omitempty"`    // where it ran more than once
	Flaky    []string `json:"flaky,omitempty"`    // tests that failed first, and passed then
	Ran      int      `json:"tests,omitempty"`    // that passed or failed, where that is known
	Failed   int      `json:"failed,omitempty"`
	Skipped  int      `json:"skipped,omitempty"`
	Known    int      `json:"known,omitempty"` // of those that failed, how many had failed before
	Fixed    []string `json:"fixed,omitempty"` // tests that had failed before
	Added    []string `json:"added,omitempty"` // tests that had not been there
}

// Look is what one look at the verified work said.
type Look struct {
	Name    string   `json:"name"`
	Objects bool     `json:"objects"`
	Said    []string `json:"said"`
	Agent   *Agent   `json:"agent,omitempty"` // that it asked
}

// Agent is what an attempt was run with.
type Agent struct {
	Backend string `json:"backend"`
	Model   string `json:"model,omitempty"` // as it was reported
	Session string `json:"session,omitempty"`
}

// Cost is what an agent cost.
type Cost struct {
	USD       *float64 `json:"usd"` // null where unknown
	Estimated bool     `json:"estimated,omitempty"`
	Input     int64    `json:"input_tokens,omitempty"`
	Output    int64    `json:"output_tokens,omitempty"`
}

// Facts are what the receipt of one task is made of.
type Facts struct {
	Tag, Loop string
	Wave      int
	Commit    Commit
	Attempt   *journal.Attempt // the verified one
	Policy    []string
	Sandbox   string
	Program   string // name and version of this program
}

// Receipt says in its own words what the statements say.
func (f *Facts) Receipt() Receipt {
	a := f.Attempt
	r := Receipt{Tag: f.Tag, Task: a.Task, Title: oneline.Text(a.Title), Wave: f.Wave, Loop: f.Loop,
		Attempt: a.Number, Commit: f.Commit, Base: a.Base, Result: a.After, Ref: a.Ref,
		Policy: append([]string{}, f.Policy...), Checks: []Check{}, Looks: []Look{},
		Agent: Agent{Backend: a.Backend, Model: a.Model}, Sandbox: f.Sandbox,
		Started: a.Started.UTC(), Finished: a.Ended.UTC(), Program: f.Program}
	if a.Inputs != nil {
		r.Inputs = *a.Inputs
	}
	for _, c := range a.Checks {
		one := Check{Name: NameOf(c.Check), Command: c.Command, Passed: c.Passed, Code: c.Code, Output: c.Digest,
			Seconds: c.Seconds, Standing: c.Standing, Tries: c.Tries, Flaky: c.Flaky}
		if t := c.Tests; t != nil {
			one.Ran, one.Failed, one.Skipped, one.Known, one.Fixed, one.Added = t.Ran, t.Failed, t.Skipped, t.Known,
				t.Fixed, t.Added
		}
		r.Checks = append(r.Checks, one)
	}
	if d := a.Result; d != nil {
		r.Agent.Backend, r.Agent.Model, r.Grade = cmp.Or(d.Backend, r.Agent.Backend), cmp.Or(d.Model, r.Agent.Model),
			d.Grade
		if d.Grade == journal.Accepted {
			r.Accepted = oneline.Text(a.Reason)
		}
		for _, l := range d.Looks {
			one := Look{Name: l.Name, Objects: l.Objects, Said: slices.Concat([]string{}, l.Said, l.Shown)}
			for i, line := range one.Said {
				one.Said[i] = oneline.Text(line)
			}
			if l.Agent != nil {
				one.Agent = &Agent{Backend: l.Agent.Backend, Model: l.Agent.Model}
			}
			r.Looks = append(r.Looks, one)
		}
	}
	if d := a.Agent; d != nil {
		r.Agent.Session = d.Session
		r.Cost = Cost{USD: d.USD, Estimated: d.Estimated, Input: d.InputTokens, Output: d.OutputTokens}
	}
	return r
}

// NameOf is the name of a check; the only one has none of its own.
func NameOf(check string) string { return cmp.Or(check, "verify") }

// Statements are the payloads of a receipt: the receipt, a test result for each check, and the summary of them.
func (f *Facts) Statements() ([][]byte, error) {
	r := f.Receipt()
	own, err := r.statement(ReceiptType, r)
	if err != nil {
		return nil, fmt.Errorf("receipt of task %s: %w", r.Task, err)
	}
	follow, err := r.follow(own)
	return slices.Concat([][]byte{own}, follow), err
}

// statement is a payload about the commit of the receipt.
func (r *Receipt) statement(kind string, predicate any) ([]byte, error) {
	raw, err := encode(predicate)
	if err != nil {
		return nil, err
	}
	subject := []Resource{{Name: r.Tag + "/" + r.Task, Digest: map[string]string{"gitCommit": r.Commit.Hash,
		"gitTree": r.Commit.Tree}}}
	return encode(Statement{Type: StatementType, Subject: subject, PredicateType: kind, Predicate: raw})
}

// follow are the statements that a receipt, whose payload is own, entails: nobody who changes one of them can keep the
// others.
func (r *Receipt) follow(own []byte) (out [][]byte, err error) {
	s := Summary{Verifier: Verifier{ID: "urn:descartes"}, TimeVerified: r.Finished,
		ResourceURI: "git+commit:" + r.Commit.Hash,
		Policy: Resource{URI: "descartes.yaml", Digest: map[string]string{
			"sha256": cmp.Or(r.Inputs.Policy, Digest(nil))}},
		VerificationResult: passed, VerifiedLevels: []string{levelOf(r.Grade)}, SLSAVersion: "1.1"}
	add := func(kind string, predicate any) {
		b, e := r.statement(kind, predicate)
		if err = errors.Join(err, e); e == nil {
			out = append(out, b)
		}
	}
	for _, c := range r.Checks {
		add(TestResultType, testResult(c))
	}
	for _, b := range slices.Concat([][]byte{own}, out) {
		s.InputAttestations = append(s.InputAttestations, Resource{Digest: map[string]string{"sha256": Digest(b)}})
	}
	add(SummaryType, s)
	if err != nil {
		return nil, fmt.Errorf("receipt of task %s: %w", r.Task, err)
	}
	return out, nil
}

// levelOf is the level of a summary for a grade: SLSA's own are about builds, and leave room for others.
func levelOf(g journal.Grade) string {
	switch g {
	case journal.RegressionOnly:
		return "DESCARTES_REGRESSION_ONLY"
	case journal.Accepted:
		return "DESCARTES_ACCEPTED"
	case journal.NotNeeded:
		return "DESCARTES_UNCHANGED"
	}
	return "DESCARTES_VERIFIED"
}

func testResult(c Check) TestResult {
	t := TestResult{Result: failed, Configuration: []Resource{
		{Name: c.Name, Digest: map[string]string{"sha256": Digest([]byte(c.Command))}, Content: []byte(c.Command),
			Annotations: map[string]string{"exitCode": strconv.Itoa(c.Code)}}}}
	if c.Output != "" {
		t.Configuration[0].Annotations["outputSha256"] = c.Output
	}
	switch {
	case c.Passed && len(c.Flaky) == 0 && c.Tries < 2 && c.Known == 0:
		t.Result = passed
	case c.Passed || c.Standing:
		t.Result = warned
	}
	t.PassedTests, t.WarnedTests = slices.Concat(c.Fixed, c.Added), c.Flaky
	return t
}

// Digest is the SHA-256 of something, in hex.
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// encode is JSON in one line, as it is signed.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return slices.Clip(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), err
}
