package gitops

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// refValues is where refs stand: name to hash, or to "ref:" and a name for a symbolic one.
type refValues map[string]string

// watchedRefs are the refs that Guard lists. It leaves those out where attempts are kept: a run has as many as attempts.
var watchedRefs = []string{"refs/heads", "refs/tags", "refs/stash", "refs/remotes", "refs/notes", "refs/replace"}

// eachRefFile walks the files of refs but for ours.
func eachRefFile(l layout, visit func(path string, e fs.DirEntry) error) error {
	top := filepath.Join(l.commonDir, "refs")
	return filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil && missing(err):
			return nil
		case err != nil:
			return err
		case e.IsDir() && path == filepath.Join(top, "descartes"):
			return fs.SkipDir
		case e.IsDir():
			return nil
		}
		return visit(path, e)
	})
}

// listRefs asks git where the watched refs stand, and which of them it cannot read. Nothing is asked where git would
// wait for ever, or fill the memory.
func (r *Repo) listRefs(ctx context.Context) (refs refValues, broken []string, err error) {
	plain := func(path string, limit int64) error {
		if fi, err := os.Stat(path); err == nil && !fi.IsDir() && (!fi.Mode().IsRegular() || fi.Size() > limit) {
			return &RefusedError{Reason: fmt.Sprintf("%s is %s", path, errNotPlain), Hint: "rm " + path}
		}
		return nil
	}
	if err := plain(filepath.Join(r.l.commonDir, "packed-refs"), mostCopied); err != nil {
		return nil, nil, err
	}
	if err := eachRefFile(r.l, func(path string, _ fs.DirEntry) error { return plain(path, mostLoose) }); err != nil {
		return nil, nil, err
	}
	var warned string
	b, err := r.cli.run(ctx, gitCall{args: append([]string{"for-each-ref", "--format=%(refname) %(objectname) %(symref)"}, watchedRefs...), warned: &warned})
	if said, ok := errors.AsType[*gitError](err); ok {
		packed := filepath.Join(r.l.commonDir, "packed-refs")
		return nil, nil, &RefusedError{Reason: "git cannot read the refs of the repository: " + fatal(said.said), Hint: "mv " + packed + " " + packed + ".damaged"}
	}
	if err != nil {
		return nil, nil, err
	}
	refs = refValues{}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		hash, to, _ := strings.Cut(value, " ")
		if refs[name] = hash; to != "" {
			refs[name] = "ref:" + to
		}
	}
	for line := range strings.Lines(warned) {
		for _, words := range []string{"warning: ignoring broken ref ", "warning: ignoring ref with broken name "} {
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), words); ok {
				broken = append(broken, name)
			}
		}
	}
	return refs, broken, nil
}

// wayOut tells of a refusal how to bring the refs back that stood before: they are written to a file for git.
func (r *Repo) wayOut(err error, was refValues) error {
	refused, ok := errors.AsType[*RefusedError](err)
	if !ok {
		return err
	}
	var text bytes.Buffer
	for _, refs := range []refValues{was, r.attempts.hashes} {
		for _, n := range sortedKeys(refs) {
			if isHex(refs[n]) {
				fmt.Fprintf(&text, "update %s %s\n", n, refs[n])
			}
		}
	}
	out := *refused
	if file := r.keepAside("refs", text.Bytes()); text.Len() > 0 && file != "" {
		out.Hint += "; then git update-ref --stdin <" + file + " brings back the refs as they stood before the attempt"
	}
	return &out
}

