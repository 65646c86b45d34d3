package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// laws checks what holds after every night.
func (n *night) laws() {
	defer n.log.Close()
	status := n.statuses()
	done := map[int]bool{}
	for _, t := range n.tasks {
		switch s := status[t.ID]; s {
		case "done":
			done[t.ID] = true
			if t.fails {
				n.bad("task %d fails always, and is done", t.ID)
			}
		case "pending", "blocked", "in-progress":
		default:
			n.bad("task %d is %q in the list", t.ID, s)
		}
	}
	n.named(done)
	n.verified()
	if n.mode != "clones" { // where what was not pushed went with its clone, and nobody works
		n.onlyOnce()
		n.usersFiles()
		n.usersRepository()
		n.followed()
	}
	n.ending(done)
	n.leftOver()
}

// named: who is done is named by one commit, nobody by two, and a commit brings the work of those whom it names. What
// the user amended counts once.
func (n *night) named(done map[int]bool) {
	switch n.mode {
	case "no-commit":
		n.apart(done, "refs/heads/descartes/t")
		return
	case "branch":
		n.apart(done, "refs/heads/nightly")
	}
	by := map[int][]string{}
	for line := range strings.Lines(n.git("log", "--exclude=descartes/before-rewind-*", "--branches",
		"--format=%H %P|%(trailers:key=Descartes-Task,valueonly,separator=%x20)")) {
		commits, trailers, _ := strings.Cut(strings.TrimSpace(line), "|")
		hash, parents, _ := strings.Cut(commits, " ")
		names := map[int]bool{}
		for f := range strings.FieldsSeq(trailers) {
			id, _ := strconv.Atoi(filepath.Base(f)) // behind its tag
			by[id], names[id] = append(by[id], hash), true
		}
		brings := n.works(hash)
		for _, p := range strings.Fields(parents) {
			for id := range n.works(p) {
				delete(brings, id)
			}
		}
		if !maps.Equal(names, brings) && len(strings.Fields(parents)) < 2 && !n.user.took {
			n.bad("commit %.9s names tasks %v and brings the work of %v", hash, sorted(names), sorted(brings))
		}
	}
	for _, t := range n.tasks {
		switch of := by[t.ID]; {
		case n.user.took:
		case len(of) > 1:
			n.bad("task %d is named by %d commits: %.9s", t.ID, len(of), of)
		case done[t.ID] != (len(of) == 1) && n.exit() != 5:
			n.bad("task %d: done %v, commits %.9s", t.ID, done[t.ID], of)
		case len(of) == 1:
			for branch := range strings.FieldsSeq(n.git("branch", "--format=%(refname)", "--contains", of[0])) {
				if !n.works(branch)[t.ID] {
					n.bad("%s has the commit %.9s of task %d and not its work", branch, of[0], t.ID)
				}
			}
		}
	}
}

// apart: one branch has the work of all that is done, and no other branch has any.
func (n *night) apart(done map[int]bool, own string) {
	for branch := range strings.FieldsSeq(n.git("for-each-ref", "--format=%(refname)", "refs/heads")) {
		has := n.works(branch)
		switch {
		case branch != own && len(has) > 0:
			n.bad("%s has the work of %v, which goes to %s", branch, sorted(has), own)
		case branch == own && !maps.Equal(has, done):
			n.bad("%s has the work of %v, and %v are done", branch, sorted(has), sorted(done))
		case branch == own:
			done = nil
		}
	}
	if len(done) > 0 {
		n.bad("no branch has the work of all that is done: %v", sorted(done))
	}
}

// works are the tasks whose work a commit's tree has.
func (n *night) works(commit string) map[int]bool {
	has := map[int]bool{}
	for name := range strings.FieldsSeq(n.git("ls-tree", "--name-only", commit, "work/")) {
		id, _ := strconv.Atoi(filepath.Base(name))
		if text := n.git("show", commit+":"+name); strings.HasPrefix(text+"\n", fmt.Sprintf("task %d\n", id)) {
			has[id] = true
		}
	}
	return has
}

func sorted(ids map[int]bool) []int { return slices.Sorted(maps.Keys(ids)) }

// verified: each of the run's commits passes the checks by itself.
func (n *night) verified() {
	for hash := range strings.FieldsSeq(n.git("log", "--branches", "--format=%H", "--grep=^Descartes-Wave: ")) {
		dir := filepath.Join(n.top, "tree-"+hash)
		cmd := exec.Command("sh", "-c", "mkdir -p $1 && git archive $0 | tar x -C $1 && cd $1 && sh tools/verify.sh",
			hash, dir)
		cmd.Dir, cmd.Env = n.dir, n.env
		if out, err := cmd.CombinedOutput(); err != nil && !n.user.took {
			n.bad("commit %.9s does not pass: %v: %s", hash, err, out)
			continue
		}
		_ = os.RemoveAll(dir)
	}
}

