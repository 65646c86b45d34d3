package gitops

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// slotOf opens a slot of a repository, in the repository's own ignored folder.
func slotOf(t *testing.T, s *sandbox, r *Repo) *Slot {
	t.Helper()
	s.put(".descartes/.gitignore", "*\n")
	slot, err := r.OpenSlot(t.Context(), SlotOptions{Dir: s.path(".descartes/pool/1"),
		Objects: s.path(".descartes/pool/objects")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slot.Close() })
	return slot
}

// prepared is a slot at HEAD, and a shell in it.
func prepared(t *testing.T, s *sandbox, r *Repo) (*Slot, *sandbox) {
	t.Helper()
	slot := slotOf(t, s, r)
	prepare(t, r, slot, "", false)
	in := *s
	in.dir = slot.Tree()
	return slot, &in
}

func prepare(t *testing.T, r *Repo, slot *Slot, tree Tree, fresh bool) Head {
	t.Helper()
	head, err := r.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if tree == "" {
		if tree, err = r.HeadTree(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := slot.Prepare(t.Context(), head, tree, fresh); err != nil {
		t.Fatal(err)
	}
	return head
}

const slotBase = `git init -q .; printf '*.log\nbuild/\n' >.gitignore; echo one >a; mkdir d; echo two >d/b; git add .; git commit -qm first
git branch other; git tag v1; git remote add origin ../elsewhere.git; git config filter.mine.clean cat`

func TestSlotIsTheRepository(t *testing.T) {
	t.Parallel()
	for name, setup := range map[string]string{
		"plain":    slotBase,
		"packed":   slotBase + "; git pack-refs --all; git gc -q",
		"detached": slotBase + "; git checkout -q --detach",
		"shallow":  slotBase + "; echo 2 >>a; git commit -qam second; git clone -q --depth 1 file://$PWD ../shallow; rm -rf .git; mv ../shallow/.git .git",
		"borrowed": slotBase + "; git clone -q --shared . ../borrower; mv .git ../lender.git; echo \"$(cd ..; pwd)/lender.git/objects\" >../borrower/.git/objects/info/alternates; mv ../borrower/.git .git",
		"linked":   slotBase + "; mv $PWD ../main; git -C ../main worktree add -q -b side $PWD",
		"sparse":   slotBase + "; git sparse-checkout set d",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.sh(setup)
			r := s.reopen(".descartes/")
			slot, in := prepared(t, s, r)
			if out := in.git("status", "--porcelain"); out != "" {
				t.Errorf("git status in the slot: %s", out)
			}
			for _, args := range [][]string{{"log", "--format=%H %D"},
				{"for-each-ref", "--format=%(refname) %(objectname)", "refs/heads", "refs/tags"}, {"ls-files", "-s"},
				{"rev-parse", "--symbolic-full-name", "HEAD"}} {
				if want, got := s.git(args...), in.git(args...); want != got {
					t.Errorf("git %s: got %s want %s", strings.Join(args, " "), got, want)
				}
			}
			in.git("fsck", "--connectivity-only")
			in.sh("echo changed >>a; echo new >n; rm d/b; echo x >x.log")
			tree := snap(t, slot.Repo)
			if want := in.gitTree(); string(tree) != want {
				t.Errorf("snapshot: got %s want %s", tree, want)
			}
			if got := s.git("ls-tree", "--name-only", string(tree)); got != ".gitignore\na\nn\n" {
				t.Errorf("the snapshot is not the repository's: %s", got)
			}
			s.check()
		})
	}
}