// repairRefs puts HEAD, the branch and what was deleted back, and tells of what else changed, and of the commits that
// the agent made.
func (g *Guard) repairRefs(ctx context.Context, s *Repaired) error {
	r := g.r
	branch, hash, damaged, err := g.readHead(ctx, s)
	if err != nil {
		return err
	}
	now, broken, err := r.listRefs(ctx)
	if err == nil {
		err = g.sound(ctx, now, broken)
	}
	if err != nil {
		return r.wayOut(err, g.settings.Refs)
	}
	back := refValues{}
	for n, was := range g.refs {
		if now[n] == "" && n != "refs/stash" {
			back[n] = was
		}
	}
	if g.at.Branch != "" {
		if delete(back, g.at.Branch); now[g.at.Branch] != g.at.Hash {
			back[g.at.Branch] = g.at.Hash
		}
	}
	switched := !damaged && (branch != g.at.Branch || branch == "" && hash != g.at.Hash)
	aside := g.inTheWay(now, back, switched || damaged)
	for _, n := range sortedKeys(aside) {
		s.note("%s stands in the way of %s; it is moved to %s", shortRef(n), shortRef(aside[n]), movedRef(n, now[n]))
	}
	switch {
	case switched && branch == "":
		s.note("HEAD stood at commit %s and was put back to %s", shortHash(hash), g.where())
	case switched:
		s.note("%s was checked out; switched back to %s (the files stay as they are)", shortRef(branch), g.where())
	}
	tip := hash
	if _, moved := back[g.at.Branch]; moved {
		s.note("%s went from %s to %s and was put back", shortRef(g.at.Branch), shortHash(g.at.Hash), shortHash(now[g.at.Branch]))
		tip = cmp.Or(now[g.at.Branch], tip)
	}
	s.Back = s.Back || r.isBack(ctx, g, hash) || r.isBack(ctx, g, tip)
	if own, err := r.isOwn(ctx, g, tip); err != nil {
		return err
	} else if own {
		s.Commits = tip
		s.note("the attempt's own commits up to %s are kept (yours too, if you committed here meanwhile): git log %[1]s", shortHash(tip))
	}
	for _, n := range sortedKeys(back) {
		if n != g.at.Branch {
			s.note("%s was deleted during the attempt and put back at %s", shortRef(n), shortHash(back[n]))
		}
	}
	for _, n := range sortedKeys(now) {
		was, known := g.refs[n]
		switch {
		case aside[n] != "" || was == now[n] || n == g.at.Branch || n == "refs/stash" || strings.HasPrefix(n, "refs/remotes/"): // a fetch is no harm, and the stash is told by its log
		case !known && strings.HasPrefix(n, "refs/replace/"):
			aside[n] = n
			s.note("%s, which shows another object in the place of one, was made during the attempt; it is moved to %s", n, movedRef(n, now[n]))
		case !known:
			s.note("%s was made during the attempt and is left at %s", shortRef(n), shortHash(now[n]))
		default:
			s.note("%s was moved during the attempt from %s to %s and is left there", shortRef(n), shortHash(was), shortHash(now[n]))
		}
	}
	if err := r.moveAside(ctx, aside, now); err != nil {
		return err
	}
	if err := r.bringBack(ctx, back, now); err != nil {
		return err
	}
	if switched {
		if err := g.resetHead(ctx); err != nil {
			return err
		}
	}
	for n := range aside {
		delete(now, n)
	}
	maps.Copy(now, back)
	g.refs = now
	return nil
}

// readHead says where HEAD leads. One that git cannot read is put back at once: git cannot even open the repository.
func (g *Guard) readHead(ctx context.Context, s *Repaired) (branch, hash string, damaged bool, err error) {
	changed, err := g.head.changed()
	if err != nil {
		return "", "", false, err
	}
	branch, hash, herr := g.r.refs.head()
	_, bad := parseID(hash)
	now, err := copyFile(g.head.Path)
	if err != nil {
		return "", "", false, err
	}
	if changed && (herr != nil || hash == "" && branch == "" || hash != "" && bad != nil || now.Kind != 0 || g.head.Kind != 0) {
		s.note("HEAD was damaged and put back to %s", g.where())
		return "", "", true, g.head.restore(ctx)
	}
	return branch, hash, false, nil
}

// sound refuses refs that git cannot read, or that name no object, and those whose objects were deleted with them.
func (g *Guard) sound(ctx context.Context, now refValues, broken []string) error {
	if bad := slices.DeleteFunc(broken, func(n string) bool { return slices.Contains(g.broken, n) }); len(bad) > 0 {
		hint := "delete the line of " + bad[0] + " in " + g.r.inGit(filepath.Join(g.r.l.commonDir, "packed-refs"))
		if _, err := os.Lstat(g.r.refs.file(bad[0])); err == nil {
			hint = "rm"
			for _, n := range bad {
				hint += " " + g.r.refs.file(n)
			}
		}
		return &RefusedError{Reason: "git cannot read what the attempt made of " + strings.Join(bad, ", "), Hint: hint}
	}
	var asked []string
	for n, was := range g.refs {
		if now[n] == "" && n != "refs/stash" && isHex(was) {
			asked = append(asked, was)
		}
	}
	for n, h := range now {
		if g.refs[n] != h && isHex(h) {
			asked = append(asked, h)
		}
	}
	gone, err := g.r.absentObjects(ctx, asked)
	if err != nil || len(gone) == 0 {
		return err
	}
	var lost, empty []string
	for _, n := range sortedKeys(g.refs) {
		if was := g.refs[n]; now[n] == "" && slices.Contains(gone, was) {
			lost = append(lost, shortRef(n)+" ("+shortHash(was)+")")
			delete(g.refs, n)
		}
	}
	for _, n := range sortedKeys(now) {
		if slices.Contains(gone, now[n]) {
			empty = append(empty, shortRef(n)+" ("+shortHash(now[n])+")")
		}
	}
	if len(empty) > 0 {
		return &RefusedError{Reason: "changed during the attempt to something that is not in the repository: " + strings.Join(empty, ", "),
			Hint: "git update-ref -d for each of them, by its whole name (refs/heads/... is a branch)"}
	}
	return &RefusedError{Reason: "deleted during the attempt, with its objects, so that it cannot be put back: " + strings.Join(lost, ", "),
		Hint: "fetch what is missing from a clone or a remote, or restore a backup; descartes loop resume goes on without it"}
}

