package gitops

import (
	"os"
	"strings"
	"testing"
)

const inner = `git init -q ../in; echo n >../in/n; git -C ../in add n; git -C ../in commit -qmin
git init -q ../lib; echo 1 >../lib/f; echo '*.o' >../lib/.gitignore; git -C ../lib add .; git -C ../lib submodule --quiet add $PWD/../in x/in; git -C ../lib commit -qm1
git submodule --quiet add $PWD/../lib deep/lib; git submodule --quiet update --init --recursive; git commit -qm2`

// Whatever an agent does in a submodule of its slot: what it committed is in the user's module, the rest is named, the
// user's working trees are as they were, and the next attempt finds the tree's commits.
func TestSlotModules(t *testing.T) {
	t.Parallel()
	template := newSandbox(t)
	template.sh("export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=protocol.file.allow GIT_CONFIG_VALUE_0=always; " +
		slotBase + "; " + inner)
	for name, c := range map[string]struct{ user, agent, edited, lost, subject string }{
		"nothing": {"", "git -C deep/lib status; cat deep/lib/x/in/n", "", "", "1"},
		"commit":  {"", "cd deep/lib; echo 2 >>f; git commit -qam2", "", "", "2"},
		"linked tree": {"; git worktree add -q ../linked", "cd deep/lib; git commit --allow-empty -qm2", "", "",
			"2"},
		"deinit": {"; git submodule --quiet deinit -f --all", "cd deep/lib; git commit --allow-empty -qm2", "",
			"", "2"},
		"a branch": {"", "cd deep/lib; git switch -qc mine; git commit --allow-empty -qm2; git gc -q; git pack-refs --all", "", "", "2"},
		"an older one": {"", "git -C deep/lib commit --amend -qmnewer; git -C deep/lib reset -q --hard HEAD@{1}", "",
			"", "1"},
		"ignored":       {"", "echo o >deep/lib/o.o", "", "", "1"},
		"edit":          {"", "echo 2 >>deep/lib/f", "deep/lib", "", "1"},
		"new file":      {"", "echo 2 >deep/lib/g", "deep/lib", "", "1"},
		"staged":        {"", "cd deep/lib; echo 2 >>f; git commit -qam2; echo 3 >g; git add g", "deep/lib", "", "2"},
		"nested commit": {"", "git -C deep/lib/x/in commit --allow-empty -qm3", "deep/lib", "", "1"},
		"nested edit":   {"", "echo 2 >>deep/lib/x/in/n", "deep/lib/x/in", "", "1"},
		"moved":         {"", "git mv deep/lib here; git -C here commit --allow-empty -qm2", "", "", "2"},
		"moved, edited": {"", "git mv deep/lib here; echo 2 >>here/f", "here", "", "1"},
		"no .git":       {"", "rm -rf deep/lib/.git", "", "", "1"},
		"no .git, edit": {"", "rm -rf deep/lib/.git; echo 2 >>deep/lib/f", "deep/lib", "", "1"},
		"no objects": {"", "git -C deep/lib commit --allow-empty -qm2; rm -r deep/lib/.git/objects/??", "",
			"deep/lib", ""},
		"broken commit": {"", "cd deep/lib; git commit --allow-empty -qm2; o=.git/objects/$(git rev-parse HEAD | sed 's,..,&/,'); chmod +w $o; echo >$o", "", "deep/lib", ""},
		"a link":        {"", "mv deep away; ln -s ../.. deep", "", "", ""},
		"removed":       {"", "git rm -qf deep/lib", "", "", ""},
		"a file":        {"", "rm -rf deep/lib; echo >deep/lib", "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.sh("cp -a " + template.dir + "/. ." + c.user)
			if name == "linked tree" {
				s.dir += "/../linked"
			}
			r, err := Open(t.Context(), Options{Dir: s.dir, Env: s.env})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { r.Close() })
			const mineIs = "cat deep/lib/f || true; git -C deep/lib rev-parse HEAD || true; git status --short"
			slot, in := prepared(t, s, r)
			if l := slot.EmptyModules(); len(l) > 0 {
				t.Fatalf("the slot lacks %v", l)
			}
			mine := s.sh(mineIs)
			in.sh("set -e; " + c.agent)
			tree, err := slot.Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			edited, lost, err := slot.Modules(t.Context(), tree, "refs/descartes/l/modules/",
				func(string) bool { return false })
			if err != nil || paths(edited) != c.edited || paths(lost) != c.lost {
				t.Errorf("got %v, lost %v (%v); want %q, %q", edited, lost, err, c.edited, c.lost)
			}
			if now := s.sh(mineIs); now != mine {
				t.Errorf("the user's are %s, were %s", now, mine)
			}
			at, err := r.view(tree).file("deep/lib")
			if name == "moved" {
				at, err = r.view(tree).file("here")
			}
			if err == nil && c.subject != "" && at.mode != 0 {
				dir := strings.TrimSpace(
					s.sh("for d in .git/modules/deep/lib deep/lib/.git ../repo/.git/modules/deep/lib; do test -d $d && echo $d; done | head -n 1"))
				if got := s.git("--git-dir="+dir, "log", "-1", "--format=%s",
					at.id); strings.TrimSpace(got) != c.subject {
					t.Errorf("the module has %q", got)
				}
				s.git("--git-dir="+dir, "fsck", "--no-dangling")
			}
			for _, e := range edited {
				if e.Why == "" {
					t.Errorf("%s is not kept", e.Path)
				}
			}
			prepare(t, r, slot, "", false)
			if got := in.sh("cat deep/lib/f deep/lib/x/in/n; git -C deep/lib status --short; git -C deep/lib log -1 --format=%s; git status --short"); got != "1\nn\n1\n" {
				t.Errorf("the next attempt finds %q", got)
			}
			if fi, err := os.Lstat(slot.Tree() + "/deep"); err != nil || !fi.IsDir() {
				t.Error("the link stays")
			}
		})
	}
}

func paths(list []LeftOut) string {
	var out []string
	for _, x := range list {
		out = append(out, x.Path)
	}
	return strings.Join(out, " ")
}