func TestSlotIsUsedAgain(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.sh(slotBase)
	r := s.reopen(".descartes/")
	slot, in := prepared(t, s, r)
	in.sh("git checkout -q -b mine; echo s >a; git stash -q; echo 1 >a; mkdir build; echo o >build/o; echo l >x.log; git init -q inner; echo i >inner/i; mkdir u; echo u >u/u; chmod 500 u; rm -r d; ln -s / d; echo 'u/' >>.gitignore; git config alias.st status")
	first := snap(t, slot.Repo)
	prepare(t, r, slot, "", false)
	if got, want := in.git("status", "--porcelain", "--ignored"), "!! build/\n!! x.log\n"; got != want {
		t.Errorf("prepared again: got %q want %q", got, want)
	}
	if got := in.git("rev-parse", "--abbrev-ref", "HEAD"); got != "main\n" {
		t.Errorf("branch: %s", got)
	}
	if out, code := in.tryGit("config", "alias.st"); code == 0 {
		t.Errorf("an earlier agent's setting lives on: %s", out)
	}
	prepare(t, r, slot, first, true) // the next attempt of a task goes on from its files
	if got, want := snap(t, slot.Repo), first; got != want {
		t.Errorf("tree: got %s want %s", got, want)
	}
	if got := in.git("status", "--porcelain", "--ignored"); strings.Contains(got, "!!") ||
		!strings.Contains(got, "M .gitignore") {
		t.Errorf("prepared fresh on the first attempt's tree: %q", got)
	}
}

// An agent's .git is data: what it configures never runs, its commits are brought, and the next attempt finds none of
// it.
func TestSlotCommits(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.sh(slotBase)
	r := s.reopen(".descartes/")
	slot, in := prepared(t, s, r)
	if tip, err := slot.Commits(t.Context(), "refs/descartes/x/1/1", slot.Tip(t.Context())); tip != "" || err != nil {
		t.Errorf("no commits: got %q %v", tip, err)
	}
	trap := s.home + "/sprung"
	in.sh("echo more >>a; git commit -qam mine; git checkout -q -b wander; echo w >w; git add w; git commit -qm wandered; git rev-parse HEAD >../tip; git gc -q\n" +
		"printf '#!/bin/sh\\ntouch " + trap + "\\n' >.git/trap; chmod +x .git/trap; mkdir -p .git/hooks\n" +
		"for h in pre-commit post-index-change reference-transaction post-checkout pre-auto-gc; do cp .git/trap .git/hooks/$h; done\n" +
		"git config core.fsmonitor $PWD/.git/trap; git config uploadpack.packObjectsHook $PWD/.git/trap; git config core.alternateRefsCommand $PWD/.git/trap\n" +
		"git config filter.evil.clean $PWD/.git/trap; git config filter.evil.smudge $PWD/.git/trap; git config filter.mine.clean $PWD/.git/trap; echo 'a filter=evil' >.git/info/attributes\n" +
		"git config core.hooksPath $PWD/.git/hooks; git config core.worktree /; git config extensions.partialClone origin; git config remote.origin.promisor true; git config remote.origin.url \"ext::$PWD/.git/trap\"\n" +
		"rm -f " + trap)
	b, err := os.ReadFile(filepath.Join(filepath.Dir(slot.Tree()), "tip"))
	if err != nil {
		t.Fatal(err)
	}
	tip := strings.TrimSpace(string(b))
	got, err := slot.Commits(t.Context(), "refs/descartes/x/1/1", slot.Tip(t.Context()))
	if err != nil || got != tip {
		t.Fatalf("commits: got %q %v, want %s", got, err, tip)
	}
	snap(t, slot.Repo)
	prepare(t, r, slot, "", false)
	if _, err := os.Lstat(trap); err == nil {
		t.Error("something that the agent configured was run")
	}
	if got := s.git("log", "--format=%s", "refs/descartes/x/1/1"); got != "wandered\nmine\nfirst\n" {
		t.Errorf("brought: %s", got)
	}
	s.check()
	if got := s.git("for-each-ref", "--format=%(refname)",
		"refs/heads"); got != "refs/heads/main\nrefs/heads/other\n" {
		t.Errorf("branches: %s", got)
	}
}

