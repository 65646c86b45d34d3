package sim

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

var plant = flag.String("faults", "", "plant the faults whose names match, one after the other")

// faults are edits of the machine: plain mistakes, each of which somebody will make one day. One that no night finds
// is a law that is missing.
var faults = []struct{ name, file, old, new string }{
	{"stop ignored", "end.go", `{r.Stops.Stopped, "stopped"}`, `{false, "stopped"}`},
	{"pause ignored", "end.go", `{r.Stops.Paused, "paused"}`, `{false, "paused"}`},
	{"deadline ignored", "end.go", `{isPast(s.now, l.Deadline), "deadline"}`, `{false, "deadline"}`},
	{"total ignored", "next.go", `purpose == Work && started >= r.Limits.Total`, `false`},
	{"total not counted", "attempt.go", `r.Attempts++`, `_ = r.Attempts`},
	{"breaker ignored", "end.go", `{r.Breaker.isOpen(), "breaker"}`, `{false, "breaker"}`},
	{"on-limit stop ignored", "end.go", `{l.OnLimitStop && `, `{false && `},
	{"waves out of order", "waves.go", `r.commitsEachTask() || t.Wave < s.open {`, `r.commitsEachTask() || t.Wave != s.open {`},
	{"priority ignored", "next.go", `cmp.Or(turn(a)-turn(b), s.rank[a.at]-s.rank[b.at])`, `turn(a) - turn(b)`},
	{"only lane 0", "next.go", `if !taken[l.Number] {`, `if !taken[l.Number] && l.Number == 0 {`},
	{"no fallback", "accounts.go", `range list {`, `range list[:min(1, len(list))] {`},
	{"waves only at the end", "next.go", `if c, ok := r.commit(s, false); ok {`, `if c, ok := r.commit(s, false); ok && s == nil {`},
	{"a killed check loses the work", "run.go", "case t.Stage == Checking:\n\t\t\tr.move(t, Made, -1)", "case t.Stage == Checking:\n\t\t\tr.again(t)"},
	{"clashing tasks together", "next.go", `return s.paths["clash "+p] }) ||`, `return p == "" }) ||`},
	{"row never ends", "breaker.go", `{ b.row, b.Half = row{}, row{} }`, `{ b.Half = row{} }`},
	{"a clash counts", "attempt.go", `t.Clashes = union(t.Clashes, e.Paths)`, `t.Clashes, t.Spent = union(t.Clashes, e.Paths), t.Spent+1`},
	{"two in a lane", "next.go", `free = slices.Delete(free, i, i+1); len`, `free = slices.Delete(free, i, i); len`},

	{"no inherited priority", "next.go", `s.rank[k] = min(s.rank[k], s.rank[i])`, `_ = k`},
	{"no longest path", "next.go", `c = cmp.Or(c, cmp.Compare(s.hours[b.at], s.hours[a.at]))`, `_ = c`},
	{"longest path with one lane", "next.go", `if len(r.Lanes) > 1 {`, `if len(r.Lanes) > 0 {`},
	{"a failed task goes last", "next.go", "case t.Again:\n\t\t\treturn 2", "case t.Again:\n\t\t\treturn 3"},
	{"three attempts of one dead agent", "next.go", `return !r.Worked && t.Crashed > 0 &&`, `return t.Crashed > 99 &&`},
	{"one lane, two at work", "next.go", `case len(r.Lanes) == 1 && s.underWay > 0:`, `case len(r.Lanes) == 0:`},
	{"clashes only with what runs", "next.go", "if t.isAtWork() {\n\t\t\ts.occupy", "if t.Stage == Running {\n\t\t\ts.occupy"},
	{"no half-open breaker", "breaker.go", `row{}, row{}, b.Opened`, `row{}, row{}, row{}`},
	{"half open for ever", "breaker.go", `{ b.row, b.Half = row{}, row{} }`, `{ b.row = row{} }`},
	{"no recheck", "breaker.go", `b.Doubt = b.row`, `_ = b.row`},
	{"recheck always opens", "breaker.go", `if signature != "" && signature == b.Doubt.Signature {`, `if signature != "" {`},
	{"row of attempts", "breaker.go", `if !slices.Contains(b.Tasks, task) {`, `if limit > 0 {`},
	{"an agent at work ends no row", "breaker.go", "if b.ByAgent {\n\t\tb.row = row{}", "if b.ByAgent {\n\t\t_ = b.row"},
	{"max_wait ignored", "next.go", `l.MaxWait > 0 && until.Sub(now) > l.MaxWait || `, ``},
	{"asks again at the last of its times", "next.go", `at = earlier(u, at)`, `at = u`},
	{"no timer while something is at work", "next.go", `r.wakes(r.survey(now), !r.isAtWork())`, `r.wakes(r.survey(now), true)`},
	{"waits beyond the deadline", "next.go", `!l.Deadline.IsZero() && !until.Before(l.Deadline)`, `false`},
	{"faults for ever", "accounts.go", `a.Faults[account] > maxRests`, `a.Faults[account] > 99`},
	{"a rest loses its turn", "accounts.go", `return "", earlier(rest, at)`, `continue`},
	{"faults never forgiven", "accounts.go", `worked(account string) { delete(a.Faults, account) }`, `worked(account string) {}`},
	{"a limit is shortened", "accounts.go", `if until.After(a.Until[account]) {`, `if !until.IsZero() {`},
	{"changed after its review", "attempt.go", `t.Reviewed && !e.Changed {`, `t.Reviewed {`},
	{"another tip than the checked one", "next.go", `next.Reviewed && next.PassedOn == len(r.Trunk.Chain)`, `next.Reviewed`},
	{"reviewed work waits in the queue", "next.go", `t.Reviewed && !next.Reviewed || t.Reviewed == next.Reviewed && t.Turn < next.Turn`, `t.Turn < next.Turn`},
	{"accepted work refused", "attempt.go", `t.Accepted && e.Result != Clashed:`, `t.Accepted && e.Result == Passed:`},
	{"known failures forgotten", "attempt.go", "r.Known = union(r.Known, e.Known)\n\t\tr.merge(t)", "r.merge(t)"},
	{"finished work lost at a kill", "run.go", `t.Stage == Running && place[k.Task] == 0 {`, `t.Stage == Made && place[k.Task] == 0 {`},
	{"a fleet's work thrown away", "run.go", `case t.Lane >= 0 && slices.Contains(e.Alive, t.ID):`, `case len(e.Alive) > 99:`},
	{"cut short for ever", "attempt.go", "t.Cuts++\n\tswitch {\n\tcase t.Cuts >= maxCuts:", "t.Cuts++\n\tswitch {\n\tcase t.Cuts >= 99:"},
	{"a cut counts", "attempt.go", "t.Cuts++\n\tswitch", "t.Cuts++\n\tt.Spent++\n\tswitch"},
	{"a flaky check of a wave counts", "waves.go", `case e.Result == Failed && !again:`, `case e.Wave == 0:`},
	{"checks of waves after a stop", "waves.go", `if r.Waves.Checking || r.Stops.noChecks(s.now, r.Limits) {`, `if r.Waves.Checking {`},
	{"a wave committed unchecked", "waves.go", "limit = k.Good", "limit = len(k.Chain)"},
	{"the list alone never", "waves.go", `!t.Facts.Listed && (last`, `t.Wave < 0 && (last`},
	{"the list of another moment", "trunk.go", `t.Facts.Listed = t.Writing`, `t.Facts.Listed = t.Stage == Blocked || t.Unchanged && t.Stage == Done`},
	{"continued not said", "waves.go", "c.Continued = work <= r.Waves.Committed", "c.Continued = work < r.Waves.Committed"},
	{"agents start before the take in", "next.go", `case r.takeDue() || r.Trunk.Busy == "take in", r.needsBaseline():`, `case r.needsBaseline():`},
	{"committed beside a clash", "waves.go", `case r.taking() != nil || k.Refused < k.Moved:`, `case k.Refused < k.Moved:`},
	{"last made, first checked", "next.go", `t.Turn < next.Turn`, `t.Turn > next.Turn`},
	{"checks after a second stop", "next.go", "if r.Stops.Now {\n\t\treturn nil", "if s == nil {\n\t\treturn nil"},
	{"money of a task ignored", "attempt.go", `return r.Limits.TaskUSD > 0 &&`, `return r.Limits.TaskUSD < 0 &&`},
	{"cost ignored", "end.go", `{l.USD > 0 && r.USD >= l.USD, "cost"}`, `{false, "cost"}`},
	{"one attempt more", "attempt.go", `t.Spent >= r.Limits.Attempts`, `t.Spent > r.Limits.Attempts`},
	{"no second look", "next.go", `case t.Look:`, `case t.Number < 0:`},
	{"a lowered limit ignored", "run.go", `if t.Stage == Pending && r.isSpent(t) {`, `if r.turns < 0 {`},
	{"a late task in a committed wave", "list.go", `Floor: floor}`, `Floor: min(floor, 1)}`},
	{"work on what was rewound", "trunk.go", `open[t.ID] && t.Stage != Aside && !t.ByHand`, `open[t.ID] && t.Stage == Blocked`},
	{"codes in another order", "end.go", `{"quota", 75}, {"agent", 4}, {"blocked", 3}`, `{"blocked", 3}, {"quota", 75}, {"agent", 4}`},
	{"a word about work at hand is lost", "task.go", `r.applyWord(t) // what`, `_ = t // what`},
	{"baseline ignored", "end.go", `{r.Baseline == Failed && r.Settings.Baseline == "require", "baseline"}`, `{false, "baseline"}`},
	{"a step takes the next wave", "next.go", `r.Waves.Upto == 0 || t.Wave <= r.Waves.Upto`, `r.Waves.Upto >= 0`},
	{"no barrier", "next.go", `len(r.Lanes) > 1 && !r.Settings.Barrier &&`, `len(r.Lanes) > 1 &&`},
	{"scope ignored", "next.go", `r.Settings.RespectScope && slices`, `r.Settings.Step && slices`},
	{"labels ignored", "next.go", `purpose == Review || hasLabels(l, t.Labels)`, `l.Number >= 0`},
	{"nothing committed at a stop", "next.go", `if c, ok := r.commit(s, true); ok {`, `if c, ok := r.commit(s, true); ok && s == nil {`},
	{"out of quota is an attempt", "attempt.go", `r.Attempts--`, `_ = purpose`},
	{"checks idle while a wave is checked", "next.go", `if r.Trunk.Busy != "" {`, `if r.Trunk.Busy != "" || r.Waves.Checking {`},
	{"a lost check of the end", "run.go", `r.sawCheck(t, i+1)`, `_ = i`},
	{"a started task keeps its wave", "list.go", `if t.isOurs() || t.isIn() {`, `if t.isOurs() || t.Number > 0 {`},
	{"an opened circle has no depths", "list.go", `if len(r.links.order) < len(r.Tasks) { // a circle`, `if len(r.links.order) > len(r.Tasks) { // a circle`},
	{"a list alone for work that waits", "waves.go", `i < len(k.Chain) && !last; i++`, `i < 0; i++`},
	{"an end with work in no commit", "waves.go", `gate || last || r`, `gate || r`},
	{"a step takes another task", "next.go", `r.Settings.Only == "" || t.ID == r.Settings.Only`, `r.turns >= 0`},
	{"a push that failed is forgotten", "end.go", `why["push"] = r.Stops.Unpushed`, `why["push"] = false`},
	{"a push that failed is remembered for ever", "run.go", `r.Stops.Unpushed = e.Result != Passed`, `r.Stops.Unpushed = r.Stops.Unpushed || e.Result != Passed`},
	{"dropped tasks come back", "list.go", `t.Gone = t.Gone || !t.isOurs()`, `t.Gone = !t.isOurs()`},
}

