package slot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"descartes/gitops"
	"descartes/internal/oneline"
	"descartes/internal/plainfile"
)

// written are the names of files in which tools write full paths: editable installs and virtual environments, build
// systems, settings.
var written = []string{"*.pth", "*.egg-link", "activate", "CMakeCache.txt", "build.ninja", "config.status", "Makefile",
	"*.mk", ".env*"}

// leads reports whether a file may lead out of its slot: a link, or a file in which tools write full paths.
func leads(name string, mode fs.FileMode) bool {
	return mode&fs.ModeSymlink != 0 || mode.IsRegular() && slices.ContainsFunc(written, func(pattern string) bool {
		is, _ := path.Match(pattern, path.Base(name))
		return is
	})
}

// ways lists the links and copied files of a slot that may lead out of it.
func (p *Pool) ways(ctx context.Context, s *Slot) (ways []string, err error) {
	c, err := p.copies(ctx, s)
	if err != nil {
		return nil, err
	}
	tracked, err := s.git.Listed(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the files of slot %d: %w", s.Number, err)
	}
	for name, about := range tracked {
		if strings.HasPrefix(about, "120000 ") {
			ways = append(ways, name)
		}
	}
	slices.Sort(ways)
	for _, e := range c.entries[:c.given] {
		if e.err == nil && leads(e.path, e.info.Mode()) {
			ways = append(ways, e.path)
		}
	}
	return ways, nil
}

// Dangling lists the links that lead somewhere in the user's tree and nowhere in the slot.
func (s *Slot) Dangling(ctx context.Context) ([]string, error) {
	ways, err := s.pool.ways(ctx, s)
	return slices.DeleteFunc(ways, func(name string) bool {
		mine := filepath.Join(s.Tree(), name)
		theirs, err := os.Readlink(mine)
		if err != nil {
			return true
		}
		if !filepath.IsAbs(theirs) {
			theirs = filepath.Join(s.pool.opt.Repo.Root(), filepath.Dir(name), theirs)
		}
		if s.pool.opt.Shown {
			mine = s.Host(theirs)
		}
		_, there := os.Stat(theirs)
		_, here := os.Stat(mine)
		return there != nil || here == nil
	}), err
}

// MayLeadBack reports whether something in the slot may lead back into the user's tree: it is at a path of its own.
func (s *Slot) MayLeadBack() bool { return !s.pool.opt.Shown }

// apart refuses a slot of attempts or of checks at a path of its own in which something leads back into the user's
// tree: a check would test what is there, and an agent could write there. What the set-up command made anew does not.
func (p *Pool) apart(ctx context.Context, s *Slot) error {
	if p.opt.Shown || s.alone || s.Number >= firstLab && !s.forChecks() {
		return nil
	}
	ways, err := p.ways(ctx, s)
	if err != nil {
		return err
	}
	var back []string
	for _, name := range ways {
		if s.leadsBack(name) {
			back = append(back, name)
		}
	}
	if len(back) > 0 {
		return &gitops.RefusedError{
			Reason: fmt.Sprintf("nothing mounts slots at the project's path here, and in slot %d files lead back into your tree, where agents and checks would end up: %s", s.Number, oneline.List(back)),
			Hint:   "have pool.setup make them anew, or install bubblewrap"}
	}
	s.alone = true
	return nil
}

// LeadsBack is why a slot is refused in which something leads back into the user's tree, "" for any other error.
func LeadsBack(err error) string {
	refused, ok := errors.AsType[*gitops.RefusedError](err)
	if _, git := errors.AsType[*GitError](err); !ok || git {
		return ""
	}
	return refused.Reason
}

// mostWritten bounds what is read of a file in which tools write full paths.
const mostWritten = 1 << 20

// leadsBack reports whether a file of the slot leads into the user's tree.
func (s *Slot) leadsBack(name string) bool {
	root, at := s.pool.opt.Repo.Root(), filepath.Join(s.Tree(), name)
	if to, err := os.Readlink(at); err == nil {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			to = real
		}
		return to == root || strings.HasPrefix(to, root+"/")
	}
	b, err := plainfile.Read(s.Tree(), at, mostWritten)
	if err != nil { // too large for a file of that kind, or gone
		return false
	}
	back, err := regexp.Match(regexp.QuoteMeta(root)+`($|[^\w.-])`, b)
	return back && err == nil
}
