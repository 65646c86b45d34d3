package main

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"

	ingest "github.com/joshdk/go-junit"
	"github.com/jstemmer/go-junit-report/v2/junit"
	"github.com/rogpeppe/go-internal/testscript"
)

// allowedInJUnit is what the schema of Jenkins' xUnit plugin (junit-10.xsd) knows: the attributes and children of each
// element, in their order where it asks for one.
var allowedInJUnit = map[string]struct{ attributes, needed, children []string }{
	"": {children: []string{"testsuites"}},
	"testsuites": {attributes: []string{"name", "time", "tests", "failures", "errors"},
		children: []string{"testsuite"}},
	"testsuite": {attributes: []string{"name", "tests", "failures", "errors", "group", "time", "skipped", "timestamp",
		"hostname", "id", "package", "file", "log", "url"},
		needed:   []string{"name", "tests", "failures", "errors"},
		children: []string{"testsuite", "properties", "testcase", "system-out", "system-err"}},
	"properties": {children: []string{"property"}},
	"property":   {attributes: []string{"name", "value"}, needed: []string{"name", "value"}},
	"testcase": {attributes: []string{"name", "time", "classname", "group"}, needed: []string{"name"},
		children: []string{"skipped", "error", "failure", "system-out", "system-err"}},
	"skipped":    {attributes: []string{"type", "message"}},
	"failure":    {attributes: []string{"type", "message"}},
	"system-out": {},
}

// keepsToSchema says where a report is none by that schema.
func keepsToSchema(text string) (wrong []string) {
	in := []string{""}
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		token, err := d.Token()
		if err == io.EOF {
			return wrong
		}
		if err != nil {
			return append(wrong, err.Error())
		}
		switch e := token.(type) {
		case xml.StartElement:
			name, parent := e.Name.Local, in[len(in)-1]
			rule, known := allowedInJUnit[name]
			if !known || !slices.Contains(allowedInJUnit[parent].children, name) {
				wrong = append(wrong, fmt.Sprintf("%s may not be in %q", name, parent))
			}
			var got []string
			for _, a := range e.Attr {
				if got = append(got, a.Name.Local); !slices.Contains(rule.attributes, a.Name.Local) {
					wrong = append(wrong, fmt.Sprintf("%s may not have the attribute %s", name, a.Name.Local))
				}
			}
			for _, n := range rule.needed {
				if !slices.Contains(got, n) {
					wrong = append(wrong, fmt.Sprintf("%s lacks the attribute %s", name, n))
				}
			}
			in = append(in, name)
		case xml.EndElement:
			in = in[:len(in)-1]
		}
	}
}

// junitCmd is "junit FILE": the report keeps to Jenkins' schema, and two consumers read the same in it. What they
// read, a line for each property, case and sum, is the output.
func junitCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: junit FILE")
	}
	text := ts.ReadFile(args[0])
	for _, w := range keepsToSchema(text) {
		ts.Fatalf("%s", w)
	}
	one, err := ingested(text)
	ts.Check(err)
	other, err := decoded(text)
	ts.Check(err)
	if one != other {
		ts.Fatalf("one consumer reads\n%s\nthe other\n%s", one, other)
	}
	fmt.Fprint(ts.Stdout(), one)
}

// ingested is what a library reads that others read reports with.
func ingested(text string) (string, error) {
	suites, err := ingest.Ingest([]byte(text))
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, s := range suites {
		fmt.Fprintf(&b, "suite %s: %d tests, %d failed, %d skipped\n", s.Name, s.Totals.Tests, s.Totals.Failed,
			s.Totals.Skipped)
		var props []string
		for name, value := range s.Properties {
			props = append(props, name+"="+value)
		}
		writeProperties(&b, props)
		for _, t := range s.Tests {
			body := t.SystemOut
			if e, ok := t.Error.(ingest.Error); ok {
				body = e.Body
			}
			writeCase(&b, string(t.Status), t.Classname, t.Name, t.Message, body)
		}
	}
	return b.String(), nil
}

// decoded is what the types read that most reports of Go are written with.
func decoded(text string) (string, error) {
	var all junit.Testsuites
	if err := xml.Unmarshal([]byte(text), &all); err != nil {
		return "", err
	}
	var b strings.Builder
	sum := junit.Testsuites{}
	for _, s := range all.Suites {
		sum.AddSuite(s)
		again := junit.Testsuite{}
		fmt.Fprintf(&b, "suite %s: %d tests, %d failed, %d skipped\n", s.Name, s.Tests, s.Failures, s.Skipped)
		var props []string
		if s.Properties != nil {
			for _, p := range *s.Properties {
				props = append(props, p.Name+"="+p.Value)
			}
		}
		writeProperties(&b, props)
		for _, c := range s.Testcases {
			again.AddTestcase(c)
			state, message, body := "passed", "", ""
			switch {
			case c.Failure != nil:
				state, message, body = "failed", c.Failure.Message, c.Failure.Data
			case c.Skipped != nil:
				state, message, body = "skipped", c.Skipped.Message, c.Skipped.Data
			case c.SystemOut != nil:
				body = c.SystemOut.Data
			}
			writeCase(&b, state, c.Classname, c.Name, message, body)
		}
		if s.Tests != again.Tests || s.Failures != again.Failures || s.Skipped != again.Skipped ||
			s.Errors != again.Errors {
			return "", fmt.Errorf("suite %s does not add up", s.Name)
		}
	}
	if sum.Tests != all.Tests || sum.Failures != all.Failures || sum.Errors != all.Errors {
		return "", fmt.Errorf("the suites do not add up: %d tests, %d failures", all.Tests, all.Failures)
	}
	return b.String(), nil
}

func writeProperties(b *strings.Builder, props []string) {
	slices.Sort(props)
	for _, p := range props {
		b.WriteString("  property " + p + "\n")
	}
}

func writeCase(b *strings.Builder, state, class, name, message, body string) {
	fmt.Fprintf(b, "  %s %s: %s: %s\n", state, class, name, message)
	for line := range strings.Lines(strings.TrimSpace(body)) {
		b.WriteString("    | " + strings.TrimRight(line, "\n") + "\n")
	}
}
