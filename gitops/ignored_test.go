package gitops

import (
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Whatever an attempt did, a restore deletes and changes no file that was ignored when the attempt began.
func TestRestoreSparesIgnoredFiles(t *testing.T) {
	t.Parallel()
	const users = `echo secret >k.log; mkdir -p build/deep venv; echo o >build/deep/o; echo '*' >venv/.gitignore; echo lib >venv/lib; printf '/private\n/own/\n' >>.git/info/exclude
echo p >private; mkdir own; echo '/hidden' >own/.gitignore; echo h >own/hidden; echo old >docs/old`
	const still = `test "$(cat k.log build/deep/o venv/lib private own/hidden docs/old)" = "$(printf 'secret\no\nlib\np\nh\nold')"`
	for _, tt := range []struct{ name, attempt, holds, left string }{
		{"staged by force", "git add -f -A; echo half >half.txt", still, ""},
		{"staged by force and committed", "git add -f -A; git commit -qm all", still, ""},
		{"rules removed", "rm .gitignore; echo half >half.txt", still, ""},
		{"rules removed and all staged", "rm .gitignore; git add -f -A; echo half >half.txt", still, ""},
		{"rules deleted from the index", "git rm -q .gitignore; git commit -qm 'no rules'", still, ""},
		{"rules turned round", "echo '!*' >.gitignore; echo '!k.log' >docs/.gitignore", still, ""},
		{"rules are a folder", "rm .gitignore; mkdir .gitignore; echo x >.gitignore/x", still, ""},
		{"rules are a link", "rm .gitignore; echo '!*' >docs/rules; ln -s docs/rules .gitignore", still, ""},
		{"rules that hide themselves", "rm venv/.gitignore own/.gitignore", still, "venv/lib"},
		{"other rules of the repository", ": >.git/info/exclude; git add -A", still, ""},
		{"another case", "mv .gitignore .GitIgnore; mv docs Docs", still + "; test ! -e Docs", ""},
		{"moved folders", "mv src lib; mv docs lib/docs; mv build lib/out", strings.ReplaceAll(still, "build/deep", "lib/out/deep") + "; test -f src/a/y.go; test ! -e lib/x.go; test ! -e lib/docs", "lib/out/deep/o"},
		{"changed and uncovered", "echo more >>k.log; rm .gitignore", `test "$(cat k.log)" = "$(printf 'secret\nmore')"; test -f build/deep/o`, ""},
		{"uncovered folder touched", "rm .gitignore; find build -exec touch {} +", still, ""},
		{"a folder in the place of a file", "mv k.log t; mkdir k.log; mv t k.log/t; git add -f k.log; rm .gitignore", "test \"$(cat k.log/t)\" = secret; test -f build/deep/o", ""},
		{"a nested rule", "printf '!*.log\\n!build/\\n' >>.gitignore; echo '!o' >build/.gitignore; git add -A", still, ""},
	} {
		for _, way := range bothWays[:2] {
			t.Run(tt.name+" "+way.name, func(t *testing.T) {
				t.Parallel()
				s, r := openBothWays(t, way.setup, users)
				base := mustSnapshot(t, r)
				began := Now()
				for info, err := statPath(s.path("docs/old")); !olderThan(info, began) && err == nil; began = Now() {
					runtime.Gosched()
				}
				g, err := r.Guard(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				s.sh(tt.attempt + "; echo new >brand-new; mkdir -p fresh; echo 2 >fresh/f; echo changed >f")
				if _, err := g.Repair(t.Context()); err != nil {
					t.Fatal(err)
				}
				mustSnapshot(t, r)
				done, err := r.Restore(t.Context(), base, began)
				var want []LeftOut
				if tt.left != "" {
					want = []LeftOut{{tt.left, "it is older than the attempt, and was in no snapshot"}}
				}
				if err != nil || !slices.Equal(done.Left, want) {
					t.Errorf("restored %+v, %v, want %v left", done, err, want)
				}
				s.sh(tt.holds + "; test ! -e brand-new; test ! -e fresh; test ! -e half.txt; test \"$(cat f)\" = one; test \"$(cat .gitignore)\" = \"$(printf '*.log\\nbuild/')\"")
				if !slices.Contains(done.Back, "f") || !slices.Contains(done.Removed, "brand-new") {
					t.Errorf("restored %+v", done)
				}
				if now := mustSnapshot(t, r); now != base && tt.left == "" {
					t.Errorf("the next snapshot differs:\n%s", s.git("diff", "--name-status", string(base), string(now)))
				}
			})
		}
	}
}
