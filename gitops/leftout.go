package gitops

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// LeftOut is a path that could not be dealt with, and why.
type LeftOut struct{ Path, Why string }

func (l LeftOut) String() string { return l.Path + " (" + l.Why + ")" }

const (
	whyName = "git refuses such a name"
	whyLong = "its path is too long"
)

// maxFile bounds what is read of one file: beyond it a snapshot would take minutes, and no host takes the commit.
const maxFile = 4 << 30

var errTooLarge = errors.New("too large")

// LeftOut lists what the last snapshot could not hold, sorted by path: what was changed since a time apart from what
// is older, or has so long a path that git passes over it too.
func (r *Repo) LeftOut(since time.Time) (recent, old []LeftOut) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.leftOut() {
		info, err := r.statBelow(strings.TrimSuffix(x.Path, "/"))
		if err != nil || x.Why == whyLong || olderThan(info, since) {
			old = append(old, x)
		} else {
			recent = append(recent, x)
		}
	}
	return recent, old
}

// OlderThan picks those paths whose files were changed last before a time. What is in a snapshot for the first time and
// is older than the attempt was ignored before.
func (r *Repo) OlderThan(paths []string, t time.Time) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, p := range paths {
		if info, err := r.statBelow(p); err == nil && info.mode != modeDir && olderThan(info, t) {
			out = append(out, p)
		}
	}
	return out
}

func (r *Repo) leftOut() []LeftOut {
	list := r.scanner.out
	if r.viaGit {
		list = r.cli.out
	}
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b LeftOut) int { return strings.Compare(a.Path, b.Path) })
	return slices.CompactFunc(list, func(a, b LeftOut) bool { return a.Path == b.Path })
}

// leave notes a path that the scan passes over.
func (s *scanner) leave(path, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = append(s.out, LeftOut{strings.Clone(path), why}) // a name aliases the buffer that it was read into
}

// passesOver says why a path that cannot be read is left out rather than ending the scan, "" where it is not.
func passesOver(err error) string {
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return "it cannot be read: permission denied"
	case errors.Is(err, unix.ENAMETOOLONG):
		return whyLong
	case errors.Is(err, errTooLarge):
		return fmt.Sprintf("files of more than %d GiB are not committed", maxFile>>30)
	case errors.Is(err, errChanged):
		return "it keeps changing while it is read"
	}
	return ""
}

// leftByGit reads from the words of `git add --ignore-errors` what it could not add.
func leftByGit(err error) []LeftOut {
	var ge *gitError
	if !errors.As(err, &ge) || ge.code != 1 {
		return nil
	}
	var out []LeftOut
	why := ""
	for line := range strings.Lines(ge.said) {
		text, ok := strings.CutPrefix(strings.TrimSpace(line), "error: ")
		if !ok {
			continue
		}
		path, named := strings.CutPrefix(text, "unable to index file '")
		if !named {
			if path, named = strings.CutPrefix(text, "unable to add '"); named {
				path = strings.TrimSuffix(path, " to index")
			}
		}
		switch {
		case !named:
			why = text
		case strings.HasPrefix(why, "invalid path"):
			out = append(out, LeftOut{strings.TrimSuffix(path, "'"), whyName})
		default:
			out = append(out, LeftOut{strings.TrimSuffix(path, "'"), "git cannot add it: " + why})
		}
	}
	return out
}

// filesBelow lists what is in a directory that no scan enters.
func (r *Repo) filesBelow(dir string, depth int) []doomed {
	fd, err := r.root.open(dir, openDirFlags, 0)
	if err != nil {
		return nil
	}
	_, names, err := list(fd, nil, nil)
	unix.Close(fd)
	if err != nil || depth > maxTreeDepth {
		return nil
	}
	var out []doomed
	for _, e := range names {
		if info, err := r.statBelow(dir + e.name); err == nil && info.mode == modeDir {
			out = append(out, r.filesBelow(dir+e.name+"/", depth+1)...)
		} else if err == nil {
			out = append(out, doomed{path: dir + strings.Clone(e.name)})
		}
	}
	return out
}

// overlook adds to a restore's plan what the scan left out: it is put back, or deleted where it is the attempt's.
func (x *restoration) overlook(_ context.Context, p *restorePlan) error {
	planned := map[string]bool{}
	for _, name := range p.paths() {
		planned[name] = true
	}
	for _, l := range x.r.leftOut() {
		item, err := x.view.file(l.Path)
		switch {
		case err != nil:
			return err
		case planned[l.Path] || x.r.guard.covers(l.Path) || item.mode == modeGitlink:
		case item.mode != 0:
			p.writes = append(p.writes, wanted{l.Path, item})
		case x.since.IsZero() || l.Why == whyLong:
		case strings.HasSuffix(l.Path, "/"):
			p.deletes = append(p.deletes, x.r.filesBelow(l.Path, 0)...)
		default:
			p.deletes = append(p.deletes, doomed{path: l.Path})
		}
	}
	return nil
}