// Whether git is asked or not, the tip is the commit at which HEAD is, and refs of attempts are not the agent's to
// see.
func TestSlotTip(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"untouched":       "git status",
		"commit":          "echo 1 >a; git commit -qam x",
		"packed":          "echo 1 >a; git commit -qam x; git pack-refs --all --prune",
		"another branch":  "git checkout -q other; echo 1 >>a; git commit -qam x",
		"detached":        "git checkout -q --detach; echo 1 >a; git commit -qam x",
		"back":            "echo 1 >a; git commit -qam x; git reset -q --hard HEAD~1",
		"branch is moved": "echo 1 >a; git update-ref refs/heads/main $(git commit-tree -m x HEAD^{tree})",
		"no branch":       "git update-ref -d refs/heads/main",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.sh(slotBase + "\ngit update-ref refs/descartes/x/1/1 HEAD")
			slot, in := prepared(t, s, s.reopen(".descartes/"))
			in.sh(script)
			in.sh("git rev-parse --verify --quiet HEAD >../tip || :")
			want, err := os.ReadFile(filepath.Join(filepath.Dir(slot.Tree()), "tip"))
			if err != nil {
				t.Fatal(err)
			}
			if got := slot.Tip(t.Context()); got != strings.TrimSpace(string(want)) {
				t.Errorf("got %s, want %s", got, want)
			}
			if refs := in.git("for-each-ref", "refs/descartes"); refs != "" {
				t.Errorf("refs in the slot: %s", refs)
			}
		})
	}
}

func TestSlotDestroyed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		script string
		broken bool // the slot has to be made anew
	}{
		"no .git":            {script: "rm -rf .git"},
		".git is a file":     {script: "rm -rf .git; echo 'gitdir: /' >.git"},
		".git is a link":     {script: "rm -rf .git; ln -s ../../../../.git .git"},
		"objects lost":       {script: "echo 1 >a; git commit -qam x; find .git/objects -type f -name '??????????????????????????????????????' -delete"},
		"objects forged":     {script: "echo 1 >a; git commit -qam x; for f in $(find .git/objects -type f -name '??????????????????????????????????????'); do chmod +w $f; cp .git/index $f; done"},
		"another's .git":     {script: "git init -q ../other; echo $PWD/../other/.git >.git/commondir"},
		"a FIFO for HEAD":    {script: "rm .git/HEAD; mkfifo .git/HEAD"},
		"closed folders":     {script: "mkdir -p u/v; chmod 000 u/v; chmod 000 .git/hooks"},
		"everything removed": {script: "rm -rf .git * .gitignore"},
		"tree replaced":      {script: "cd ..; mv tree gone; mkdir tree", broken: true},
		"tree gone":          {script: "cd ..; rm -rf tree", broken: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.sh(slotBase)
			r := s.reopen(".descartes/")
			before := s.git("for-each-ref", "--format=%(refname) %(objectname)", "refs/heads", "refs/tags")
			slot, in := prepared(t, s, r)
			in.sh(tt.script)
			if tip, err := slot.Commits(t.Context(), "refs/descartes/x/1/1", slot.Tip(t.Context())); !errors.Is(err,
				ErrNoRepository) && (!tt.broken && name != "closed folders" || err == nil && tip != "") {
				t.Errorf("commits: got %q %v", tip, err)
			}
			head, err := r.Head(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			tree, _ := r.HeadTree(t.Context())
			err = slot.Prepare(t.Context(), head, tree, false)
			if _, broken := errors.AsType[*BrokenSlotError](err); broken != tt.broken {
				t.Fatalf("prepare: %v", err)
			}
			if tt.broken {
				slot.Close()
				if err := os.RemoveAll(filepath.Dir(slot.Tree())); err != nil {
					t.Fatal(err)
				}
				slot = slotOf(t, s, r)
				prepare(t, r, slot, "", false)
			}
			if out := in.git("status", "--porcelain"); out != "" {
				t.Errorf("git status: %s", out)
			}
			if now := s.git("for-each-ref", "--format=%(refname) %(objectname)", "refs/heads",
				"refs/tags"); now != before {
				t.Errorf("refs: got %s want %s", now, before)
			}
			if out := s.git("status", "--porcelain"); out != "" {
				t.Errorf("the user's tree: %s", out)
			}
			s.check()
		})
	}
}

