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

	"descartes/internal/oscall"
)

// refValues is where refs stand: name to hash, or to "ref:" and a name for a symbolic one.
type refValues map[string]string

// watched lists the folders of refs that Guard looks at. It leaves those out where attempts are kept, a run has as many as
// attempts, and those of a bisect or a rebase, which end with it.
func (s *refStore) watched() []string {
	found := map[string]bool{"refs/heads": true} // without any, git would list all
	add := func(name string) {
		if top := strings.SplitN(name, "/", 3); len(top) > 1 && !slices.Contains([]string{"descartes", "bisect", "rewritten"}, top[1]) {
			found["refs/"+top[1]] = true
		}
	}
	for _, dir := range []string{s.l.commonDir, s.l.gitDir} {
		entries, _ := os.ReadDir(filepath.Join(dir, "refs"))
		for _, e := range entries {
			add("refs/" + e.Name())
		}
	}
	_ = s.packed(func(name, _ string) { add(name) }) // what cannot be read is git's to say
	return sortedKeys(found)
}

// eachRefFile walks the files of refs but for ours.
func eachRefFile(l layout, visit func(path string) error) error {
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
		return visit(path)
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
	packed := filepath.Join(r.l.commonDir, "packed-refs")
	if err := plain(packed, mostCopied); err != nil {
		return nil, nil, err
	}
	if err := eachRefFile(r.l, func(path string) error { return plain(path, mostLoose) }); err != nil {
		return nil, nil, err
	}
	var warned string
	b, err := r.cli.run(ctx, gitCall{args: append([]string{"for-each-ref", "--format=%(refname) %(objectname) %(symref)"}, r.refs.watched()...), warned: &warned})
	if said, ok := errors.AsType[*gitError](err); ok {
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

// wayOut tells of a refusal how to restore the refs of before: they are written to a file for git.
func (r *Repo) wayOut(err error, was refValues) error {
	refused, ok := errors.AsType[*RefusedError](err)
	if !ok {
		return err
	}
	var text bytes.Buffer
	for _, refs := range []refValues{was, r.kept} {
		for _, n := range sortedKeys(refs) {
			if isHex(refs[n]) {
				fmt.Fprintf(&text, "update %s %s\n", n, refs[n])
			}
		}
	}
	out := *refused
	if file := r.keepAside("refs", text.Bytes()); text.Len() > 0 && file != "" {
		out.Hint += "; then git update-ref --stdin <" + file + " brings back the refs as they were before the attempt"
	}
	return &out
}

// readable refuses files without which no git command should run: a HEAD that names neither a branch nor a commit, and history that was cut.
func (g *Guard) readable(ctx context.Context, _ *Repaired) error {
	r := g.r
	value, err := r.refs.readLoose("HEAD")
	to, symbolic := strings.CutPrefix(value, "ref:")
	if _, bad := parseID(value); err != nil || symbolic && !validRef(strings.TrimSpace(to)) || !symbolic && bad != nil {
		head, text := filepath.Join(r.l.gitDir, "HEAD"), g.at.Hash
		if g.at.Branch != "" {
			text = "ref: " + g.at.Branch
		}
		return &RefusedError{Reason: "the attempt damaged " + r.inGit(head), Hint: fmt.Sprintf("rm -rf %s && echo '%s' >%[1]s", head, text)}
	}
	if changed, err := g.shallow.changed(); err != nil || !changed {
		return err
	}
	file := g.shallow.Path
	now, err := copyFile(file)
	if err != nil {
		return err
	}
	if len(g.shallow.Text) == 0 && len(now.Text) == 0 && now.Kind != fs.ModeDevice {
		return nil
	}
	if len(g.shallow.Text) > 0 && (now.Kind == 0 || now.stamp == fileStamp{}) { // fetches change it too
		if _, err := r.cli.run(ctx, gitCall{args: []string{"rev-list", "--quiet", "HEAD"}}); exitCode(err) == 0 {
			return err
		}
	}
	hint := "rm -f " + file
	if kept := r.keepAside("shallow", g.shallow.Text); len(g.shallow.Text) > 0 {
		hint += " && cp " + kept + " " + file
	}
	return &RefusedError{Reason: "the attempt cut the history: " + r.inGit(file) + " has changed", Hint: hint + "; where a fetch of the attempt's changed it: git fetch --unshallow"}
}

// repairRefs restores HEAD, the branch and what was deleted, and tells of what else changed, and of the commits that the
// agent made. What git cannot read, or has no object for, is refused before anything changes.
func (g *Guard) repairRefs(ctx context.Context, s *Repaired) error {
	r := g.r
	now, broken, err := r.listRefs(ctx)
	if err == nil {
		err = g.sound(ctx, now, broken)
	}
	if err != nil {
		return r.wayOut(err, g.before)
	}
	branch, hash, err := r.refs.head()
	if err != nil {
		return err
	}
	back := refValues{}
	for n, was := range g.refs {
		if now[n] == "" {
			back[n] = was
		}
	}
	if g.at.Branch != "" {
		if delete(back, g.at.Branch); now[g.at.Branch] != g.at.Hash {
			back[g.at.Branch] = g.at.Hash
		}
	}
	kept, err := g.lostAttempts()
	if err != nil {
		return err
	}
	if err := g.bringBack(ctx, back, kept, now); err != nil {
		return r.wayOut(err, g.before)
	}

	switched := branch != g.at.Branch || branch == "" && hash != g.at.Hash
	if switched {
		if err := g.resetHead(ctx); err != nil {
			return err
		}
	}
	switch {
	case switched && branch == "":
		s.note("HEAD was at commit %s and was put back to %s", shortHash(hash), g.where())
	case switched:
		s.note("%s was checked out; switched back to %s (the files stay as they are)", shortRef(branch), g.where())
	}
	tip := hash
	if _, moved := back[g.at.Branch]; moved {
		s.note("%s went from %s to %s and was put back", shortRef(g.at.Branch), shortHash(g.at.Hash), shortHash(now[g.at.Branch]))
		tip = cmp.Or(now[g.at.Branch], tip)
	}
	for _, h := range slices.Compact([]string{hash, tip}) {
		s.Back = s.Back || h != "" && g.at.Hash != "" && h != g.at.Hash && !r.LeadsTo(ctx, h, g.at.Hash)
	}
	if old := slices.Collect(maps.Values(g.refs)); tip != "" && tip != g.at.Hash && !slices.Contains(old, tip) && (g.at.Hash == "" || !r.LeadsTo(ctx, g.at.Hash, tip)) {
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
		case was == now[n] || n == g.at.Branch || n == "refs/stash" || strings.HasPrefix(n, "refs/remotes/"): // a fetch does no harm, and the stash is reported from its log
		case !known:
			s.note("%s was made during the attempt and is left at %s", shortRef(n), shortHash(now[n]))
		default:
			s.note("%s was moved during the attempt from %s to %s and is left there", shortRef(n), shortHash(was), shortHash(now[n]))
		}
	}
	if len(kept) > 0 {
		s.note("%d of the kept attempts under %s were deleted during the attempt and put back", len(kept), privateRefs)
	}
	maps.Copy(now, back)
	g.refs = now
	return nil
}

// sound refuses refs that git cannot read, that show other objects, or whose objects are missing.
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
	changed := map[string][]string{} // by what they name, or named
	for n, h := range now {
		if id, ok := strings.CutPrefix(n, "refs/replace/"); ok && g.refs[n] != h {
			return &RefusedError{Reason: "the attempt made " + n + ", which shows another object in the place of one", Hint: "git replace -d " + id}
		}
		if g.refs[n] != h && isHex(h) {
			changed[h] = append(changed[h], n)
		}
	}
	for n, was := range g.refs {
		if now[n] == "" && isHex(was) {
			changed[was] = append(changed[was], n)
		}
	}
	absent, err := g.r.missingObjects(ctx, sortedKeys(changed))
	if err != nil {
		return err
	}
	var lost []string
	for _, hash := range absent {
		for _, n := range changed[hash] {
			lost = append(lost, shortRef(n)+" ("+shortHash(hash)+")")
			delete(g.refs, n)
			delete(g.before, n)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	slices.Sort(lost)
	return &RefusedError{Reason: "the attempt deleted or changed refs whose objects are not in the repository: " + strings.Join(lost, ", "),
		Hint: "fetch what is missing from a clone or a remote, and delete what is left of them: git update-ref -d, by the whole name (refs/heads/... is a branch)"}
}

// missingObjects are those of the objects that are not in the repository.
func (r *Repo) missingObjects(ctx context.Context, hashes []string) (out []string, err error) {
	if len(hashes) == 0 {
		return nil, nil
	}
	b, err := r.cli.run(ctx, gitCall{args: []string{"cat-file", "--batch-check=%(objectname)"}, stdin: []byte(strings.Join(hashes, "\n") + "\n")})
	for line := range strings.Lines(string(b)) {
		if hash, missing := strings.CutSuffix(strings.TrimSpace(line), " missing"); missing {
			out = append(out, hash)
		}
	}
	return out, err
}

// bringBack gives refs the values they had, all or none. What git refuses is a RefusedError: a ref in the way of one that
// comes back, or objects that are gone.
func (g *Guard) bringBack(ctx context.Context, back, kept, now refValues) error {
	r := g.r
	var commands strings.Builder
	for _, n := range sortedKeys(back) {
		switch {
		case strings.HasPrefix(back[n], "ref:"): // below
		case back[n] == "": // there was no commit yet
			fmt.Fprintf(&commands, "delete %s\n", n)
		case strings.HasPrefix(now[n], "ref:"):
			fmt.Fprintf(&commands, "update %s %s\n", n, back[n])
		default:
			fmt.Fprintf(&commands, "update %s %s %s\n", n, back[n], cmp.Or(now[n], noObject))
		}
	}
	for _, n := range sortedKeys(kept) {
		fmt.Fprintf(&commands, "update %s %s\n", n, kept[n])
	}
	err := r.updateRefs(ctx, "descartes: back to where the attempt began", commands.String())
	for _, n := range sortedKeys(back) {
		if to, symbolic := strings.CutPrefix(back[n], "ref:"); symbolic && err == nil {
			_, err = r.cli.run(ctx, gitCall{args: []string{"symbolic-ref", n, to}})
		}
	}
	if said, ok := errors.AsType[*gitError](err); ok {
		return &RefusedError{Reason: "git cannot put back the refs that the attempt changed: " + fatal(said.said),
			Hint: "rename a branch that is in the way (git branch -m OLD NEW), or fetch what is missing from a clone or a remote"}
	}
	return err
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

// LeadsTo reports whether one commit is another, or a descendant of it.
func (r *Repo) LeadsTo(ctx context.Context, from, to string) bool {
	_, err := r.cli.run(ctx, gitCall{args: []string{"merge-base", "--is-ancestor", to, from}})
	return err == nil
}

// keptStamps are the times of the folders of kept attempts, and of packed-refs. A run keeps a ref for every attempt: all are
// looked at only where one of these changed.
func (r *Repo) keptStamps() (map[string]fileStamp, error) {
	packed := filepath.Join(r.l.commonDir, "packed-refs")
	stamp, err := stampOf(packed)
	if err != nil {
		return nil, err
	}
	out := map[string]fileStamp{packed: stamp}
	err = filepath.WalkDir(r.refs.file(path.Clean(privateRefs)), func(dir string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return unlessMissing(err)
		}
		if out[dir], err = stampOf(dir); err == nil && !hasFolders(e) {
			return fs.SkipDir
		}
		return unlessMissing(err)
	})
	return out, err
}

func unlessMissing(err error) error {
	if missing(err) {
		return nil
	}
	return err
}

// hasFolders is false for a folder that has no other in it, where the file system tells by the count of its links: a run
// keeps a folder for every task, and to read them all takes longer than all else that is done before an attempt.
func hasFolders(e fs.DirEntry) bool {
	info, err := e.Info()
	if err != nil {
		return true
	}
	return oscall.Links(info) != 2
}

// poolRefs are those of slots, which change under other loops' hands.
const poolRefs = privateRefs + "pool/"

// lostAttempts are the refs of kept attempts that an attempt deleted or moved.
func (g *Guard) lostAttempts() (refValues, error) {
	stamps, err := g.r.keptStamps()
	if err != nil || maps.Equal(stamps, g.kept) {
		return nil, err
	}
	now, _, err := g.r.refs.list(privateRefs)
	if err != nil {
		return nil, err
	}
	lost := maps.Clone(g.r.kept)
	maps.DeleteFunc(lost, func(n, hash string) bool { return now[n] == hash || strings.HasPrefix(n, poolRefs) })
	return lost, nil
}
