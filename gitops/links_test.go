package gitops

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// Whatever in the git directory an agent makes a link, nothing outside is written: not by Repair, not by the commit after it, not at the end. Where a
// link stays in the way the refusal names it, and after what its hint says the work goes on.
func TestNothingFollowsLinks(t *testing.T) {
	t.Parallel()
	files := strings.Fields("AUTO_MERGE COMMIT_EDITMSG FETCH_HEAD HEAD MERGE_MSG ORIG_HEAD descartes-changed descartes-index descartes-loop descartes-run descartes-snapshot " +
		"description gc.log index index.lock info/exclude logs/HEAD logs/refs/heads/main logs/refs/notes/descartes packed-refs refs/descartes/x refs/heads/main refs/notes/descartes shallow")
	folders := strings.Fields("descartes-changed descartes-index descartes-run info logs logs/refs logs/refs/descartes logs/refs/heads logs/refs/notes objects objects/info objects/pack " +
		"refs refs/descartes refs/heads refs/heads/deep refs/notes worktrees")
	for i, place := range append(files, folders...) {
		victim := "victim/file"
		if i >= len(files) {
			victim = "victim/folder"
		}
		t.Run(victim+" "+place, func(t *testing.T) {
			t.Parallel()
			s := newTwin(t, &scenario{setup: "mkdir -p .git/hooks; printf '#!/bin/sh\\n' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; git update-ref refs/descartes/l/1/1 HEAD"})
			s.sh("mkdir -p ../victim/folder; echo mine >../victim/file")
			r, err := s.open("", gitProgram(t))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if err := r.Claim(); err != nil {
				t.Fatal(err)
			}
			base := mustSnapshot(t, r)
			g, err := r.Guard(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			at := s.path(".git/" + place)
			s.sh(fmt.Sprintf("cp -r .git ../saved; echo work >work; mkdir -p %s; rm -rf %s; ln -s $PWD/../%s %[2]s", path.Dir(at), at, victim))
			_, err = g.Repair(t.Context())
			if err != nil {
				var no *RefusedError
				if !errors.As(err, &no) {
					t.Fatalf("got %v, want a refusal", err)
				}
				if top, _, _ := strings.Cut(place, "/"); slices.ContainsFunc(written, func(name string) bool { ok, _ := path.Match(name, top); return ok }) {
					if !strings.Contains(no.Reason, ".git/"+place+" is a link") || !strings.HasPrefix(no.Hint, "rm "+at) {
						t.Errorf("got %q, hint %q", no.Reason, no.Hint)
					}
					if _, err := r.cli.word(t.Context(), "", "version"); !errors.Is(err, r.cli.barred) {
						t.Errorf("git runs although a link stands in its way: %v", err)
					}
				}
				s.sh("rm " + at + "; test ! -e ../saved/" + place + " || cp -r ../saved/" + place + " " + at)
				if _, err := g.Repair(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if _, err := r.CommitWave(t.Context(), Wave{Message: "wave", Results: []Pair{{Base: base, Result: mustSnapshot(t, r)}}}); err != nil {
				t.Error(err)
			}
			if err := r.DropGuard(); err != nil {
				t.Error(err)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			s.sh(`test "$(cat ../victim/file; ls -A ../victim/folder)" = mine`)
		})
	}
}

// Links that a layout has from the start are no agent's.
func TestLayoutsWithLinks(t *testing.T) {
	t.Parallel()
	s := newTwin(t, &scenario{})
	s.sh("mkdir ../store; for d in logs objects packed-refs refs; do test ! -e .git/$d || mv .git/$d ../store; ln -s $PWD/../store/$d .git/$d; done; : >>../store/packed-refs")
	r, err := s.open("", gitProgram(t))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for range 2 {
		g, err := r.Guard(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.sh("echo more >>f")
		if repaired, err := g.Repair(t.Context()); err != nil || len(repaired.Notes) > 0 {
			t.Fatalf("got %q, %v", repaired.Notes, err)
		}
	}
	if _, err := os.Lstat(s.path(".git/refs")); err != nil {
		t.Error(err)
	}
}

// What an agent left is refused at the next start too, before git runs.
func TestLinksAtTheStart(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"COMMIT_EDITMSG", "descartes-run", "refs/notes"} {
		s := newTwin(t, &scenario{})
		s.sh("mkdir -p ../victim; rm -rf .git/" + place + "; ln -s $PWD/../victim .git/" + place)
		r, err := s.open("", gitProgram(t))
		if err != nil {
			t.Fatal(err)
		}
		var no *RefusedError
		if err := r.Claim(); !errors.As(err, &no) || !strings.Contains(no.Reason, ".git/"+place+" is a link") {
			t.Errorf("%s: got %v", place, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
