package report

import (
	"encoding/xml"
	"io"
	"slices"
	"strings"
	"testing"
)

// allowed is what the schema of Jenkins' xUnit plugin (junit-10.xsd) knows: the attributes and children of each element.
var allowed = map[string]struct{ attributes, needed, children []string }{
	"":           {children: []string{"testsuites"}},
	"testsuites": {attributes: []string{"name", "time", "tests", "failures", "errors"}, children: []string{"testsuite"}},
	"testsuite": {attributes: []string{"name", "tests", "failures", "errors", "group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url"},
		needed: []string{"name", "tests", "failures", "errors"}, children: []string{"testsuite", "properties", "testcase", "system-out", "system-err"}},
	"properties": {children: []string{"property"}},
	"property":   {attributes: []string{"name", "value"}, needed: []string{"name", "value"}},
	"testcase":   {attributes: []string{"name", "time", "classname", "group"}, needed: []string{"name"}, children: []string{"skipped", "error", "failure", "system-out", "system-err"}},
	"skipped":    {attributes: []string{"type", "message"}},
	"failure":    {attributes: []string{"type", "message"}},
}

func TestJUnitSchema(t *testing.T) {
	t.Parallel()
	all := junitSuites{Name: "x", Tests: 3, Failures: 1, Time: "1.000", Suites: []junitSuite{{Name: "x wave 1", Tests: 3, Failures: 1, Skipped: 1, Time: "1.000",
		Props: []junitProp{{"loop", "night"}}, Cases: []junitCase{{Name: "1", Class: "x", Time: "0.500"}, {Name: "2", Failure: &junitWords{"m", "text"}}, {Name: "3", Skipped: &junitWords{Message: "held"}}}}}}
	text, err := xml.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	in := []string{""}
	for d := xml.NewDecoder(strings.NewReader(string(text))); ; {
		token, err := d.Token()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			name, parent := e.Name.Local, in[len(in)-1]
			rule, known := allowed[name]
			if !known || !slices.Contains(allowed[parent].children, name) {
				t.Errorf("%s may not be in %q", name, parent)
			}
			var got []string
			for _, a := range e.Attr {
				if got = append(got, a.Name.Local); !slices.Contains(rule.attributes, a.Name.Local) {
					t.Errorf("%s may not have the attribute %s", name, a.Name.Local)
				}
			}
			for _, n := range rule.needed {
				if !slices.Contains(got, n) {
					t.Errorf("%s lacks the attribute %s", name, n)
				}
			}
			in = append(in, name)
		case xml.EndElement:
			in = in[:len(in)-1]
		}
	}
}
