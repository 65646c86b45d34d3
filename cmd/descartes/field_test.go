package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"descartes/internal/proc"
	"descartes/launch"
	"descartes/loop/journal"
	"descartes/loop/receipt"
	"descartes/loop/store"
	"descartes/tasks"
)

// field is a real repository with a tag, a scripted agent and a ledger of what that did, in which
// the real program is run and disturbed.
type field struct {
	root   string // the repository
	aside  string // outside of it: the ledger, the agent's memory, what descartes printed
	plan   fieldPlan
	flags  []string
	env    []string // of every run
	runs   int
	dirty  string // what git status has to say at the end
	killed bool   // so did the last run end
}

// verifyLine passes where the work is good. In an integration state that is all of it.
func (f *field) verifyLine() string {
	p := &f.plan
	line := `if [ -z "$DESCARTES_ATTEMPT" ]; then ! cat work-*.txt | grep -v "^good "; else read -r word rest <work-$SCUD_TASK_ID.txt && [ "$word" = good ]; fi || exit 1; `
	if len(p.clashing) > 0 {
		line += fmt.Sprintf(`[ -e fixed.txt ] || [ ! -e work-%d.txt ] || [ ! -e work-%d.txt ] || exit 1; `,
			p.clashing[0], p.clashing[1])
	}
	return line + `true`
}

// newField makes a committed repository for a plan.
func newField(t *testing.T, p fieldPlan, flags ...string) *field {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := &field{root: filepath.Join(dir, "project"), aside: filepath.Join(dir, "aside"), plan: p}
	f.flags = append([]string{"--tag", "t", "--command", "sh " + f.aside + "/agent.sh " + f.aside, "--verify",
		f.verifyLine(), "--json"}, flags...)
	if p.slots > 0 {
		f.flags = append(f.flags, "-j", strconv.Itoa(p.slots))
	}
	for name, text := range map[string]string{
		f.aside + "/agent.sh":          p.agentScript(),
		f.root + "/.scud/tasks/t.json": string(p.taskFile()),
		f.root + "/shared.txt":         "0\n",
		f.root + "/.gitignore":         "cache/\n",
		f.root + "/cache/kept":         "the user's\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f.git(t, "init", "-q", "-b", "main")
	f.git(t, "config", "user.name", "A U Thor")
	f.git(t, "config", "user.email", "author@example.org")
	f.git(t, "add", ".")
	f.git(t, "commit", "-q", "-m", "start")
	t.Cleanup(func() { // nothing outlives a test, whatever it found
		if _, err := proc.Sweep(launch.Cookie(f.root)); err != nil {
			t.Error(err)
		}
	})
	return f
}

// put writes a file of the repository.
func (f *field) put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(f.root, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func fieldEnv(more ...string) []string {
	state := "XDG_STATE_HOME=" + os.Getenv("XDG_STATE_HOME")
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", state, "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		// its agents keep books outside the repository, and verify reads them
		"DESCARTES_SANDBOX=off", "DESCARTES_BASELINE=off"}, more...)
}

func (f *field) git(t *testing.T, args ...string) string {
	t.Helper()
	r, err := proc.Output(context.Background(), proc.Call{Argv: append([]string{"git"}, args...), Dir: f.root,
		Env: fieldEnv()})
	if err != nil || r.Code != 0 {
		t.Fatalf("git %s: exit %d, %v\n%s%s", strings.Join(args, " "), r.Code, err, r.Stdout, r.Stderr)
	}
	return string(r.Stdout) + string(r.Stderr)
}

// program builds the real program, once, beside the test's own, in a folder that go test removes.
var program = sync.OnceValues(func() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(self), "descartes-under-test")
	r, err := proc.Output(context.Background(), proc.Call{Argv: []string{"go", "build", "-buildvcs=false", "-tags",
		fieldTags, "-o", path, "."}})
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("go build: %s", r.Stderr)
	}
	return path, err
})

// launched is one process of the program at work in a field.
type launched struct {
	f      *field
	argv   []string
	p      *os.Process
	stdout string
	stderr string
	began  time.Time
	ended  chan struct{}
	state  *os.ProcessState // once ended is closed
}

// begin starts the program with a loop command: start, resume.
func (f *field) begin(t *testing.T, verb string, env ...string) *launched {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	argv := []string{path, "loop", verb}
	if verb == "resume" {
		argv = append(argv, "--json")
	} else {
		argv = append(argv, f.flags...)
	}
	return f.launch(t, argv, fieldEnv(append(env, f.env...)...))
}

