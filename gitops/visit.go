package gitops

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// visit looks into one folder.
func (s *scanner) visit(w *walker, v visit) error {
	d := v.d
	fd, err := s.root.open(d.path, openDirFlags, 0)
	if err != nil {
		if isGone(err) {
			w.lost = append(w.lost, d)
			return nil
		}
		if why := passesOver(err); why != "" { // git warns and goes on
			s.leave(d.path, why)
			return nil
		}
		return fmt.Errorf("read directory %s: %w", d.shown(), err)
	}
	defer unix.Close(fd)
	v.retest, d.away = v.retest || d.away, false
	info, err := statFD(fd)
	if err != nil {
		return fmt.Errorf("read directory %s: %w", d.shown(), err)
	}
	if d.listed && d.listing == info.st && !v.retest {
		if v.retest = s.loadRules(d, fd, d.rulesStat != fileStat{}); !v.retest {
			return s.revisit(w, v, fd)
		}
	}
	d.listing = info.st
	d.listed = s.root.stamped && info.st.dev == s.root.dev && stampBefore(info.st.ctimeS, info.st.ctimeN, s.started)
	return s.listAndMeet(w, v, fd)
}

// revisit looks at the known names of a folder that got no new ones and lost none since it was listed.
func (s *scanner) revisit(w *walker, v visit, fd int) error {
	d := v.d
	for i := range d.files {
		f := &d.files[i]
		if f.flags&(fileFixed|fileAbsent) == fileAbsent && f.flags&fileStale == 0 || f.flags&fileFixed != 0 {
			continue
		}
		there, err := s.compare(w, d, i, fd)
		if err != nil {
			return err
		}
		if !there {
			w.gone = append(w.gone, work{d: d, at: i})
		}
	}
	for _, c := range d.dirs {
		if !c.frozen {
			w.next = append(w.next, visit{c, false})
		}
	}
	return nil
}

// listAndMeet reads the names of a folder and deals with each.
func (s *scanner) listAndMeet(w *walker, v visit, fd int) (err error) {
	d := v.d
	w.buf, w.names, err = list(fd, w.buf, w.names[:0])
	if err != nil {
		return fmt.Errorf("read directory %s: %w", d.shown(), err)
	}
	hasRules := slices.ContainsFunc(w.names, func(e dirent) bool { return e.name == ".gitignore" })
	v.retest = s.loadRules(d, fd, hasRules) || v.retest
	if v.retest && d.parent != nil {
		d.excluded = d.parent.excluded || s.verdict(d.parent, strings.TrimSuffix(d.path, "/"), d.name(), true) == ignored
	}
	w.seen = append(w.seen[:0], make([]bool, len(d.files)+len(d.dirs))...)
	for _, e := range w.names {
		if err := s.meet(w, v, fd, e); err != nil {
			return err
		}
	}
	for i := range d.files {
		if f := &d.files[i]; !w.seen[i] && f.flags&fileFixed == 0 {
			w.gone = append(w.gone, work{d: d, at: i})
		}
	}
	for i, c := range d.dirs {
		if !w.seen[len(d.files)+i] && !c.frozen {
			w.lost = append(w.lost, c)
		}
	}
	return nil
}

func (d *folder) shown() string {
	if d.path == "" {
		return "."
	}
	return d.path
}

// loadRules reads the folder's .gitignore, if it has one, where it changed, and says whether it did.
func (s *scanner) loadRules(d *folder, fd int, has bool) bool {
	if !has {
		had := d.rules != nil
		d.rules, d.rulesStat, d.rulesOld = nil, fileStat{}, false
		return had
	}
	info, err := statAt(fd, ".gitignore")
	if err == nil && d.rulesOld && info.st.same(&d.rulesStat) {
		return false
	}
	d.rulesStat = info.st
	d.rulesOld = stampBefore(info.st.ctimeS, info.st.ctimeN, s.started)
	d.rules = readIgnoreAt(fd, d.path)
	return true
}

// meet deals with one name of the folder.
func (s *scanner) meet(w *walker, v visit, fd int, e dirent) error {
	d := v.d
	if e.typ == unix.DT_UNKNOWN {
		e.typ = typeOf(fd, e.name)
	}
	if e.name == ".git" {
		d.listed = d.listed && d.parent == nil // it may become a repository without a trace in this folder
		if d.parent != nil && isRepository(fd, e.typ) && !d.hasTracked() {
			return unsupported("%s is a repository of its own", strings.TrimSuffix(d.path, "/"))
		}
		return nil
	}
	switch e.typ {
	case unix.DT_DIR:
		return s.meetDir(w, v, e.name)
	case unix.DT_REG, unix.DT_LNK:
		return s.meetFile(w, v, fd, e.name)
	}
	return nil // git does not store pipes, sockets and devices either
}

// isRepository is git's question about the ".git" of a directory that it does not know yet.
func isRepository(fd int, typ byte) bool {
	if typ == unix.DT_REG {
		return true // the file of a linked working tree or of a submodule
	}
	_, err := statAt(fd, ".git/HEAD")
	return typ == unix.DT_DIR && err == nil
}

