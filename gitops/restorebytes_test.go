package gitops

import (
	"testing"
	"time"
)

// What the user had not committed comes back byte for byte, whatever git would make of it on a checkout.
func TestRestoreGivesBackTheBytes(t *testing.T) {
	t.Parallel()
	for name, setup := range map[string]string{
		"text=auto":      "echo '* text=auto' >.gitattributes",
		"eol=crlf":       "echo '* text eol=crlf' >.gitattributes",
		"autocrlf":       "git config core.autocrlf true",
		"autocrlf=input": "git config core.autocrlf input",
		"ident":          "echo '* ident' >.gitattributes",
		"filter":         "git config filter.up.clean 'tr a-z A-Z'; git config filter.up.smudge cat; echo '* filter=up' >.gitattributes",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t)
			s.sh(base + setup + "; git add .; git commit -qm 2 || true")
			s.sh(`printf 'one\r\ntwo\r\n' >f; printf 'one\ntwo\n' >docs/d.md; printf '$Id$ a\r\nb\n' >new; printf '$Id: mine $' >src/x.go; mkdir deep; cp new deep/new; chmod 600 new
				mkdir ../kept; cp -a f docs src new deep ../kept`)
			r := s.reopen()
			first := snap(t, r)
			s.sh("echo agent >f; rm docs/d.md new; rm -r deep; echo agent >>src/x.go")
			snap(t, r)
			if done, err := r.Restore(t.Context(), first, time.Time{}); err != nil || len(done.Left) > 0 || len(done.Back) != 5 {
				t.Fatalf("restored %+v, %v", done, err)
			}
			s.sh("for f in f docs/d.md new src/x.go deep/new; do cmp $f ../kept/$f; done")
			if again := snap(t, r); again != first {
				t.Errorf("the snapshot is %s, not %s", again, first)
			}
		})
	}
}