// absentObjects lists which of these are not in the repository.
func (r *Repo) absentObjects(ctx context.Context, hashes []string) (absent []string, err error) {
	if len(hashes) == 0 {
		return nil, nil
	}
	b, err := r.cli.run(ctx, gitCall{args: []string{"cat-file", "--batch-check=%(objectname)"}, stdin: []byte(strings.Join(hashes, "\n") + "\n")})
	for line := range strings.Lines(string(b)) {
		if hash, ok := strings.CutSuffix(strings.TrimSpace(line), " missing"); ok {
			absent = append(absent, hash)
		}
	}
	return absent, err
}

// inTheWay finds the refs that cannot be beside one that comes back: a file of refs cannot be a folder too.
func (g *Guard) inTheWay(now, back refValues, head bool) map[string]string {
	names := sortedKeys(back)
	if head && g.at.Branch != "" { // HEAD moves to a branch that can be there
		names = append(names, g.at.Branch)
	}
	aside := map[string]string{}
	for n := range now {
		for _, name := range names {
			if strings.HasPrefix(n, name+"/") || strings.HasPrefix(name, n+"/") {
				aside[n] = name
				break
			}
		}
	}
	return aside
}

// movedRef is the name that a ref gets that is moved aside.
func movedRef(name, hash string) string {
	return privateRefs + "moved/" + strings.TrimPrefix(name, "refs/") + "-" + strings.ReplaceAll(shortHash(hash), "/", "-")
}

func (r *Repo) moveAside(ctx context.Context, aside map[string]string, now refValues) error {
	var commands strings.Builder
	for _, n := range sortedKeys(aside) {
		if isHex(now[n]) {
			fmt.Fprintf(&commands, "update %s %s\n", movedRef(n, now[n]), now[n])
		}
		fmt.Fprintf(&commands, "delete %s\n", n)
	}
	return r.updateRefs(ctx, "descartes: moved aside", commands.String())
}

func (r *Repo) bringBack(ctx context.Context, back, now refValues) error {
	var commands strings.Builder
	for _, n := range sortedKeys(back) {
		to, symbolic := strings.CutPrefix(back[n], "ref:")
		switch {
		case symbolic:
			if _, err := r.cli.run(ctx, gitCall{args: []string{"symbolic-ref", n, strings.TrimSpace(to)}}); err != nil {
				return err
			}
		case back[n] == "": // there was no commit yet
			fmt.Fprintf(&commands, "delete %s\n", n)
		case strings.HasPrefix(now[n], "ref:"):
			fmt.Fprintf(&commands, "update %s %s\n", n, back[n])
		default:
			fmt.Fprintf(&commands, "update %s %s %s\n", n, back[n], cmp.Or(now[n], noObject))
		}
	}
	return r.updateRefs(ctx, "descartes: back to where the attempt began", commands.String())
}

// resetHead makes HEAD what it was; the log tells of it.
func (g *Guard) resetHead(ctx context.Context) error {
	message := "descartes: back to " + g.where()
	if g.at.Branch != "" {
		return g.r.pointHead(ctx, g.at.Branch, message)
	}
	return g.r.updateRefs(ctx, message, "update HEAD "+g.at.Hash+"\n")
}

// where is where HEAD stood, for people.
func (g *Guard) where() string {
	if g.at.Branch == "" {
		return "commit " + shortHash(g.at.Hash)
	}
	return shortRef(g.at.Branch)
}