// launch starts the program.
func (f *field) launch(t *testing.T, argv, env []string) *launched {
	t.Helper()
	f.runs++
	var err error
	base := fmt.Sprintf("%s/run-%d.", f.aside, f.runs)
	r := &launched{f: f, argv: argv, stdout: base + "out", stderr: base + "err", ended: make(chan struct{})}
	var files [3]*os.File
	for i, name := range []string{os.DevNull, r.stdout, r.stderr} {
		if files[i], err = os.OpenFile(name, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600); err != nil {
			t.Fatal(err)
		}
		defer files[i].Close()
	}
	r.began = time.Now()
	r.p, err = os.StartProcess(argv[0], argv, &os.ProcAttr{Dir: f.root, Env: env, Files: files[:]})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.ended)
		r.state, _ = r.p.Wait()
	}()
	t.Cleanup(func() { // a failed test leaves none behind
		_ = r.p.Kill()
		<-r.ended
	})
	return r
}

// patience is how long anything may take on a machine that has other things to do.
const patience = 5 * time.Minute

// wait waits for the end and returns the exit status, or minus the number of the signal.
func (r *launched) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-r.ended:
	case <-time.After(patience):
		_ = r.p.Signal(syscall.SIGQUIT)
		<-r.ended
		t.Fatalf("the program did not end:\n%s", r.errors(t))
	}
	if ws, ok := r.state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		r.f.killed = true
		return -int(ws.Signal())
	}
	r.f.killed = false
	return r.state.ExitCode()
}

func (r *launched) alive() bool {
	select {
	case <-r.ended:
		return false
	default:
		return true
	}
}

func (r *launched) errors(t *testing.T) string { return readText(t, r.stderr) }

// announced are the tasks of which the run said on stdout that they are done.
func (r *launched) announced(t *testing.T) (done []string) {
	for line := range strings.Lines(readText(t, r.stdout)) {
		var e journal.Event
		if strings.HasSuffix(line, "\n") && json.Unmarshal([]byte(line), &e) == nil && e.Type == journal.TaskDone {
			done = append(done, e.Task)
		}
	}
	return done
}

const crashToken = "tok-0123456789-abcdef"

// leaks lists the files of the loops and of their slots that have the secret.
func (f *field) leaks(t *testing.T) (found []string) {
	t.Helper()
	for _, dir := range []string{f.root + "/.descartes", launch.PoolOf(f.root)} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && strings.Contains(readText(t, path), crashToken) {
				found = append(found, path)
			}
			return err
		})
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	return found
}

func readText(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(b)
}

// note is a line of the ledger: start, end or verified.
type note struct {
	what, task string
	attempt    int
}

func (f *field) ledger(t *testing.T) (notes []note) {
	t.Helper()
	for line := range strings.Lines(readText(t, f.aside+"/ledger")) {
		var n note
		if k, err := fmt.Sscanf(line, "%s %s %d\n", &n.what, &n.task, &n.attempt); k != 3 {
			t.Fatalf("ledger: %q: %v", line, err)
		}
		notes = append(notes, n)
	}
	return notes
}

