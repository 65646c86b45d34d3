package gitops

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Two tasks were verified, the first of them is committed, the user had changes of his own: what an attempt then
// does, and what of that is undone (-, restored) or reported as deleted (?).
var undoneRows = []struct{ name, attempt, losses string }{
	{"nothing", "true", ""},
	{"work goes on", "echo more >>one; echo more >>f; echo more >>two; echo more >>mine; echo x >new", ""},
	{"stash", "git stash -q -u", "-dropped -f -gone -mine -two -untracked"},
	{"reset", "git reset -q --hard", "-dropped -f -gone -mine"},
	{"checkout", "git checkout -q .", "-dropped -f -gone -mine"},
	{"clean", "git clean -fdq", "-two -untracked"},
	{"a file of the user's removed", "rm untracked", "-untracked"},
	{"a committed file deleted", "rm one", "?one"},
	{"all verified files deleted", "rm one two", "-two ?one"},
	{"an uncommitted one of several deleted", "rm two; git checkout -q f", "-f -two"},
	{"moved", "mkdir d; mv two d/two", ""},
	{"moved and changed", "(cat two; echo more) >three; rm two", ""},
	{"one commit back", "git reset -q --hard HEAD~1", "-dropped -f -gone -mine -one -src/x.go"},
	{"on an older commit", "git checkout -q -f -b x HEAD~1", "-dropped -f -gone -mine -one -src/x.go"},
	{"the files of an older commit", "git checkout -q HEAD~1 -- .", "-dropped -f -gone -mine -src/x.go"},
	{"the files of a commit from before the run", "git checkout -q HEAD~2 -- .", "-dropped -f -gone -mine -src/x.go"},
	{"what verified work deleted is back", "git show HEAD:dropped >dropped", "-dropped"},
	{"the user's deletion is undone", "git show HEAD:gone >gone", "-gone"},
	{"the agent commits", "echo more >>one; rm src/x.go; git add -A; git commit -qm own", ""},
	{"a verified change taken over", "git show HEAD:f >f; echo else >>f", ""},
}

func TestUndone(t *testing.T) {
	t.Parallel()
	for _, tt := range undoneRows {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, r := start(t)
			s.sh("echo old >mine; echo old >dropped; echo old >gone; git add -A; git commit -qm older; echo newer >>mine; echo newer >>f; git commit -qam old")
			s.sh("echo mine >>mine; echo mine >untracked; rm gone") // the user's
			begin := snap(t, r)
			var v Verified
			s.sh("echo one >one; echo 1 >>one; echo one >>src/x.go")
			first := snap(t, r)
			s.sh("git add one src/x.go; git commit -qm 'wave 1'")
			before := snap(t, r)
			s.sh("echo two >two; echo 2 >>two; echo two >>f; rm dropped")
			second := snap(t, r)
			for _, w := range []struct {
				name string
				base Tree
				res  Tree
			}{{"task 1", begin, first}, {"task 2", before, second}} {
				if err := r.AddVerified(&v, w.name, w.base, w.res); err != nil {
					t.Fatal(err)
				}
			}
			v.Committed([]string{"task 1"})
			g, err := r.Guard(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			s.sh(tt.attempt)
			repaired, err := g.Repair(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			losses, err := r.Undone(t.Context(), snap(t, r), Protected{Before: second, Base: second, Work: &v, Users: []string{"gone", "mine", "untracked"}, Back: repaired.Back})
			if err != nil {
				t.Fatal(err)
			}
			var got, paths []string
			for _, l := range losses {
				mark := "-"
				if l.Deleted {
					mark = "?"
				} else {
					paths = append(paths, l.Path)
				}
				got = append(got, mark+l.Path)
				if want := map[string]string{"one": "[task 1]", "src/x.go": "[task 1]", "f": "[task 2]", "two": "[task 2]", "dropped": "[task 2]"}[l.Path]; want != "" && fmt.Sprint(l.Of) != want {
					t.Errorf("%s is of %v", l.Path, l.Of)
				}
			}
			want := strings.Fields(tt.losses)
			slices.Sort(got)
			if slices.Sort(want); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
			if _, err := r.RestorePaths(t.Context(), second, paths); err != nil {
				t.Fatal(err)
			}
			left, err := r.Undone(t.Context(), snap(t, r), Protected{Before: second, Base: second, Work: &v, Users: []string{"gone", "mine", "untracked"}})
			if err != nil || slices.ContainsFunc(left, func(l Loss) bool { return !l.Deleted }) {
				t.Errorf("after that %v is undone, %v", left, err)
			}
			s.check()
		})
	}
}