// A push from a slot fails, by whatever name the remote goes, and nothing of the user's moves.
func TestSlotPush(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.sh(slotBase + "; git init -q --bare ../elsewhere.git; git config --add remote.origin.pushurl ../elsewhere.git; git push -q origin main")
	r := s.reopen(".descartes/")
	_, in := prepared(t, s, r)
	in.sh("echo 1 >a; git commit -qam mine")
	out, code := in.tryGit("push", "origin", "main")
	if code == 0 || !strings.Contains(out, "collected and not pushed") {
		t.Errorf("push: exit %d: %s", code, out)
	}
	if got, want := s.git("-C", "../elsewhere.git", "rev-parse", "main"), s.git("rev-parse", "main"); got != want {
		t.Errorf("the remote moved: %s", got)
	}
}

// A login in a remote's URL is not the agent's to read; the user's own settings keep it.
func TestSlotRemoteLogin(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.sh(slotBase + "; git remote set-url origin https://me:hunter2@host.test/x.git; git remote add other https://t0ken@host.test/y.git; git config branch.main.remote ssh://git:hunter2@host.test/z.git")
	r := s.reopen(".descartes/")
	_, in := prepared(t, s, r)
	out := in.git("config", "--list")
	if strings.Contains(out, "hunter2") || strings.Contains(out, "t0ken") ||
		!strings.Contains(out, "remote.origin.url=https://host.test/x.git") {
		t.Errorf("the slot's settings: %s", out)
	}
	if out := s.git("config", "remote.origin.url"); !strings.Contains(out, "me:hunter2@") {
		t.Errorf("the user's settings: %s", out)
	}
}

func TestMergingNeedsNewerGit(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.sh(slotBase)
	r := s.reopen(".descartes/")
	r.cli.version = Version{2, 37}
	if refused, ok := errors.AsType[*VersionError](r.CanMerge()); !ok ||
		!strings.Contains(refused.Error(), "is git 2.37; git 2.38 or newer is needed for several agents at a time") {
		t.Errorf("got %v", r.CanMerge())
	}
}

// A wave is committed in a slot, with the user's hooks and identity, and the user's branch and clean files follow.
func TestSlotCommitsAWave(t *testing.T) {
	t.Parallel()
	for _, hooks := range []bool{false, true} {
		t.Run(fmt.Sprint("hooks ", hooks), func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.sh(slotBase + "; mkdir .scud; echo pending >.scud/t.json; git add .; git commit -qm tasks")
			if hooks {
				s.sh("mkdir -p .git/hooks; printf '#!/bin/sh\ncat a n >../ran\ngit diff --cached --name-only >>../ran\n' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit")
			}
			s.sh("echo mine >d/b; echo u >untracked; echo done >.scud/t.json")
			r := s.reopen(".descartes/", ".scud/")
			if hooks {
				r.opt.Hooks, r.byGit = "outside", "hooks"
			}
			slot, in := prepared(t, s, r)
			in.sh("echo changed >a; echo new >n; echo report >left")
			tree, err := r.TreeWith(t.Context(), snap(t, slot.Repo), headTree(t, r), []string{"left"})
			if err != nil {
				t.Fatal(err)
			}
			head := prepare(t, r, slot, tree, false)
			done, err := slot.CommitWave(t.Context(), Wave{Message: "feat(x): complete wave 1", Tree: tree,
				On:    head.Hash,
				Files: map[string][]byte{".scud/t.json": []byte("done\n")}})
			if err != nil {
				t.Fatal(err)
			}
			if now, _ := r.Head(t.Context()); now != head {
				t.Errorf("the user's branch moved before: %v", now)
			}
			left, err := forward(t, r, head.Hash, done.Hash, false)
			if err != nil || len(left) > 0 {
				t.Fatalf("forward: %v %v", left, err)
			}
			if got := s.git("show", "--format=%an %s", "--name-only",
				"HEAD"); got != "A U Thor feat(x): complete wave 1\n\n.scud/t.json\na\nn\n" {
				t.Errorf("the commit: %q", got)
			}
			if got := s.git("status", "--porcelain"); got != " M d/b\n?? .descartes/\n?? untracked\n" &&
				got != " M d/b\n?? untracked\n" {
				t.Errorf("the user's tree: %q", got)
			}
			if b, err := os.ReadFile(filepath.Dir(slot.Tree()) + "/ran"); hooks != (err == nil) || hooks &&
				string(b) != "changed\nnew\n.scud/t.json\na\nn\n" {
				t.Errorf("the hook: %q %v", b, err)
			}
			s.check()
		})
	}
}

