package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// user works in the project while descartes runs there, and remembers what is his.
type user struct {
	*night
	r       *rand.Rand
	works   bool
	rough   bool // gets in the run's way: edits what agents edit, amends, switches branches, prunes
	files   map[string]string
	staged  map[string]string // blobs in the index
	commits []string          // each is to be on a branch at the end
	stashes []string
	met     bool // files of his may be in the way of the run's
	moved   bool // he switched branches or amended: the index and HEAD are his affair
	took    bool // he took away a commit of the run's

	stop, done chan struct{}
}

// save writes a file that is his.
func (u *user) save(name, text string) {
	u.write(name, text)
	u.files[name] = text
}

func (u *user) add(name string) {
	if _, err := u.try("add", name); err == nil {
		u.staged[name] = u.blob(name)
	}
}

func (u *user) blob(name string) string { return u.git("hash-object", "-w", name) }

// begin is what he has before the first run: a stash, ignored files, and uncommitted changes.
func (u *user) begin() {
	u.save("user/1.txt", "to stash\n")
	u.git("stash", "-q")
	u.files["user/1.txt"] = "user 1\n"
	u.stashes = append(u.stashes, u.git("rev-parse", "refs/stash"))
	u.save("mine.ign", "ignored\n")
	u.save("ignored/deep/x", "ignored, too\n")
	for k := 1; k <= 6; k++ {
		name := fmt.Sprintf("user/%d.txt", k)
		u.staged[name] = u.blob(name)
	}
	if !u.dirty {
		return
	}
	u.save("user/1.txt", "changed \x00\r\n")
	u.save("user/2.txt", "staged\n")
	u.add("user/2.txt")
	u.save("user/3.txt", "staged\n")
	u.add("user/3.txt")
	u.save("user/3.txt", "staged\nand not\n")
	u.save("mine.txt", "untracked\n")
	u.save("user/new.txt", "new\n")
	u.add("user/new.txt")
	_ = os.Remove(filepath.Join(u.dir, "user/4.txt"))
	u.files["user/4.txt"] = ""
}

func (u *user) start() {
	if !u.works || u.stop != nil {
		return
	}
	u.stop, u.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(u.done)
		for c := 1; ; c++ {
			select {
			case <-u.stop:
				return
			case <-time.After(time.Duration(50+u.r.IntN(450)) * time.Millisecond):
				u.act(c)
			}
		}
	}()
}

func (u *user) leave() {
	if u.stop != nil && u.works {
		close(u.stop)
		<-u.done
		u.works = false
	}
}

// act is one thing that he does. A git that another one kept from its work has done nothing.
func (u *user) act(c int) {
	acts := []string{"edit", "edit", "stage", "commit", "new", "stash"}
	if u.rough {
		acts = append(acts, "overlap", "collide", "switch", "back", "prune", "amend")
	}
	what, name, luck := pick(u.r, acts), fmt.Sprintf("user/%d.txt", 5+u.r.IntN(2)), u.r.IntN(100)
	other := pick(u.r, []string{"misc/1.txt", "misc/2.txt", "misc/crlf.txt", "calls/base"})
	work := fmt.Sprintf("work/%d", 1+u.r.IntN(len(u.tasks)))
	fmt.Fprintf(u.log, "[user: %s %s]\n", what, name)
	switch what {
	case "edit":
		u.save(name, fmt.Sprintf("edit %d\n", c))
	case "new":
		u.save(fmt.Sprintf("mine-%d.txt", c), "mine\n")
	case "stage":
		u.add(name)
	case "commit":
		u.save(name, fmt.Sprintf("commit %d\n", c))
		blob := u.blob(name)
		if _, err := u.try("commit", "-q", "-m", fmt.Sprintf("user %d", c), "--", name); err == nil {
			u.staged[name] = blob
			u.commits = append(u.commits, u.git("log", "--branches", "-1", "--format=%H",
				fmt.Sprintf("--grep=^user %d$", c)))
		}
	case "stash":
		u.save(name, fmt.Sprintf("stash %d\n", c))
		// where another git has the index it may fail after the stash was made
		_, _ = u.try("stash", "push", "-q", "--", name)
		if at := u.git("rev-parse", "refs/stash"); at != u.stashes[len(u.stashes)-1] {
			u.stashes = append(u.stashes, at)
			text, _ := os.ReadFile(filepath.Join(u.dir, name))
			u.files[name] = string(text)
			if at := u.blob(name); at == u.git("rev-parse", "HEAD:"+name) { // else it failed, and the index is as it was
				u.staged[name] = at
			}
		}
	case "overlap":
		if fi, err := os.Lstat(filepath.Join(u.dir, other)); err == nil && fi.Mode().IsRegular() && luck < 50 {
			u.met = true
			u.save(other, fmt.Sprintf("overlap %d\n", c))
		}
	case "collide":
		if _, err := os.Lstat(filepath.Join(u.dir, work)); err != nil && luck < 40 {
			u.met = true
			u.save(work, "the user has this\n")
		}
	case "switch":
		if luck < 50 {
			u.moved = true
			u.git("checkout", "-q", "-b", fmt.Sprintf("user-%d", c))
		}
	case "back":
		if _, err := u.try("checkout", "-q", "main"); err == nil { // what he committed elsewhere stays there
			for name := range u.files {
				if text, err := os.ReadFile(filepath.Join(u.dir, name)); err == nil {
					u.files[name] = string(text)
				}
			}
		}
	case "prune":
		if luck < 50 {
			u.git("gc", "-q", "--prune=now")
		}
	case "amend":
		last := len(u.commits) - 1
		if last < 0 || u.git("rev-parse", "HEAD") != u.commits[last] || luck >= 50 {
			return
		}
		u.moved = true
		if _, err := u.try("commit", "-q", "--amend", "--only", "--allow-empty", "-m",
			fmt.Sprintf("user %d amended", c)); err == nil {
			u.took = u.took || !strings.HasPrefix(u.git("log", "-1", "--format=%s", "HEAD@{1}"), "user ")
			u.commits[last] = u.git("rev-parse", "HEAD")
		}
	}
}

// tidy is what a person does when git refused: he looks for what the run kept, and merges it.
func (u *user) tidy() {
	u.git("checkout", "-q", "main")
	for _, ref := range strings.Fields(u.git("for-each-ref", "--format=%(refname)", "refs/descartes/*/trunk",
		"refs/heads/descartes/t")) {
		has := u.night.works("HEAD")
		if !slices.ContainsFunc(slices.Collect(maps.Keys(u.night.works(ref))), func(id int) bool { return !has[id] }) {
			continue // it is here, under the commits of the run
		}
		u.moved = true
		if _, err := u.try("merge", "-q", "--no-edit", ref); err != nil {
			u.git("merge", "--abort")
		}
	}
}