func shortRef(name string) string {
	if b, ok := strings.CutPrefix(name, "refs/heads/"); ok {
		return "branch " + b
	}
	if t, ok := strings.CutPrefix(name, "refs/tags/"); ok {
		return "tag " + t
	}
	return name
}

// isBack reports whether a commit lacks the one where the attempt began.
func (r *Repo) isBack(ctx context.Context, g *Guard, hash string) bool {
	return hash != "" && g.at.Hash != "" && hash != g.at.Hash && !r.leadsTo(ctx, hash, g.at.Hash)
}

// isOwn reports whether a commit came to be during the attempt: no ref had it before, and it is no ancestor
// of where the attempt began.
func (r *Repo) isOwn(ctx context.Context, g *Guard, hash string) (bool, error) {
	if hash == "" || hash == g.at.Hash {
		return false, nil
	}
	for _, h := range g.refs {
		if h == hash {
			return false, nil
		}
	}
	return g.at.Hash == "" || !r.leadsTo(ctx, g.at.Hash, hash), nil
}

// leadsTo reports whether a commit has another among its ancestors.
func (r *Repo) leadsTo(ctx context.Context, from, to string) bool {
	_, err := r.cli.run(ctx, gitCall{args: []string{"merge-base", "--is-ancestor", to, from}})
	return err == nil
}

// attemptRefs are the private refs there should be: those of before the run, and what it kept since. A run keeps one for
// every attempt, so what shows that none went are the times of a few folders; all are looked at only when one changed.
type attemptRefs struct {
	hashes refValues // nil until the first look
	last   string    // the ref kept last
	stamps map[string]fileStamp
}

// add notes a ref that we set ourselves.
func (a *attemptRefs) add(r *Repo, name, hash string) (err error) {
	if a.hashes == nil || !strings.HasPrefix(name, privateRefs) {
		return nil
	}
	a.hashes[name], a.last = hash, name
	a.stamps, err = a.look(r)
	return err
}

// look reads the times of the folders.
func (a *attemptRefs) look(r *Repo) (map[string]fileStamp, error) {
	top := r.refs.file(path.Clean(privateRefs))
	dirs := []string{top, filepath.Dir(r.refs.file(cmp.Or(a.last, privateRefs+"any")))}
	entries, err := os.ReadDir(top)
	if err != nil && !missing(err) {
		return nil, err
	}
	for _, e := range entries {
		dirs = append(dirs, filepath.Join(top, e.Name()))
	}
	out := map[string]fileStamp{}
	for _, dir := range dirs {
		if out[dir], err = stampOf(dir); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// learn reads them for the first time.
func (a *attemptRefs) learn(r *Repo) (err error) {
	if a.hashes != nil {
		return nil
	}
	if a.hashes, _, err = r.refs.list(privateRefs); err == nil {
		a.stamps, err = a.look(r)
	}
	return err
}

// repairAttempts puts back the private refs that an attempt deleted or moved.
func (g *Guard) repairAttempts(ctx context.Context, s *Repaired) error {
	r, a := g.r, &g.r.attempts
	stamps, err := a.look(r)
	if err != nil || a.hashes == nil || maps.Equal(stamps, a.stamps) {
		return err
	}
	now, _, err := r.refs.list(privateRefs)
	if err != nil {
		return err
	}
	var asked []string
	for n, h := range a.hashes {
		if now[n] != h {
			asked = append(asked, h)
		}
	}
	gone, err := r.absentObjects(ctx, asked)
	if err != nil {
		return err
	}
	var commands strings.Builder
	back, lost := 0, 0
	for _, n := range sortedKeys(a.hashes) {
		h := a.hashes[n]
		switch {
		case now[n] == h:
		case slices.Contains(gone, h):
			delete(a.hashes, n)
			lost++
		default:
			fmt.Fprintf(&commands, "update %s %s\n", n, h)
			back++
		}
	}
	if err := r.updateRefs(ctx, "descartes: put back", commands.String()); err != nil {
		return err
	}
	if back > 0 {
		s.note("%d of the kept attempts under %s were deleted during the attempt and put back", back, privateRefs)
	}
	if lost > 0 {
		s.note("%d of the kept attempts under %s were deleted during the attempt with their objects, and are lost", lost, privateRefs)
	}
	for n, h := range now { // of other loops in this repository
		if _, known := a.hashes[n]; !known {
			a.hashes[n] = h
		}
	}
	a.stamps, err = a.look(r)
	return err
}
