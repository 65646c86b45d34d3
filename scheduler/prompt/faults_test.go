package prompt

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var faults = flag.String("faults", "", "plant the faults whose names match, one after the other")

// planted are edits of the machine: each takes a rule away, and the simulator has to see it.
var planted = []struct{ name, file, old, new string }{
	{"a stop is ignored", "next.go", "r.Halt.Request == Stop || r.Halt.Request == StopNow}", "r.Halt.Request == StopNow}"},
	{"a pause is ignored", "next.go", "Paused, r.Halt.Request == Pause}", "Paused, false}"},
	{"SIGTERM is weaker than a stop", "next.go", "{always, Terminated, r.Halt.Request == Terminate},\n", ""},
	{"a later request weakens an earlier one", "person.go", "case rank(q) > rank(r.Halt.Request):", "default:"},
	{"a pause cannot be taken back", "person.go", "case q == Go && r.Halt.Request == Pause:\n\t\tr.Halt.Request = \"\"", "case q == Go && r.Halt.Request == Pause:"},
	{"the deadline is ignored", "next.go", "!l.Deadline.IsZero() && !now.Before(l.Deadline)}", "false}"},
	{"cost is ignored", "next.go", "l.USD > 0 && r.USD >= l.USD}", "false}"},
	{"the cost of a try that counts for nothing is forgotten", "run.go", "r.USD += left.USD", "if left.Verdict == Passed {\n\t\tr.USD += left.USD\n\t}"},
	{"a pre-check costs nothing", "person.go", "\tr.USD += o.USD\n", ""},
	{"one iteration more than the limit", "next.go", "r.At.Try.Number >= l.Iterations && !r.Then.Again", "r.At.Try.Number > l.Iterations && !r.Then.Again"},
	{"the limit cuts an iteration that is to be repeated", "next.go", "r.At.Try.Number >= l.Iterations && !r.Then.Again", "r.At.Try.Number >= l.Iterations"},
	{"one crash more than the limit", "limits.go", "c.Row >= l.Crashes ||", "c.Row > l.Crashes ||"},
	{"crashes: no half-open after a resume", "limits.go", " || c.Half && c.Row > 0", ""},
	{"crashes: a resume does not let one more try", "person.go", "\tr.Rows.Crashes.resumed(&r.Limits)\n", ""},
	{"an iteration that ends well does not end the row of crashes", "run.go", "r.Rows.Crashes.add(false)\n", ""},
	{"one retry more", "limits.go", "return 3", "return 4"},
	{"no retries", "run.go", "r.Then.Again, r.Then.Plans = true, r.At.Plans", "r.Then.Plans = r.At.Plans"},
	{"a kill gives all tries again", "person.go", "\tcase r.Stage == Running: //", "\tcase r.Stage == Running && r.Rows.Tries > 1:\n\t\tr.Rows.Tries, r.Then.Again = 0, true\n\t\tr.move(Idle)\n\tcase r.Stage == Running: //"},
	{"owed work is forgotten after a kill", "person.go", "\t\tr.Then.Again = true\n\t\tr.move(Idle)\n\tcase r.Stage == Checking:", "\t\tr.Then.Again, r.Then.Owed = true, Try{}\n\t\tr.move(Idle)\n\tcase r.Stage == Checking:"},
	{"owed work is forgotten after a quota", "run.go", "if left.Changed && r.Settings.Place != Folder {", "if left.Changed && left.Verdict != Limited && r.Settings.Place != Folder {"},
	{"what an interrupted agent made is forgotten", "run.go", "if left.Changed && r.Settings.Place != Folder {", "if left.Changed && left.Verdict != Cancelled && r.Settings.Place != Folder {"},
	{"the next agent does not go on from what failed", "next.go", "From: r.Then.Owed, Plans", "Plans"},
	{"an iteration of a kill is skipped", "person.go", "\tcase r.Stage == Running: // what it wrote is kept aside; it begins again from what it had\n\t\tr.Then.Again = true", "\tcase r.Stage == Running:"},
	{"a kill has an agent's finished work made again", "person.go", "case r.Stage == Running && e.Left != nil:", "case false:"},
	{"a kill has a check pass", "person.go", "\tcase r.Stage == Checking:\n\t\tr.move(Made)", "\tcase r.Stage == Checking:\n\t\tr.move(Ready)"},
	{"a commit that a kill hid is made again", "person.go", "case r.Stage == Delivering && e.Landed:", "case false:"},
	{"a commit that a kill cut is taken as made", "person.go", "case r.Stage == Delivering && e.Landed:", "case r.Stage == Delivering:"},
	{"the gate hears of no failure", "run.go", "if r.At.Plans { // that", "if r.At.Plans || !passed { // that"},
	{"the gate takes failures as passed", "run.go", "Passed: passed, Error", "Passed: true, Error"},
	{"the gate hears of interrupted agents", "run.go", ">= r.Limits.Iterations\n\t\tr.move(Idle)", ">= r.Limits.Iterations\n\t\tr.settle(false, at)"},
	{"the gate does not hear what failed", "run.go", "cmp.Or(left.Error, r.At.Found.Error)", "cmp.Or(left.Error)"},
	{"done is believed of what did not pass", "run.go", "case r.Say.Word == Done && !passed:", "case false:"},
	{"what fails its checks is committed", "run.go", "r.At.Found = e.Found\n\t\tr.fail(ByTests, at)", "r.At.Found = e.Found\n\t\tr.move(Ready)"},
	{"a cut check is a failure", "run.go", "case Cancelled:\n\t\tr.move(Made)", "case Cancelled:\n\t\tr.fail(ByTests, at)"},
	{"what was checked on another tip is committed", "run.go", "case Moved:\n\t\tr.move(Made)", "case Moved:\n\t\tr.move(Ready)"},
	{"a refused commit passes", "run.go", "r.fail(ByGit, at)", "r.settle(true, at)"},
	{"a refused commit does not decide the exit code", "next.go", "n > 0 && r.Rows.Cause == ByGit &&", "n > 0 && false &&"},
	{"what clashed comes back by itself", "run.go", "r.Halt.Clashed, r.Then.Again, r.Then.Owed = true, true, r.At.From", "r.Halt.Clashed, r.Then.Again = true, true"},
	{"what clashed has all that it went on from forgotten", "run.go", "r.Then.Owed = true, true, r.At.From", "r.Then.Owed = true, true, Try{}"},
	{"what a person merged is made again", "person.go", "case r.Halt.Clashed && e.Landed:", "case false:"},
	{"a clash is not said after a kill", "person.go", "\tr.recover(e, at)\n", "\tr.recover(e, at)\n\tr.Halt.Clashed = false\n"},
	{"work that the user's tree could not take comes back", "run.go", "r.Halt.Apart, r.Then.Owed = true, Try{}", "r.Halt.Apart = true"},
	{"what planning wrote is committed with what failed", "next.go", "Do: Deliver, Try: r.At.Try, Apart: r.At.Plans,", "Do: Deliver, Try: r.At.Try,"},
	{"after planning what failed is forgotten", "run.go", "\t\tr.Then.Owed = r.At.From\n\t}", "\t}"},
	{"the end of planning ends a build", "run.go", "if r.At.Plans { // that", "if false { // that"},
	{"a question does not wait", "next.go", "(r.Say.Word == Wait || r.Say.Word == Open)", "r.Say.Word == Open"},
	{"an agent's question is forgotten by a resume", "person.go", " && r.Say.What != OfAgent {", " {"},
	{"an agent's question counts though it worked", "event.go", "l.Said.Question && !l.Changed &&", "l.Said.Question &&"},
	{"a no is a yes", "person.go", "r.answer(a == Yes, at)", "r.answer(true, at)"},
	{"who is blocked goes on after a kill", "person.go", "r.Say.Word != Done && r.Say.Word != Blocked &&", "r.Say.Word != Done &&"},
	{"the breaker has no cooldown", "gate.go", "if s.Breaker.Open && now.Before(s.Breaker.Until) {", "if false {"},
	{"the breaker closes after its cooldown", "gate.go", "\ts.Breaker.half()\n\treturn Say{Word: Continue}\n}\n\nfunc (s *Status) Hear", "\ts.Breaker = Breaker{}\n\treturn Say{Word: Continue}\n}\n\nfunc (s *Status) Hear"},
	{"the breaker never closes", "gate.go", "*b = Breaker{Outputs: b.Outputs}\n", ""},
	{"one indicator is enough", "gate.go", "x.Indicators >= 2", "x.Indicators >= 1"},
	{"no signal is needed", "gate.go", "x.Block && x.Signal &&", "x.Block &&"},
	{"an assumption is evidence", "gate.go", "if p != Observed && p != ByCommand {", "if p != Observed && p != ByCommand && p != Assumed {"},
	{"an agent's word outranks a command", "gate.go", "if p != \"\" {", "if p == ByCommand {"},
	{"stuck once more", "gate.go", "c.Stuck >= mostStuck", "c.Stuck > mostStuck"},
	{"G3 is not asked", "gate.go", "if c.Colleague {", "if false {"},
	{"thrashing is not seen", "gate.go", ", h.Edits >= mostEdits:", ":"},
	{"shrinking output opens the breaker though there is progress", "gate.go", "shrinks && !h.progress()", "shrinks"},
	{"shrinking output is not seen", "gate.go", " || shrinks && !h.progress()", " || shrinks && false"},
	{"an error of ours does not end it", "next.go", "if why := r.Halt.Broken; why != \"\" {", "if why := r.Halt.Broken; false {"},
	{"after an error nothing is resumed", "person.go", "r.Halt.Request, r.Halt.Alone, r.Halt.Lacks, r.Halt.Broken = \"\", false, \"\", \"\"", "r.Halt.Request, r.Halt.Alone, r.Halt.Lacks = \"\", false, \"\""},
	{"an error in a delivery is taken as made", "run.go", "r.recover(Resumed{}, l.When)", "r.recover(Resumed{Landed: true}, l.When)"},
	{"a person is taken to have seen what is heard after he came", "person.go", "\tif went {\n\t\tr.again()", "\tif went {\n\t\tif r.Say.Word == Blocked {\n\t\t\tr.Say = Say{Word: Continue}\n\t\t}\n\t\tr.again()"},
	{"a known limit is started into", "accounts.go", "until.After(x.Until)", "false"},
	{"nobody takes over", "accounts.go", "if hold == nil || x.Until.Before(hold.Until) {\n\t\t\t\thold = x\n\t\t\t}", "return \"\", x.Until, \"\""},
	{"the account that is free last is waited for", "accounts.go", "x.Until.Before(hold.Until)", "x.Until.After(hold.Until)"},
	{"a passing fault is waited for for ever", "accounts.go", "case x.Faults <= faultTries:", "default:"},
	{"a passing fault makes another account take over", "accounts.go", "x.Faults <= faultTries", "x.Faults < 0"},
	{"faults are counted though one worked between", "accounts.go", "x.Faults, x.Rest = 0, time.Time{}", "x.Rest = time.Time{}"},
	{"max_wait is ignored", "accounts.go", "l.MaxWait > 0 && hold", "false && hold"},
	{"--on-limit stop is ignored", "accounts.go", "case l.StopAtOnce,", "case"},
	{"an account that refuses is asked again", "accounts.go", "case x.Unusable:", "case false:"},
	{"an iteration is used up by a quota", "run.go", "r.account(left.Verdict, left.Until, at)\n\t\tr.Then.Again = true", "r.account(left.Verdict, left.Until, at)"},
	{"an interrupted iteration has not had its number", "run.go", "r.Then.Again = r.At.Try.Number >= r.Limits.Iterations\n", "r.Then.Again = true\n"},
	{"--now checks what is made", "next.go", "if why := r.atOnce(); why != \"\" {", "if why := r.atOnce(); false {"},
	{"a stop leaves what is made unchecked", "next.go", "case StopNow:\n\t\treturn Stopped", "case StopNow, Stop:\n\t\treturn Stopped"},
	{"what planning wrote is checked with what failed", "next.go", "Do: Check, Try: r.At.Try, Apart: r.At.Plans,", "Do: Check, Try: r.At.Try,"},
	{"a commit that is refused for ever is tried for ever", "next.go", "r.Rows.Refusals > mostRefusals}", "false}"},
	{"an interrupted last iteration is never made", "run.go", "r.Then.Again = r.At.Try.Number >= r.Limits.Iterations\n", ""},
	{"a review starts after the deadline", "next.go", "(x.when == always || r.Stage == Idle)", "r.Stage == Idle"},
	{"what a review objects to is committed", "run.go", "r.At.Found.Error = \"review\"\n\t\tr.fail(ByTests, at)", "r.move(Ready)"},
	{"a kill skips the review", "person.go", "case r.Stage == Reviewing:\n\t\tr.move(Checked)", "case r.Stage == Reviewing:\n\t\tr.move(Ready)"},
	{"a review looks again where only the branch moved", "run.go", " && !r.At.Approved:", ":"},
	{"another try's approval counts", "run.go", "Plans: r.Then.Plans}\n", "Plans: r.Then.Plans, Approved: r.At.Approved}\n"},
	{"a review costs nothing", "run.go", "\tr.USD += o.USD\n", ""},
	{"the cap of a build is a failure", "next.go", "if m == Plan || m == Build {", "if m == Plan {"},
	{"the limit outranks crashes", "next.go", "\t\t{between, Crashing, ", "\t\t{between, AtLimit, atLimit},\n\t\t{between, Crashing, "},
	{"raised caps are ignored", "run.go", "case LimitsChanged:\n\t\tr.Limits = e.Limits", "case LimitsChanged:"},
	{"a resume keeps the old caps", "person.go", "r.Ended, r.Limits = \"\", e.Limits", "r.Ended = \"\"\n\tif r.Limits.Iterations == 0 {\n\t\tr.Limits = e.Limits\n\t}"},
	{"something is delivered where there is no git", "run.go", "if left.Changed && r.Settings.Place != Folder {", "if left.Changed {"},
	{"an iteration without changes passes a build", "run.go", "case r.Settings.Claims &&", "case false &&"},
	{"what failed and passes now is not delivered, because its last agent changed nothing", "run.go", "Claims && !r.delivers() &&", "Claims && !r.At.Left.Changed &&"},
	{"a plan that was not written is no failure", "run.go", "case r.Settings.Mode == Plan && r.At.Found.NoPlan &&", "case false &&"},
	{"what a run needs is looked for once", "person.go", "r.Halt.Request, r.Halt.Alone, r.Halt.Lacks, r.Halt.Broken = \"\", false, \"\", \"\"", "r.Halt.Request, r.Halt.Alone, r.Halt.Broken = \"\", false, \"\""},
	{"time passes, and nobody looks", "accounts.go", "earlier(x.Rest, l.Deadline)", "x.Rest"},
	{"the machine is not what its journal says", "run.go", "r.At.Left = left\n", "r.At.Left = left\n\tif calls++; calls%97 == 0 {\n\t\tr.USD++\n\t}\n"},
	{"what a run did is forgotten by a resume", "person.go", "r.Ended, r.Limits = \"\", e.Limits", "r.Ended, r.Limits, r.USD = \"\", e.Limits, 0"},
	{"a no at G3 ends the run", "person.go", "!yes && r.Say.Word != Continue //", "!yes //"},
}