func typeOf(fd int, name string) byte {
	info, err := statAt(fd, name)
	switch {
	case err != nil || info.mode == 0:
		return unix.DT_UNKNOWN
	case info.mode == modeDir:
		return unix.DT_DIR
	case info.mode == modeLink:
		return unix.DT_LNK
	}
	return unix.DT_REG
}

func (s *scanner) meetDir(w *walker, v visit, name string) error {
	d := v.d
	if i, ok := d.findDir(name); ok {
		c := d.dirs[i]
		if c.frozen {
			return nil
		}
		if v.retest && (d.excluded || s.verdict(d, c.path[:len(c.path)-1], name, true) == ignored) && !c.hasTracked() {
			return nil // not seen, so it is dropped
		}
		w.seen[len(d.files)+i] = true
		w.next = append(w.next, visit{c, v.retest})
		return nil
	}
	if i, ok := d.findFile(name); ok && d.files[i].mode == modeGitlink {
		return unsupported("%s%s is a submodule", d.path, name)
	}
	if d.excluded || s.guard.covers(d.path+name+"/") {
		return nil
	}
	path := d.path + name + "/"
	if s.verdict(d, path[:len(path)-1], path[len(d.path):len(path)-1], true) == ignored {
		return nil
	}
	if !safeName(name) {
		return s.refuse(d, path)
	}
	c := d.newEmpty(path, s.guard)
	if len(d.fresh) == 0 {
		w.tidy = append(w.tidy, d)
	}
	d.fresh = append(d.fresh, c)
	w.next = append(w.next, visit{c, false})
	return nil
}

func (s *scanner) meetFile(w *walker, v visit, fd int, name string) (err error) {
	d := v.d
	if i, ok := d.findFile(name); ok {
		f := &d.files[i]
		if f.flags&fileFixed != 0 {
			w.seen[i] = true
			return nil
		}
		if v.retest && f.flags&fileTracked == 0 && s.ignores(d, name) {
			return nil
		}
		w.seen[i], err = s.compare(w, d, i, fd)
		return err
	}
	if d.excluded || s.ignores(d, name) || d.guarded && s.guard.covers(d.path+name) {
		if name == ".gitattributes" { // it counts although it is not stored
			return s.checkAttributes(d, fd)
		}
		return nil
	}
	if !safeName(name) {
		return s.refuse(d, d.path+name)
	}
	if len(d.path)+len(name) >= unix.PathMax {
		d.listed = false
		s.leave(d.path+name, passesOver(unix.ENAMETOOLONG))
		return nil
	}
	info, err := statAt(fd, name)
	if err != nil || info.mode == modeDir || info.mode == 0 {
		return nil // it went away again
	}
	w.works = append(w.works, work{d: d, at: -1, name: strings.Clone(name), info: info})
	return nil
}

// refuse passes over a name that git takes for ".git", as git does unless it was told otherwise.
func (s *scanner) refuse(d *folder, path string) error {
	if !s.strict {
		return unsupported("path %q", path)
	}
	d.listed = false // the next scan has to come upon it again
	s.leave(path, whyName)
	return nil
}

// checkAttributes reads a .gitattributes that is not part of the snapshot.
func (s *scanner) checkAttributes(d *folder, dirfd int) error {
	if a := s.attrs(readAttributesAt(dirfd)); a != "" {
		return unsupported("%s.gitattributes asks for a conversion (%s)", d.path, a)
	}
	return nil
}

// compare stats a known file, says whether it is there, and notes it for reading unless it is what it was.
func (s *scanner) compare(w *walker, d *folder, i, fd int) (there bool, err error) {
	f := &d.files[i]
	info, err := statAt(fd, f.name)
	if isGone(err) || err == nil && (info.mode == modeDir || info.mode == 0) {
		return false, nil
	}
	if err != nil {
		if why := passesOver(err); why != "" {
			s.leave(d.path+f.name, why)
			return true, nil
		}
		return false, fmt.Errorf("stat %s%s: %w", d.path, f.name, err)
	}
	if f.flags&(fileAbsent|fileStale) == 0 && f.mode == info.mode && f.st.same(&info.st) {
		return true, nil
	}
	w.works = append(w.works, work{d: d, at: i, info: info})
	return true, nil
}

// ignores says whether a file directly in d is ignored.
func (s *scanner) ignores(d *folder, name string) bool {
	if d.excluded {
		return true
	}
	return s.verdict(d, d.path+name, name, false) == ignored
}

// verdict asks the rules of d, of the folders above it, and of the whole repository, in this order.
func (s *scanner) verdict(d *folder, path, name string, isDir bool) verdict {
	for ; d != nil; d = d.parent {
		if v := d.rules.match(path, name, isDir); v != unsaid {
			return v
		}
	}
	for _, g := range s.global {
		if v := g.rules.match(path, name, isDir); v != unsaid {
			return v
		}
	}
	return unsaid
}
