package gitops

import (
	"os"
	"strings"
	"testing"
)

// The user's hooks run in a slot on a commit of its tree, wherever they lie, by git or by their path. Those in the
// project are as the commit has them with which a run began; what they stage stays, what they leave beside it goes.
func TestHooksInASlot(t *testing.T) {
	t.Parallel()
	const says = `printf '#!/bin/sh\n. "$(dirname "$0")/h"\n' >DIR/pre-commit; cat >DIR/h <<'H'
git diff --cached --name-only >$OUT; git ls-tree --name-only HEAD >>$OUT; cat a >>$OUT
echo staged >staged; git add staged; echo beside >beside
H
printf '#!/bin/sh\necho "$(cat "$1"), $2" >"$1"\n' >DIR/prepare-commit-msg; chmod +x DIR/*`
	for name, tt := range map[string]struct{ setup, agent string }{
		"in .git":  {setup: "mkdir -p .git/hooks; " + strings.ReplaceAll(says, "DIR", ".git/hooks")},
		"a folder": {setup: "mkdir ../mine; " + strings.ReplaceAll(says, "DIR", "../mine") + "; git config core.hooksPath $PWD/../mine"},
		"in the project": {setup: "mkdir .hooks; " + strings.ReplaceAll(says, "DIR", ".hooks") + "; git add .hooks; git commit -qm hooks; git config core.hooksPath .hooks",
			agent: "echo 'exit 1' | tee .hooks/pre-commit >.hooks/h"},
		"generated": {setup: "mkdir -p .hooks/_; echo '*' >.hooks/_/.gitignore; " + strings.ReplaceAll(says, "DIR", ".hooks/_") + "; git config core.hooksPath .hooks/_",
			agent: "mkdir -p .hooks/_; echo 'exit 1' >.hooks/_/h"},
		"a link": {setup: "mkdir -p .git/hooks tools; " + strings.ReplaceAll(says, "DIR", "tools") +
			"; git add tools; git commit -qm tools; cp tools/h .git/hooks; for h in pre-commit prepare-commit-msg; do ln -s ../../tools/$h .git/hooks/$h; done"},
	} {
		for _, old := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", by path"}[old], func(t *testing.T) {
				t.Parallel()
				s := newSandbox(t)
				s.sh(slotBase)
				s.sh("export OUT=../out; " + tt.setup)
				r := s.reopen()
				if old {
					r.cli.version = Version{2, 35}
				}
				if !r.ChecksWork() || !r.ChecksMessage() {
					t.Fatalf("hooks: %v", r.sees())
				}
				slot, in := prepared(t, s, r)
				began := slot.at.Hash
				in.sh("echo changed >a; echo new >n; " + tt.agent)
				tree := snap(t, slot.Repo)
				prepare(t, r, slot, tree, false)
				command, err := slot.PreCommitCommand(t.Context(), began, tree)
				if err != nil {
					t.Fatal(err)
				}
				in.sh("export OUT=$PWD/../out; mkdir -p sub; cd sub; " + command)
				got, _ := os.ReadFile(slot.Tree() + "/../out")
				if text := string(got); !strings.HasPrefix(text, map[bool]string{true: ".hooks", false: "a\nn\n"}[name == "in the project" || name == "generated"]) ||
					!strings.HasSuffix(text, "changed\n") {
					t.Errorf("it saw %q", text)
				}
				made := snap(t, slot.Repo)
				changes, err := r.Changed(t.Context(), tree, made)
				if err != nil || len(changes) != 1 || changes[0].Path != "staged" {
					t.Errorf("it made %v, %v", changes, err)
				}
				command, file, err := slot.MessageCommand(t.Context(), began, tree, "a message")
				if err != nil {
					t.Fatal(err)
				}
				in.sh(command)
				if b, _ := os.ReadFile(slot.Tree() + "/" + file); string(b) != "a message, message\n" {
					t.Errorf("the message is %q", b)
				}
				s.check()
			})
		}
	}
}
