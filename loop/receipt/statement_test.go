package receipt

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	testresult "github.com/in-toto/attestation/go/predicates/test_result/v0"
	summary "github.com/in-toto/attestation/go/predicates/vsa/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"descartes/loop/journal"
)

const (
	commitOne = "1111111111111111111111111111111111111111"
	treeOne   = "2222222222222222222222222222222222222222"
)

// facts are those of a task with two checks, one of them flaky, and a look.
func facts(task string) *Facts {
	at := time.Date(2026, 3, 1, 2, 30, 0, 0, time.UTC)
	usd := 0.25
	return &Facts{Tag: "x", Loop: "night", Wave: 2, Commit: Commit{Hash: commitOne, Tree: treeOne,
		PatchID: strings.Repeat("3", 40)}, Policy: []string{"unit: make <test>"}, Sandbox: "off",
		Program: "descartes v1",
		Attempt: &journal.Attempt{Key: journal.Key{Task: task, Number: 2}, Title: "A & B", Wave: 1,
			Start: journal.Start{Started: at, Client: journal.Client{Backend: "claude", Model: "opus"},
				Inputs: &journal.Inputs{Spec: Digest([]byte("spec")), Task: "t", Policy: Digest([]byte("p"))}},
			Finish: journal.Finish{Ended: at.Add(time.Minute), Base: "b", After: "a",
				Ref: "refs/descartes/night/tasks/1/2", Verdict: journal.Verified,
				Result: &journal.Detail{Grade: journal.RegressionOnly,
					Looks: []journal.Look{{Name: "guard", Said: []string{"two warnings"},
						Agent: &journal.Detail{Client: journal.Client{Backend: "codex"}}}}}},
			Progress: journal.Progress{Agent: &journal.Detail{
				Spent:  journal.Spent{USD: &usd, InputTokens: 10, OutputTokens: 2},
				Client: journal.Client{Session: "s"}}, Checks: []*journal.Detail{
				{Checked: journal.Checked{Check: "unit", Command: "make <test>", Passed: true, Digest: Digest(nil),
					Tests: &journal.Tests{Ran: 3, Fixed: []string{"TestA"}}}, Exit: journal.Exit{Seconds: 1}},
				{Checked: journal.Checked{Check: "lint", Command: "make lint", Passed: true, Tries: 2,
					Flaky: []string{"TestB"}}}}}}}
}

func statements(t *testing.T, f *Facts) [][]byte {
	t.Helper()
	out, err := f.Statements()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// in-toto's own types read each statement, know every member of it, and find nothing wrong. The bytes are ours: theirs
// come with spaces that differ from build to build, and what is signed has to stay as it is.
func TestStatementsAreInToto(t *testing.T) {
	kinds := map[string]int{}
	for _, b := range statements(t, facts("1")) {
		var s intoto.Statement
		if err := protojson.Unmarshal(b, &s); err != nil {
			t.Fatalf("%v in %s", err, b)
		}
		if err := s.Validate(); err != nil {
			t.Errorf("%v in %s", err, b)
		}
		kinds[s.PredicateType]++
		p, err := protojson.Marshal(s.Predicate)
		if err != nil {
			t.Fatal(err)
		}
		var of proto.Message
		switch s.PredicateType {
		case TestResultType:
			of = new(testresult.TestResult)
		case SummaryType:
			of = new(summary.VerificationSummary)
		default:
			continue
		}
		if err := protojson.Unmarshal(p, of); err != nil {
			t.Errorf("%v in %s", err, p)
		}
		var named []*intoto.ResourceDescriptor
		switch of := of.(type) {
		case *testresult.TestResult:
			named = of.Configuration
		case *summary.VerificationSummary:
			if len(of.InputAttestations) != 3 || of.InputAttestations[0].Digest["sha256"] == "" ||
				of.Verifier.GetId() == "" || of.TimeVerified == nil || of.ResourceUri == "" || of.Policy == nil ||
				len(of.VerifiedLevels) == 0 {
				t.Errorf("the summary lacks something: %s", p)
			}
		}
		for _, r := range named {
			if err := r.Validate(); err != nil {
				t.Errorf("%v in %s", err, p)
			}
		}
	}
	if kinds[ReceiptType] != 1 || kinds[TestResultType] != 2 || kinds[SummaryType] != 1 {
		t.Errorf("statements: %v", kinds)
	}
}

// The same work gives the same bytes: a killed run that writes them again writes nothing new.
func TestStatementsAreTheSame(t *testing.T) {
	a, b := Text(statements(t, facts("1"))), Text(statements(t, facts("1")))
	if string(a) != string(b) {
		t.Errorf("%s\nand\n%s", a, b)
	}
	var s Statement
	line, _, _ := strings.Cut(string(a), "\n")
	var r Receipt
	if json.Unmarshal([]byte(line), &s) != nil || json.Unmarshal(s.Predicate, &r) != nil ||
		r.Checks[0].Command != "make <test>" || r.Grade != journal.RegressionOnly || *r.Cost.USD != 0.25 ||
		r.Looks[0].Agent.Backend != "codex" {
		t.Errorf("it says %s", line)
	}
}

// Words of lists, agents and checks turn no line of a terminal around.
func TestReceiptsAreClean(t *testing.T) {
	t.Parallel()
	f := facts("1")
	f.Attempt.Title = "a\u202eb\x1b[2Jc"
	f.Attempt.Result.Looks = []journal.Look{{Name: "guard", Said: []string{"d\u2066e"}}}
	for _, b := range statements(t, f) {
		if strings.ContainsAny(string(b), "\u202e\u2066") || strings.Contains(string(b), `\u001b`) {
			t.Errorf("not clean: %s", b)
		}
	}
}