func headTree(t *testing.T, r *Repo) Tree {
	t.Helper()
	tree, err := r.HeadTree(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// TestSlotSeesEdits: no setting of the user's, and no mark that one left, hides an edit from a snapshot.
func TestSlotSeesEdits(t *testing.T) {
	t.Parallel()
	const sameTimeAndSize = // a second later: git does not look closer
	"touch -r a ../time; s=$(date +%s); while test $(date +%s) = $s; do sleep 0.05; done; echo eno >a; touch -r ../time a"
	for setting, edit := range map[string]string{
		"core.ignoreStat true":      "echo edit >a",
		"core.checkStat minimal":    sameTimeAndSize,
		"core.trustctime false":     sameTimeAndSize,
		"core.untrackedCache true":  "echo edit >new",
		"status.showUntracked no":   "echo edit >new",
		"core.sparseCheckout true":  "echo edit >new",
		"feature.manyFiles true":    "echo edit >d/new",
		"diff.ignoreSubmodules all": "echo edit >a",
	} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.sh(slotBase + "; touch -t 202401020304 a; git config " + setting)
			r := s.reopen(".descartes/")
			slot, in := prepared(t, s, r)
			was := snap(t, slot.Repo)
			in.sh(edit)
			if snap(t, slot.Repo) == was {
				t.Errorf("the snapshot lacks the edit")
			}
			prepare(t, r, slot, "", false)
			if got := snap(t, slot.Repo); got != was {
				t.Errorf("the next attempt starts from %s, want %s", got, was)
			}
		})
	}
	t.Run("marks of an older run", func(t *testing.T) {
		t.Parallel()
		s := newSandbox(t)
		s.sh(slotBase)
		r := s.reopen(".descartes/")
		slot, _ := prepared(t, s, r)
		was := snap(t, slot.Repo)
		if _, err := slot.cli.run(t.Context(), gitCall{args: []string{"update-index", "--assume-unchanged", "a"}}); err != nil {
			t.Fatal(err)
		}
		if err := slot.Close(); err != nil {
			t.Fatal(err)
		}
		slot, in := prepared(t, s, s.reopen(".descartes/"))
		in.sh("echo edit >a")
		if snap(t, slot.Repo) == was {
			t.Errorf("the snapshot lacks the edit")
		}
	})
}