// onlyOnce: no agent starts for a task that the journal says is done.
func (n *night) onlyOnce() {
	type event struct {
		Type, Task string
		Tasks      []string
		TS         time.Time
	}
	since := map[string]time.Time{}
	var events []event
	journals, _ := filepath.Glob(filepath.Join(n.dir, ".descartes/runs/*/events.ndjson"))
	for _, name := range journals {
		text, _ := os.ReadFile(name)
		for line := range bytes.Lines(text) {
			var e event
			if json.Unmarshal(line, &e) == nil {
				events = append(events, e)
			}
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return a.TS.Compare(b.TS) })
	for _, e := range events {
		switch e.Type {
		case "task_done":
			since[e.Task] = e.TS
		case "loop_rewound":
			for _, id := range e.Tasks {
				delete(since, id)
			}
		}
	}
	text, _ := os.ReadFile(filepath.Join(n.top, "ledger"))
	for line := range strings.Lines(string(text)) {
		var at int64
		var id string
		_, err := fmt.Sscan(line, &at, &id)
		if done, ok := since[id]; err == nil && ok && time.Unix(0, at).After(done) {
			n.bad("an agent of task %s started %v after it was done", id, time.Unix(0, at).Sub(done))
		}
	}
}

// usersFiles: every byte that he wrote is there, in the index, too.
func (n *night) usersFiles() {
	for name, text := range n.user.files {
		if now, _ := os.ReadFile(filepath.Join(n.dir, name)); string(now) != text {
			n.bad("the user's %s has %.40q, not %.40q", name, now, text)
		}
	}
	if n.user.moved {
		return
	}
	staged := map[string]string{}
	for line := range strings.Lines(n.git("ls-files", "-s", "user")) {
		if f := strings.Fields(line); len(f) == 4 {
			staged[f[3]] = f[1]
		}
	}
	if !maps.Equal(staged, n.user.staged) {
		n.bad("the index has %v below user, not %v", staged, n.user.staged)
	}
}

// usersRepository: objects, refs, stashes, commits and settings are there, and there are no branches that nobody made.
func (n *night) usersRepository() {
	if out, err := n.try("fsck", "--full", "--no-dangling", "--no-progress"); err != nil || out != "" {
		n.bad("git fsck: %.300s", out)
	}
	now := n.git("show-ref")
	for ref := range strings.Lines(n.refs) {
		if ref = strings.TrimSpace(ref); !strings.Contains(now, ref) && !strings.HasSuffix(ref, " refs/heads/main") &&
			!strings.HasSuffix(ref, " refs/stash") {
			n.bad("%s is gone or moved", ref)
		}
	}
	for branch := range strings.FieldsSeq(n.git("for-each-ref", "--format=%(refname:short)", "refs/heads")) {
		if branch != "main" && branch != "side" && branch != "descartes/t" && branch != "descartes/u" && (n.mode != "branch" || branch != "nightly") && !strings.HasPrefix(branch, "user-") &&
			(n.mode != "rewind" || !strings.HasPrefix(branch, "descartes/before-rewind-")) {
			n.bad("the branch %s is new", branch)
		}
	}
	if got := n.git("stash", "list", "--format=%H"); !slices.Equal(strings.Fields(got), reversed(n.user.stashes)) {
		n.bad("git stash has %.9s, not %.9s", strings.Fields(got), reversed(n.user.stashes))
	}
	for _, c := range append(n.user.commits, n.base) {
		if n.git("branch", "--contains", c) == "" {
			n.bad("the user's commit %.9s is on no branch", c)
		}
	}
	if got := n.git("config", "--local", "--list"); got != n.settings {
		n.bad("the settings were %q and are %q", n.settings, got)
	}
}

func reversed(list []string) []string {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

// followed: where nobody was in the way, the user's files are those of the branch, but for what is his.
func (n *night) followed() {
	if n.user.rough || n.mode == "tags" || n.exit() != 0 && n.exit() != 3 { // of two runs one is in the other's way
		return
	}
	for line := range strings.Lines(n.git("status", "--porcelain", "-uall")) {
		name := strings.Trim(strings.TrimSpace(line), " MADRC?")
		if _, his := n.user.files[name]; !his && (name != list || n.mode != "no-commit" && n.mode != "branch") {
			n.bad("git status: %s", strings.TrimSpace(line))
		}
	}
	if n.mode != "no-commit" && n.git("rev-parse", "-q", "--verify", "refs/heads/descartes/t") != "" {
		n.bad("there is a branch descartes/t, and nobody was in the way")
	}
}

func (n *night) exit() int { return n.codes[len(n.codes)-1] }

// ending: exit code 0 says that all is done.
func (n *night) ending(done map[int]bool) {
	if all := len(done) == len(n.tasks); n.mode != "step" && n.mode != "tags" && (n.exit() == 0) != all && n.exit() != 5 {
		n.bad("exit %d, with %d of %d tasks done", n.exit(), len(done), len(n.tasks))
	}
}

// leftOver: no process, no lock.
func (n *night) leftOver() {
	left := n.own()
	for end := time.Now().Add(5 * time.Second); len(left) > 0 && time.Now().Before(end); left = n.own() {
		time.Sleep(100 * time.Millisecond)
	}
	if len(left) > 0 {
		n.bad("processes are left: %v", left)
		n.killAll(left, nil)
	}
	globs := []string{filepath.Join(n.dir, ".scud/tasks/*tmp*"), filepath.Join(n.dir, ".scud/tasks/.*")}
	for _, of := range []string{"--absolute-git-dir", "--git-common-dir"} {
		git := n.git("rev-parse", of)
		if !filepath.IsAbs(git) {
			git = filepath.Join(n.dir, git)
		}
		for _, glob := range []string{"*.lock", "refs/*/*.lock", "index.*"} {
			globs = append(globs, filepath.Join(git, glob))
		}
	}
	for _, glob := range globs {
		if found, _ := filepath.Glob(glob); len(found) > 0 {
			n.bad("left over: %v", found)
		}
	}
}