// TestFaultsApply holds that each edit still has its place, and only one. make test-sim FAULTS=. plants them.
func TestFaultsApply(t *testing.T) {
	for _, f := range faults {
		src, err := os.ReadFile(filepath.Join("..", f.file))
		if n := strings.Count(string(src), f.old); err != nil || n != 1 {
			t.Errorf("%s: %q stands in %s %d times: %v", f.name, f.old, f.file, n, err)
		}
	}
}

// TestFaults builds the simulator over a copy of the machine with one fault, and plays nights until a law is broken.
func TestFaults(t *testing.T) {
	if *plant == "" {
		t.Skip("make test-sim FAULTS=. plants them")
	}
	want, law := regexp.MustCompile(*plant), regexp.MustCompile(`seed (\d+): .*`)
	for _, f := range faults {
		if !want.MatchString(f.name) {
			continue
		}
		cmd := exec.Command("go", "test", "-vet=off", "-overlay", overlay(t, f.file, f.old, f.new), "-run", "TestNights",
			".", "-args", "-nights", "5000")
		out, err := cmd.CombinedOutput()
		switch found := law.FindAllString(string(out), -1); {
		case err == nil:
			t.Errorf("%s: not found in 5000 nights", f.name)
		case found == nil:
			t.Errorf("%s: %s", f.name, out)
		default:
			t.Logf("%-45s %.120s", f.name, found[len(found)-1])
		}
	}
}

// overlay has the go command read an edited copy of a file of the machine.
func overlay(t *testing.T, file, old, new string) string {
	t.Helper()
	file, err := filepath.Abs(filepath.Join("..", file))
	if err != nil {
		t.Fatal(err)
	}
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	edited, list := filepath.Join(dir, filepath.Base(file)), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(edited, []byte(strings.Replace(string(src), old, new, 1)), 0o666); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {file: edited}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(list, text, 0o666); err != nil {
		t.Fatal(err)
	}
	return list
}
