package results

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"

	"descartes/internal/lazyregexp"
)

// Output reads results out of what a check printed: those of go test -json, TAP or pytest, also several in a row. It
// is nil where there are none, or too many tests to keep apart.
func Output(r io.Reader) (*Set, error) {
	o := &output{pkgs: map[string]bool{}, seen: map[string]int{}}
	b := bufio.NewReaderSize(r, maxLine)
	for {
		line, long, err := b.ReadLine()
		if len(line) > 0 && !long {
			o.line(string(line))
		}
		for long && err == nil { // the rest of a line that is too long says nothing
			_, long, err = b.ReadLine()
		}
		if errors.Is(err, io.EOF) {
			return o.set(), nil
		}
		if err != nil {
			return nil, err
		}
	}
}

const maxLine = 256 << 10

// output reads the lines of an output one after the other.
type output struct {
	golang, tap, pytest collector
	isGo, isTAP, isPy   bool
	pkgs                map[string]bool // of go: packages that failed, and whether by a test or a build that is known
	seen                map[string]int  // TAP descriptions
	passes, skips       int             // by pytest's last lines
}

var (
	colour = lazyregexp.New("\x1b\\[[0-?]*[ -/]*[@-~]")

	tapPlan = lazyregexp.New(`^\s*(?:TAP version \d+|1\.\.\d+(?:\s.*)?)$`)
	tapTest = lazyregexp.New(`^\s*(not )?ok (\d+)\b(?: -)?\s*(.*)$`)
	tapMark = lazyregexp.New(`(?i)(?:^|\s)#\s*(skip|todo)\b`)

	pyVerbose = lazyregexp.New(`^(\S+::.+?) (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b`)
	pyWorker  = lazyregexp.New(`^\[gw\d+\] (?:\[ *\d+%\] )?(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) (\S+::.+?)\s*$`)
	pySummary = lazyregexp.New(`^(PASSED|FAILED|ERROR|XFAIL|XPASS) (\S+::.+?|\S+\.py)(?: - .*)?$`)
	pyTotals  = lazyregexp.New(
		`^(?:=+ )?((?:no tests ran|\d+ [a-z]+)(?:, \d+ [a-z]+)*) in [\d.]+s(?: \([\d:]+\))?(?: =+)?$`)
	pyCount = lazyregexp.New(`(\d+) (passed|failed|errors?|skipped|xfailed|xpassed)\b`)
)

func (o *output) line(s string) {
	if strings.IndexByte(s, '\x1b') >= 0 {
		s = colour.ReplaceAllString(s, "")
	}
	switch {
	case strings.HasPrefix(s, `{"`):
		o.event(s)
	case tapPlan.MatchString(s):
		o.isTAP = true
	default:
		if m := tapTest.FindStringSubmatch(s); m != nil {
			o.point(m[1] == "", m[2], m[3])
			return
		}
		o.python(strings.TrimRight(s, " "))
	}
}

// event is a line of go test -json.
func (o *output) event(line string) {
	var e struct{ Action, Package, ImportPath, Test string }
	if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
		return
	}
	var s status
	switch e.Action {
	case "start", "run":
		o.isGo = true
		return
	case "build-fail":
		o.isGo = true
		path, _, _ := strings.Cut(e.ImportPath, " ") // x [x.test]
		o.golang.add(path+unbuilt, failed)
		o.pkgs[path] = true
		return
	case "pass":
		s = passed
	case "fail":
		s = failed
	case "skip":
		s = skipped
	default:
		return
	}
	if e.Package == "" {
		return
	}
	o.isGo = true
	if s == failed {
		o.pkgs[e.Package] = o.pkgs[e.Package] || e.Test != ""
	}
	if e.Test != "" {
		o.golang.add(e.Package+"."+e.Test, s)
	}
}

// point is a test point of TAP.
func (o *output) point(ok bool, number, text string) {
	mark := tapMark.FindStringSubmatchIndex(text)
	s := failed
	if ok {
		s = passed
	}
	if mark != nil {
		s, text = skipped, text[:mark[0]]
	}
	if text = strings.TrimSpace(text); text == "" {
		text = "test " + number
	}
	if o.seen[text]++; o.seen[text] > 1 {
		text += " (" + strconv.Itoa(o.seen[text]) + ")"
	}
	o.tap.add(text, s)
}

// python is a line of pytest's.
func (o *output) python(s string) {
	if m := pyVerbose.FindStringSubmatch(s); m != nil {
		o.pyTest(m[1], m[2])
	} else if m := pyWorker.FindStringSubmatch(s); m != nil {
		o.pyTest(m[2], m[1])
	} else if m := pySummary.FindStringSubmatch(s); m != nil {
		o.pyTest(m[2], m[1])
	} else if m := pyTotals.FindStringSubmatch(s); m != nil {
		counts := pyCount.FindAllStringSubmatch(m[1], -1)
		if counts == nil && m[1] != "no tests ran" {
			return // other programs time themselves too
		}
		o.isPy = true
		for _, c := range counts {
			n, err := strconv.Atoi(c[1])
			if err != nil {
				n = 0
			}
			switch c[2] {
			case "passed", "xpassed":
				o.passes += n
			case "skipped", "xfailed":
				o.skips += n
			}
		}
	}
}

func (o *output) pyTest(name, word string) {
	s := map[string]status{"PASSED": passed, "XPASS": passed, "FAILED": failed, "ERROR": failed}[word]
	o.pytest.add(name, s)
}

// set is what the lines came to.
func (o *output) set() *Set {
	var all collector
	if o.isGo {
		o.wholePackages()
		all.take(&o.golang)
	}
	if o.isTAP {
		all.take(&o.tap)
	}
	if o.isPy {
		all.take(&o.pytest)
	}
	s := all.set()
	if !o.isGo && !o.isTAP && !o.isPy || s == nil {
		return nil
	}
	if o.isPy { // its last line counts what is not named
		named, off := 0, 0
		for _, st := range o.pytest.tests {
			switch st {
			case passed:
				named++
			case skipped:
				off++
			}
		}
		s.More, s.Omitted = max(0, o.passes-named), max(0, o.skips-off)
	}
	return s
}

// wholePackages adds the packages that failed though none of their tests did: in TestMain, by a panic or by a limit of
// time.
func (o *output) wholePackages() {
	for pkg, known := range o.pkgs {
		if !known {
			o.golang.add(pkg+whole, failed)
		}
	}
}

// Plain unwraps the output of go test -json; any other output stays as it is.
func Plain(text string) string {
	if !strings.Contains(text, `"Action":`) {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		var e struct{ Action, Output string }
		switch {
		case !strings.HasPrefix(line, `{"`) || json.Unmarshal([]byte(line), &e) != nil || e.Action == "":
			b.WriteString(line)
		case strings.HasSuffix(e.Action, "output"):
			b.WriteString(e.Output)
		}
	}
	return b.String()
}