// TestFaultsApply holds that each edit still has its place, and only one. make test-sim FAULTS=. plants them.
func TestFaultsApply(t *testing.T) {
	for _, f := range planted {
		src, err := os.ReadFile(f.file)
		if n := strings.Count(string(src), f.old); err != nil || n != 1 {
			t.Errorf("%s: %q stands in %s %d times: %v", f.name, f.old, f.file, n, err)
		}
	}
}

// TestFaults builds the package with one fault after the other, and plays nights until a law is broken.
func TestFaults(t *testing.T) {
	if *faults == "" {
		t.Skip("make test-sim FAULTS=. plants them")
	}
	want, law := regexp.MustCompile(*faults), regexp.MustCompile(`seed (\d+): .*`)
	for _, f := range planted {
		if !want.MatchString(f.name) {
			continue
		}
		cmd := exec.Command("go", "test", "-vet=off", "-overlay", overlay(t, f.file, f.old, f.new), "-run", "TestNights",
			".", "-args", "-nights", "5000")
		out, err := cmd.CombinedOutput()
		switch found := law.FindString(string(out)); {
		case err == nil:
			t.Errorf("%s: not found in 5000 nights", f.name)
		case found == "":
			t.Errorf("%s: %s", f.name, out)
		default:
			t.Logf("%-58s %.100s", f.name, found)
		}
	}
}

// overlay has the go command read an edited copy of a file of the machine.
func overlay(t *testing.T, file, old, new string) string {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(src), old, new, 1)
	if strings.Contains(new, "calls++") {
		text += "\nvar calls int\n"
	}
	file, err = filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	edited, list := filepath.Join(dir, filepath.Base(file)), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(edited, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: edited}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(list, replace, 0o666); err != nil {
		t.Fatal(err)
	}
	return list
}