// until waits for a condition to come true.
func until(t *testing.T, what string, true func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !true(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// carriers are the processes that carry the mark of this field's loops.
func (f *field) carriers(t *testing.T) (found []string) {
	t.Helper()
	var marks [][]byte
	for _, name := range []string{"", "/slot-1", "/slot-2", "/slot-3", "/slot-4"} {
		marks = append(marks, []byte(proc.CookieVar+"="+launch.Cookie(f.root+name)+"\x00"))
	}
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		b, err := os.ReadFile(path)
		if err == nil && slices.ContainsFunc(marks, func(mark []byte) bool { return bytes.Contains(b, mark) }) {
			name, _ := os.ReadFile(filepath.Dir(path) + "/cmdline")
			found = append(found, filepath.Dir(path)+" "+string(bytes.ReplaceAll(name, []byte{0}, []byte{' '})))
		}
	}
	return found
}

// checkFiles holds what must be true whenever no run is alive, killed or not: the task file, the
// state and the journal can be read.
func (f *field) checkFiles(t *testing.T) *tasks.File {
	t.Helper()
	file, err := tasks.Open(f.root, "t")
	if err != nil {
		t.Errorf("the task file does not parse: %v", err)
		return nil
	}
	all, err := store.NewHome(f.root).List()
	if err != nil {
		t.Error(err)
	}
	for _, s := range all {
		if s.Err != nil {
			t.Errorf("the state does not parse: %v", s.Err)
			continue
		}
		if _, err := journal.ReadEvents(store.NewHome(f.root).Events(s.State.ID)); err != nil {
			t.Errorf("the journal does not parse: %v", err)
		}
	}
	return file
}

// journal is what all loops of the field recorded, loop by loop.
func (f *field) journal(t *testing.T) (events []journal.Event) {
	t.Helper()
	paths, err := filepath.Glob(f.root + "/.descartes/runs/*/events.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		e, err := journal.ReadEvents(p)
		if err != nil {
			t.Error(err)
		}
		events = append(events, e...)
	}
	return events
}

// over reports whether the field's loop has ended for good.
func (f *field) over(t *testing.T) bool {
	t.Helper()
	all, err := store.NewHome(f.root).List()
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(all, func(s store.Saved) bool { return s.State != nil && s.State.Completed })
}

// promise records in the ledger what the run had announced as done, and what it had verified where no two tasks meet:
// that is not made again.
func (f *field) promise(t *testing.T, r *launched) {
	t.Helper()
	var b strings.Builder
	for _, id := range r.announced(t) {
		b.WriteString("verified " + id + " 0\n")
	}
	for _, e := range f.journal(t) {
		if e.Type == journal.TaskDone || f.plan.apart && len(f.plan.meeting)+len(f.plan.clashing) == 0 &&
			e.Verdict == journal.Verified {
			b.WriteString("verified " + e.Task + " 0\n")
		}
	}
	ledger, err := os.OpenFile(f.aside+"/ledger", os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err == nil {
		_, err = ledger.WriteString(b.String())
	}
	if err == nil {
		err = ledger.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// goOn chooses between the two ways to take a killed loop up again. Before its state is written
// there is none to resume.
func (f *field) goOn(t *testing.T, k int) string {
	t.Helper()
	if _, err := os.Stat(store.NewHome(f.root).Default()); err != nil || k%2 == 0 {
		return "start"
	}
	return "resume"
}

// randomFlags give a task so many attempts that kills alone do not use them up.
func randomFlags() []string { return []string{"--max-attempts", "12", "--max-iterations", "1000"} }

// checkEnd holds what must be true at the end, whatever happened on the way.
func (f *field) checkEnd(t *testing.T) {
	t.Helper()
	until(t, "the end of everything that carries the mark", func() bool { return len(f.carriers(t)) == 0 })
	f.checkStatuses(t)
	f.checkLedger(t)
	f.checkRepository(t)
	f.checkCommits(t)
	f.checkReceipts(t)
	f.checkLeavings(t)
}

// checkReceipts: each task that a commit says it holds has one receipt on that commit, with which nothing is wrong.
func (f *field) checkReceipts(t *testing.T) {
	t.Helper()
	noted := map[string]string{}
	for line := range strings.Lines(f.git(t, "notes", "--ref", "descartes", "list")) {
		blob, on, _ := strings.Cut(strings.TrimSpace(line), " ")
		noted[on] = f.git(t, "cat-file", "blob", blob)
	}
	for on := range strings.FieldsSeq(f.git(t, "log", "--format=%H", "--grep=^Descartes-Task: ")) {
		claims, err := receipt.Claims(on, strings.TrimSpace(f.git(t, "rev-parse", on+"^{tree}")), []byte(noted[on]))
		if err != nil {
			t.Errorf("the note on %.12s: %v", on, err)
		}
		var have []string
		for _, c := range claims {
			if have = append(have, c.Receipt.Task); len(c.Problems) > 0 {
				t.Errorf("the receipt of task %s on %.12s: %q", c.Receipt.Task, on, c.Problems)
			}
		}
		want := strings.Fields(f.git(t, "log", "-1", "--format=%(trailers:key=Descartes-Task,valueonly)", on))
		for i, task := range want {
			want[i] = filepath.Base(task) // behind its tag
		}
		slices.Sort(have)
		if slices.Sort(want); !slices.Equal(have, want) {
			t.Errorf("commit %.12s holds the tasks %v and has receipts of %v", on, want, have)
		}
		// what is said of the run comes later
		if saved := readText(t, filepath.Join(f.root, ".descartes", "receipts", on+".jsonl")); !strings.HasPrefix(
			noted[on], saved) {
			t.Errorf("the copy of the note on %.12s says something else", on)
		}
	}
}

func (f *field) checkStatuses(t *testing.T) {
	t.Helper()
	done, blocked, held := f.plan.outcome()
	file := f.checkFiles(t)
	if file == nil {
		return
	}
	want := map[string]tasks.Status{}
	for _, id := range done {
		want[id] = tasks.Done
	}
	for _, id := range blocked {
		want[id] = tasks.Blocked
	}
	for _, id := range held {
		want[id] = tasks.Pending
	}
	for _, one := range file.Tasks() {
		if one.Status != want[one.ID] {
			t.Errorf("task %s is %s, want %s", one.ID, one.Status, want[one.ID])
		}
	}
}

// checkLedger: each attempt starts once and ends at most once, and nothing runs a verified task again.
func (f *field) checkLedger(t *testing.T) {
	t.Helper()
	seen, verified := map[note]int{}, map[string]bool{}
	_, _, held := f.plan.outcome()
	for _, n := range f.ledger(t) {
		seen[n]++
		switch {
		case n.what == "start" && verified[n.task]:
			t.Errorf("task %s was verified and its agent ran again, as attempt %d", n.task, n.attempt)
		case n.what == "start" && slices.Contains(held, n.task):
			t.Errorf("the held task %s was started", n.task)
		case n.what == "verified":
			verified[n.task] = true
		}
	}
	for n, times := range seen {
		if (n.what == "start" || n.what == "end") && times > 1 {
			t.Errorf("%s of task %s attempt %d: %d times", n.what, n.task, n.attempt, times)
		}
	}
}

func (f *field) checkRepository(t *testing.T) {
	t.Helper()
	if out := f.git(t, "fsck", "--strict", "--no-dangling", "--no-progress"); out != "" {
		t.Errorf("git fsck says:\n%s", out)
	}
	if out := f.git(t, "status", "--porcelain"); out != f.dirty {
		t.Errorf("git status says:\n%swant:\n%s", out, f.dirty)
	}
	if got := readText(t, f.root+"/cache/kept"); got != "the user's\n" {
		t.Errorf("the user's ignored file holds %q", got)
	}
	done, _, _ := f.plan.outcome()
	var want []string
	for _, id := range done {
		want = append(want, "work-"+id+".txt")
	}
	slices.Sort(want)
	got := strings.Fields(f.git(t, "ls-tree", "--name-only", "HEAD"))
	got = slices.DeleteFunc(got, func(s string) bool { return !strings.HasPrefix(s, "work-") })
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("HEAD holds the work %v, want %v", got, want)
	}
	if bad := f.git(t, "grep", "-c", "", "HEAD", "--", "work-*"); strings.Count(bad, "\n") != len(want) ||
		strings.Contains(bad, ":0") {
		t.Errorf("HEAD holds empty work:\n%s", bad)
	}
	for _, id := range done {
		if text := readText(t, f.root+"/work-"+id+".txt"); text != "good "+id+"\n" {
			t.Errorf("the work of task %s is %q", id, text)
		}
	}
}

// checkCommits: one commit for each wave, and each done task in exactly one.
func (f *field) checkCommits(t *testing.T) {
	t.Helper()
	log := f.git(t, "log", "--reverse",
		"--format=%(trailers:key=Descartes-Wave,valueonly,separator=%x20)|%(trailers:key=Descartes-Task,valueonly,separator=%x20)", "HEAD")
	lines := strings.Split(strings.TrimSpace(log), "\n")[1:] // the first is the user's
	var waves, of []string
	for _, line := range lines {
		wave, ids, _ := strings.Cut(line, "|")
		waves = append(waves, wave)
		for id := range strings.FieldsSeq(ids) {
			of = append(of, filepath.Base(id)) // behind its tag
		}
	}
	var want []string
	for w := 1; w <= f.plan.size/f.plan.width; w++ {
		want = append(want, fmt.Sprint(w))
	}
	if f.plan.slots > 0 { // the commit of an earlier wave may hold all that there is of a later one
		waves = slices.Compact(waves)
		want = slices.DeleteFunc(want, func(w string) bool { return !slices.Contains(waves, w) })
	}
	if !slices.Equal(waves, want) {
		t.Errorf("the commits are of the waves %v, want %v", waves, want)
	}
	done, _, _ := f.plan.outcome()
	slices.Sort(of)
	slices.Sort(done)
	if !slices.Equal(of, done) {
		t.Errorf("the commits hold the tasks %v, want %v", of, done)
	}
}

// checkLeavings: no lock and no temporary file is left where somebody would stumble over it.
func (f *field) checkLeavings(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(f.root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(f.root, path)
		name := e.Name()
		switch {
		// locks of the working tree are never unlinked
		case rel == ".git/descartes-loop", strings.HasPrefix(rel, ".git/descartes-tags"):
		case strings.HasPrefix(rel, ".git/") && (strings.HasSuffix(name, ".lock") ||
			strings.HasPrefix(name, "descartes-") && !f.killed),
			strings.Contains(name, ".tmp-"):
			t.Errorf("%s is left", rel)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// fieldPlan is a tag of size tasks in waves of width: task i depends on task i-width.
type fieldPlan struct {
	size, width int
	flaky       []int // fail verification once
	refused     []int // their agent says TASK_BLOCKED
	hopeless    []int // never pass verification
	strays      []int // leave a process behind
	committers  []int // commit by themselves
	stagers     []int // put their work into the index
	apart       bool  // no two of them write the same file, but for these:
	meeting     []int // add a line to the end of the same file
	clashing    []int // two that do not go together, unless one of them knows of the other
	hanging     []int // hang once
	slots       int   // that it runs in; 0: in the user's tree
}

// smallPlan has four waves, each with something that ends well.
func smallPlan() fieldPlan {
	return fieldPlan{size: 12, width: 3, flaky: []int{1, 7}, refused: []int{5}, strays: []int{4}, committers: []int{6},
		stagers: []int{5, 10}}
}

// largePlan has five waves.
func largePlan() fieldPlan {
	return fieldPlan{size: 50, width: 10, flaky: []int{3, 14, 27, 38}, refused: []int{12}, hopeless: []int{25},
		strays: []int{9, 31}, committers: []int{14}, stagers: []int{25}}
}

// outcome is the state that a plan must end in: done, blocked and held tasks.
func (p fieldPlan) outcome() (done, blocked, held []string) {
	fate := make([]string, p.size+1)
	for i := 1; i <= p.size; i++ {
		switch {
		case i > p.width && fate[i-p.width] != "done":
			fate[i] = "held"
			held = append(held, strconv.Itoa(i))
		case slices.Contains(p.refused, i) || slices.Contains(p.hopeless, i):
			fate[i] = "blocked"
			blocked = append(blocked, strconv.Itoa(i))
		default:
			fate[i] = "done"
			done = append(done, strconv.Itoa(i))
		}
	}
	return done, blocked, held
}

func (p fieldPlan) taskFile() []byte {
	type task struct {
		ID        int    `json:"id"`
		Title     string `json:"title"`
		Status    string `json:"status"`
		DependsOn []int  `json:"depends_on"`
	}
	var list []task
	for i := 1; i <= p.size; i++ {
		t := task{ID: i, Title: "Part " + strconv.Itoa(i), Status: "pending", DependsOn: []int{}}
		if i > p.width {
			t.DependsOn = append(t.DependsOn, i-p.width)
		}
		list = append(list, t)
	}
	b, err := json.MarshalIndent(map[string]any{"tag": "t", "tasks": list}, "", "  ")
	if err != nil {
		panic(err)
	}
	return append(b, '\n')
}

// alternatives are tasks as a pattern of the shell.
func alternatives(lists ...[]int) string {
	words := []string{"none"}
	for _, id := range slices.Concat(lists...) {
		words = append(words, strconv.Itoa(id))
	}
	return strings.Join(words, "|")
}

// agentScript writes a line before and after its work, and its work over that of earlier attempts.
// Its last act is the line: nothing that it does is lost once that is written.
func (p fieldPlan) agentScript() string {
	return `aside=$1 t=$DESCARTES_TASK_ID n=$DESCARTES_ATTEMPT
echo "start $t $n" >>"$aside/ledger"
while [ -e "$aside/hold" ]; do sleep 0.02; done
work="good $t"
case $t in
` + alternatives(p.flaky) + `) if [ ! -e "$aside/failed-$t" ]; then : >"$aside/failed-$t"; work=bad; fi ;;
` + alternatives(p.hopeless) + `) work=bad ;;
esac
case $t in ` + alternatives(p.strays) + `) sleep 300 & ;; esac
case $t in ` + alternatives(p.hanging) + `) if [ ! -e "$aside/hung-$t" ]; then : >"$aside/hung-$t"; sleep 300; fi ;; esac
case $t in ` + alternatives(p.meeting) + `) sed -i '/^[<=>]/d' shared.txt; grep -qx "$t" shared.txt || echo "$t" >>shared.txt ;; esac
case $t in ` + alternatives(p.clashing) + `) for c in ` + strings.Trim(fmt.Sprint(p.clashing), "[]") + `; do [ $c = $t ] || [ ! -e work-$c.txt ] || : >fixed.txt; done ;; esac
echo "$work" >"work-$t.txt"
` + map[bool]string{false: "echo \"$t\" >shared.txt"}[p.apart] + `
case $t in ` + alternatives(p.stagers) + `) git add . ;; esac
case $t in ` + alternatives(p.committers) + `) git add . && git commit -q -m "mine" ;; esac
case $t in
` + alternatives(p.refused) + `) echo "TASK_BLOCKED: this cannot be done" ;;
*) echo "<promise>COMPLETE</promise>" ;;
esac
echo "end $t $n" >>"$aside/ledger"
`
}