// What an agent makes of its .git leads to no other repository of the user's: nothing of it is read, named or stored.
func TestSlotLinksLeadNowhere(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"links":      "for n in objects refs packed-refs; do rm -rf .git/$n; ln -s $VICTIM/$n .git/$n; done; echo ref: refs/heads/main >.git/HEAD",
		"alternates": "echo $VICTIM/objects >.git/objects/info/alternates; cat $VICTIM/refs/heads/main >.git/HEAD",
		"a gitfile":  "rm -rf .git; echo gitdir: $VICTIM >.git",
		"commondir":  "echo $VICTIM >.git/commondir",
		"a link":     "rm -rf .git; ln -s $VICTIM .git",
		"packs":      "rm -rf .git/objects/pack; ln -s $VICTIM/objects/pack .git/objects/pack; cat $VICTIM/refs/heads/main >.git/HEAD",
		"FIFO":       "rm -rf .git; mkfifo .git",
		"FIFO logs":  "rm -rf .git/logs; mkfifo .git/logs",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.sh(slotBase + "\ngit init -q -b main ../victim; cd ../victim; echo secret >s; git add s; git commit -qm secret; git gc -q")
			slot, in := prepared(t, s, s.reopen(".descartes/"))
			victim := filepath.Join(filepath.Dir(s.dir), "victim", ".git")
			in.sh("VICTIM=" + victim + "; " + strings.ReplaceAll(script, "$VICTIM/refs/heads/main", "$VICTIM/packed-refs | sed -n 's/ refs.*//p'"))
			secret := strings.TrimSpace(s.git("--git-dir="+victim, "rev-parse", "main"))
			tip := slot.Tip(t.Context())
			if _, err := slot.Below(t.Context(), tip); err != nil {
				t.Error(err)
			}
			got, err := slot.Commits(t.Context(), "refs/descartes/x/1/1", tip)
			if got != "" || name != "FIFO logs" && !errors.Is(err, ErrNoRepository) {
				t.Errorf("commits: got %q %v", got, err)
			}
			if slot.has(t.Context(), secret) {
				t.Error("the other repository's commit is here")
			}
		})
	}
}

// What git cannot store, or waits for, is the fault of the attempt that left it; the slot's next state has none of it.
func TestSlotUnstorable(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"FIFO of rules":     "mkdir s; mkfifo s/.gitignore",
		"FIFO of attrs":     "mkfifo .gitattributes",
		"rules without end": "truncate -s 300M .gitignore",
		"encoding":          "printf '* working-tree-encoding=UTF-16 text\\n' >.gitattributes; echo x >x",
		"nested HEAD":       "mkdir -p n/.git/refs n/.git/objects; mkfifo n/.git/HEAD",
		"nested commondir":  "mkdir -p n/.git/refs n/.git/objects; echo ref: refs/heads/x >n/.git/HEAD; mkfifo n/.git/commondir",
		"endless commondir": "mkdir -p n/.git/refs n/.git/objects; echo ref: refs/heads/x >n/.git/HEAD; ln -s /dev/zero n/.git/commondir",
		"sparse commondir":  "mkdir -p n/.git/refs n/.git/objects; echo ref: refs/heads/x >n/.git/HEAD; truncate -s 900G n/.git/commondir",
		"its git file":      "mkdir -p g/refs g/objects n; echo ref: refs/heads/x >g/HEAD; mkfifo g/commondir; echo gitdir: ../g >n/.git",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.sh(slotBase)
			r := s.reopen(".descartes/")
			slot, in := prepared(t, s, r)
			in.sh(script)
			_, err := slot.Snapshot(t.Context())
			if _, is := errors.AsType[*UnstorableError](err); !is {
				t.Errorf("snapshot: got %v", err)
			}
			prepare(t, r, slot, "", false)
			if out := in.git("status", "--porcelain"); out != "" {
				t.Errorf("git status: %s", out)
			}
		})
	}
	t.Run("a file without end", func(t *testing.T) {
		t.Parallel()
		s := newSandbox(t)
		s.sh(slotBase)
		slot, in := prepared(t, s, s.reopen(".descartes/"))
		in.sh("truncate -s 200G big; echo fine >fine")
		if _, err := slot.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left, _ := slot.LeftOut(time.Time{}); len(left) != 1 || left[0].Path != "big" {
			t.Errorf("left out: %v", left)
		}
	})
}
