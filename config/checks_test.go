package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"descartes/verify"
)

func readVerify(t *testing.T, text string) (*File, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "descartes.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return ReadFile(path, true)
}

// verify: is one command, or a list of checks; they are run by their point, then as they are listed.
func TestVerify(t *testing.T) {
	t.Parallel()
	f, err := readVerify(t, "verify: make test\n")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := f.ChecksOf(true), []verify.Check{{Run: "make test"}}; !reflect.DeepEqual(got, want) ||
		!reflect.DeepEqual(f.ChecksOf(false), want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	f, err = readVerify(t, `verify:
  - {name: e2e, run: make e2e, when: end, timeout: 1h}
  - {name: lint, run: make lint}
  - {name: all, run: make all, when: wave, retry: 2}
  - {name: test, run: make test, when: attempt, timeout: 90, results: [a/*.xml, b.xml]}
  - {name: merged, run: make merged, when: wave, results: c.xml}
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []verify.Check{
		{Name: "lint", Run: "make lint"}, {Name: "test", Run: "make test", When: verify.AtAttempt,
			Timeout: 90 * time.Second, Results: []string{"a/*.xml", "b.xml"}},
		{Name: "all", Run: "make all", When: verify.AtWave, Retry: 2},
		{Name: "merged", Run: "make merged", When: verify.AtWave, Results: []string{"c.xml"}},
		{Name: "e2e", Run: "make e2e", When: verify.AtEnd, Timeout: time.Hour},
	}
	if got := f.ChecksOf(true); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestVerifyErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"verify: ''":                    "verify: the command is empty",
		"verify: []":                    "verify: the list is empty",
		"verify: {run: x}":              "line 1: there are settings, each with a name, where a list is wanted",
		"verify: [make]":                "line 1: there is `make`, where settings, each with a name, are wanted",
		"verify: [{run: x}]":            "verify: check 1 has no name",
		"verify: [{name: a b, run: x}]": `check "a b": a name is at most 40`,
		"verify: [{name: a, run: ' '}]": "check a: run, the command to run, is missing",
		"verify: [{name: a, run: x}, {name: A, run: y}]":       "two checks are called A",
		"verify: [{name: a, run: x, when: later}]":             `check a: when "later" is not one of attempt, wave, end`,
		"verify: [{name: a, run: x, when: merge}]":             `check a: when "merge" is gone: "attempt" checks each attempt as it is merged`,
		"verify: [{name: a, run: x, when: end}]":               "no check is run after an attempt",
		"verify: [{name: a, run: x, retry: 9}]":                "check a: retry 9: 0 to 5",
		"verify: [{name: a, run: x, retry: -1}]":               "check a: retry -1",
		"verify: [{name: a, run: x, timeout: soon}]":           `line 1: "soon" is neither a number of seconds`,
		"verify: [{name: a, run: x, results: ../out.xml}]":     `check a: results: "../out.xml" is not a path below the project`,
		"verify: [{name: a, run: x, results: /tmp/out.xml}]":   "is not a path below the project",
		"verify: [{name: a, run: x, results: 'a[.xml'}]":       "is not a pattern like",
		"verify: [{name: a, run: x, wehn: end}]":               "unknown setting wehn",
		"verify: x\nscud: {verification_command: y}":           "verify and scud.verification_command set the same thing, in lines 1 and 2",
		"verify: [{name: a, run: x}]\nverification_command: y": "verify and verification_command set the same thing",
	} {
		if _, err := readVerify(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
