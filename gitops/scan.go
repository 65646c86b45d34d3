package gitops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"descartes/internal/oscall"
)

// scanner finds what `git add -A` would stage. It is our own because neither go-git (wrong ignore rules) nor the git
// program (two to three times slower, and it writes an index) does it as well.
type scanner struct {
	root   *rootDir
	guard  protection
	global []*ruleFile // info/exclude, then core.excludesfile: the first has the say
	store  *objectStore
	ends   string                   // why git would make CRLF line ends LF, "" if it would not
	attrs  func(text []byte) string // says which line of a .gitattributes only git can follow, "" if none
	strict bool                     // git would refuse names that only Windows takes for .git

	mu  sync.Mutex
	out []LeftOut // what the last scan passed over
	err error
}

// reading is what a scan does with the content of files that differ from what is known of them.
type reading int

const (
	readKnown    reading = iota // names it; what is new is not even read
	readAll                     // names it, that of new files too
	readAndStore                // stores it
)

// scope is a folder with the ignore rules that hold in it.
type scope struct {
	path     string
	up       *scope
	rules    *ignoreRules // of its own .gitignore
	excluded bool         // what is not tracked in it is ignored, whatever the rules say
}

// pass is one scan under way.
type pass struct {
	*scanner
	ctx     context.Context // of one call: a pass lives no longer
	ix      *index
	forced  []string // tracked although the index does not say so
	how     reading
	started time.Time
	free    chan struct{} // one place for each goroutine beside the first
}

// scan reads the working tree. What ix or the last scan says of a file is believed where its stat data are the same. For
// what only git treats rightly the error is an unsupportedError.
func (s *scanner) scan(ctx context.Context, ix *index, last *folder, forced []string, how reading) (*folder, error) {
	now, err := oscall.Clock()
	if err != nil {
		return nil, err
	}
	if err := s.root.renew(); err != nil {
		return nil, err
	}
	s.out, s.err = nil, nil
	for _, g := range s.global {
		g.refresh()
	}
	p := &pass{scanner: s, ctx: ctx, ix: ix, forced: forced, how: how, started: now, free: make(chan struct{}, min(runtime.GOMAXPROCS(0), 8)-1)}
	top := p.look(&place{scope: &scope{}, last: last, hi: len(ix.entries)})
	return top, s.err
}

// fail ends the scan. What only git can treat matters more than what could not be read.
func (s *scanner) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := errors.AsType[*unsupportedError](err); ok || s.err == nil {
		s.err = err
	}
}

func (p *pass) stopped() bool {
	if err := context.Cause(p.ctx); err != nil {
		p.fail(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err != nil
}

// spread calls do for 0 to n-1, on as many goroutines as there are places for.
func (p *pass) spread(n int, do func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		select {
		case p.free <- struct{}{}:
			wg.Go(func() {
				do(i)
				<-p.free
			})
		default:
			do(i)
		}
	}
	wg.Wait()
}

// place is the folder that is being looked into.
type place struct {
	*scope
	d       *folder
	last    *folder // as the last scan found it, or nil
	fd      int
	lo, hi  int // its entries in the index
	guarded bool
	below   []*place        // folders to be looked into
	met     map[string]bool // their names
	unread  []file          // to be read
}

// look looks into a folder and all below it, and gives nil where there is nothing.
func (p *pass) look(at *place) *folder {
	if p.stopped() {
		return nil
	}
	at.d, at.guarded, at.met = &folder{path: at.path}, p.guard.within(at.path), map[string]bool{}
	fd, err := p.root.open(at.path, openDirFlags, 0)
	if err == nil {
		at.fd = fd
		err = p.names(at)
		oscall.Close(fd)
	}
	if why := passesOver(err); why != "" { // git warns and goes on
		p.leave(at.path, why)
		if at.last != nil {
			return at.last
		}
		return p.ix.folder(at.path, at.lo, at.hi, func(e *indexEntry) bool { return true })
	}
	if err != nil && !isGone(err) {
		p.fail(fmt.Errorf("read directory %s: %w", strings.TrimSuffix(at.path, "/"), err))
		return nil
	}
	p.unmet(at)
	dirs := make([]*folder, len(at.below))
	p.spread(len(dirs), func(i int) { dirs[i] = p.look(at.below[i]) })
	at.d.dirs = append(at.d.dirs, slices.DeleteFunc(dirs, func(c *folder) bool { return c == nil })...)
	if len(at.d.files)+len(at.d.dirs) == 0 && at.path != "" {
		return nil
	}
	at.d.seal(at.last)
	return at.d
}

var listings = sync.Pool{New: func() any { return &listing{buf: make([]byte, 0, 32<<10)} }}

type listing struct {
	buf   []byte
	names []oscall.Entry // alias buf
}

// names deals with every name in a folder, and reads the files that are to be read.
func (p *pass) names(at *place) (err error) {
	l := listings.Get().(*listing)
	defer listings.Put(l)
	if l.buf, l.names, err = oscall.List(at.fd, l.buf, l.names[:0]); err != nil {
		return err
	}
	if slices.ContainsFunc(l.names, func(e oscall.Entry) bool { return e.Name == ".gitignore" }) {
		at.rules = readIgnoreAt(at.fd, at.path)
	}
	for _, e := range l.names {
		if e.Type == oscall.DT_UNKNOWN {
			e.Type = typeOf(at.fd, e.Name)
		}
		switch {
		case e.Name == ".git":
			if at.path != "" && at.lo == at.hi && isRepository(at.fd, e.Type) && !p.forcedBelow(at.path) {
				return unsupported("%s is a repository of its own", strings.TrimSuffix(at.path, "/"))
			}
		case e.Type == oscall.DT_DIR:
			err = p.meetDir(at, e.Name)
		case e.Type == oscall.DT_REG || e.Type == oscall.DT_LNK: // git does not store pipes, sockets and devices either
			err = p.meetFile(at, e.Name)
		}
		if err != nil {
			return err
		}
	}
	done := make([]bool, len(at.unread))
	p.spread(len(at.unread), func(i int) { done[i] = !p.stopped() && p.read(at, &at.unread[i]) })
	for i, ok := range done {
		if ok {
			at.d.files = append(at.d.files, at.unread[i])
		}
	}
	return nil
}

// isRepository is git's question about the ".git" of a directory that it does not know yet.
func isRepository(fd int, typ byte) bool {
	if typ == oscall.DT_REG {
		return true // the file of a linked working tree or of a submodule
	}
	_, err := statAt(fd, ".git/HEAD")
	return typ == oscall.DT_DIR && err == nil
}

func typeOf(fd int, name string) byte {
	info, err := statAt(fd, name)
	switch {
	case err != nil || info.mode == 0:
		return oscall.DT_UNKNOWN
	case info.mode == modeDir:
		return oscall.DT_DIR
	case info.mode == modeLink:
		return oscall.DT_LNK
	}
	return oscall.DT_REG
}

func (p *pass) forcedBelow(dir string) bool {
	return slices.ContainsFunc(p.forced, func(path string) bool { return strings.HasPrefix(path, dir) })
}

func (p *pass) meetDir(at *place, name string) error {
	if e := p.ix.within(len(at.path), at.lo, at.hi, name); e != nil && e.mode == modeGitlink {
		return unsupported("%s is a submodule", e.name)
	}
	path := at.path + name + "/"
	if p.guard.covers(path) {
		return nil
	}
	name = path[len(at.path) : len(path)-1]
	lo, hi := p.ix.below(len(at.path), at.lo, at.hi, name)
	excluded := at.excluded || p.verdict(at.scope, path[:len(path)-1], name, true) == ignored
	if lo == hi && !p.forcedBelow(path) {
		if excluded {
			return nil
		}
		if !safeName(name) {
			return p.refuse(path)
		}
	}
	at.met[name] = true
	at.below = append(at.below, &place{scope: &scope{path: path, up: at.scope, excluded: excluded}, last: at.last.dir(name), lo: lo, hi: hi})
	return nil
}

func (p *pass) meetFile(at *place, name string) error {
	e := p.ix.within(len(at.path), at.lo, at.hi, name)
	last := at.last.file(name)
	switch {
	case e != nil:
		name = e.name[len(at.path):]
		if e.fixed() || at.guarded && p.guard.covers(e.name) {
			return nil // unmet takes it
		}
	case len(p.forced) > 0 && slices.Contains(p.forced, at.path+name):
	case at.ignores(p.scanner, name) || at.guarded && p.guard.covers(at.path+name):
		if name == ".gitattributes" { // it counts although it is not stored
			return p.checkAttributes(at.path, readRulesAt(at.fd, name))
		}
		return nil
	case !safeName(name):
		return p.refuse(at.path + name)
	case len(at.path)+len(name) >= oscall.PathMax:
		p.leave(at.path+name, whyLong)
		return nil
	}
	if e == nil && last != nil {
		name = last.name
	} else if e == nil {
		name = strings.Clone(name)
	}
	info, err := statAt(at.fd, name)
	if isGone(err) || err == nil && (info.mode == modeDir || info.mode == 0) {
		return nil // it went away again
	}
	f := file{name: name, mode: info.mode, st: info.st}
	switch {
	case err != nil:
		if passesOver(err) == "" {
			return fmt.Errorf("stat %s%s: %w", at.path, name, err)
		}
	case last != nil && !last.unsure && last.mode == f.mode && last.st.same(&f.st) && !(last.unsaved && p.how == readAndStore):
		at.d.files = append(at.d.files, *last)
		return nil
	case e != nil && e.ext&extIntent == 0 && e.mode == f.mode && e.st.same(&f.st) && stampBefore(e.st.mtimeS, e.st.mtimeN, p.ix.mtime):
		f.id = e.id
		at.d.files = append(at.d.files, f)
		return nil
	case e == nil && last == nil && p.how == readKnown:
		f.unsure, f.unsaved = true, true
		at.d.files = append(at.d.files, f)
		return nil
	}
	at.unread = append(at.unread, f)
	return nil
}

// fixed says that git does not look at the file in the working tree.
func (e *indexEntry) fixed() bool { return e.flags&flagAssume != 0 || e.ext&extSkip != 0 }

// unmet takes from the index what the scan does not look for, whether it is there or not.
func (p *pass) unmet(at *place) {
	for i := at.lo; i < at.hi; {
		e := &p.ix.entries[i]
		name, _, below := strings.Cut(e.name[len(at.path):], "/")
		if !below {
			if e.fixed() || at.guarded && p.guard.covers(e.name) {
				at.d.files = append(at.d.files, file{name: name, id: e.id, mode: e.mode, st: e.st, fixed: true})
			}
			i++
			continue
		}
		dir := e.name[:len(at.path)+len(name)+1]
		end := prefixEnd(p.ix.entries, i, at.hi, dir)
		if !at.met[name] {
			all := p.guard.covers(dir)
			c := p.ix.folder(dir, i, end, func(e *indexEntry) bool { return all || e.fixed() || p.guard.covers(e.name) })
			if c != nil {
				at.d.dirs = append(at.d.dirs, c)
			}
		}
		i = end
	}
}

// refuse skips a name that git takes for ".git", as git does by default.
func (p *pass) refuse(path string) error {
	if !p.strict {
		return unsupported("path %q", path)
	}
	p.leave(path, whyName)
	return nil
}

// checkAttributes leaves to git what the attribute file of a folder asks for.
func (s *scanner) checkAttributes(dir string, text []byte) error {
	if a := s.attrs(text); a != "" {
		return unsupported("%s.gitattributes asks for a conversion (%s)", dir, a)
	}
	return nil
}

// checkEnds leaves a file to git whose line ends it may have to convert. Without CRLF there is nothing to convert.
func (s *scanner) checkEnds(path string, data []byte) error {
	if s.ends != "" && strings.Contains(aliasString(data), "\r\n") {
		return unsupported("%s has CRLF line ends, and %s", path, s.ends)
	}
	return nil
}

// ignores says whether a file directly in the folder is ignored.
func (sc *scope) ignores(s *scanner, name string) bool {
	return sc.excluded || s.verdict(sc, sc.path+name, name, false) == ignored
}

// verdict asks the rules of a folder, of those above it, and of the whole repository, in this order.
func (s *scanner) verdict(sc *scope, path, name string, isDir bool) verdict {
	for ; sc != nil; sc = sc.up {
		if v := sc.rules.match(path, name, isDir); v != unsaid {
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

const (
	largeFile   = 8 << 20 // from here on files are streamed
	readRetries = 5       // for a file that changes while it is read
)

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// read names the content of a file, and stores it unless it is in the store. It is false where there is no file, or
// none that can be read; one that was known stays as it was known, as in git's index.
func (p *pass) read(at *place, f *file) bool {
	e, last := p.ix.within(len(at.path), at.lo, at.hi, f.name), at.last.file(f.name)
	r := fileReader{pass: p, at: at, f: f, holds: func(id objectID) bool {
		return last != nil && !last.unsaved && last.id == id || e != nil && e.ext&extIntent == 0 && e.id == id
	}}
	err := r.untilStill()
	if err == nil {
		f.unsure = f.unsure || f.unsaved || !stampBefore(f.st.ctimeS, f.st.ctimeN, p.started)
		return true
	}
	why := passesOver(err)
	if _, ok := errors.AsType[*unsupportedError](err); !ok && isGone(err) {
		return false
	} else if ok || why == "" {
		if !ok && err != context.Cause(p.ctx) {
			err = fmt.Errorf("read %s%s: %w", at.path, f.name, err)
		}
		p.fail(err)
		return false
	}
	p.leave(at.path+f.name, why)
	switch {
	case last != nil:
		*f = *last
	case e != nil:
		*f = file{name: f.name, id: e.id, mode: e.mode, st: e.st}
	}
	f.unsure = true
	return last != nil || e != nil
}

// fileReader reads one file.
type fileReader struct {
	*pass
	at    *place
	f     *file
	holds func(id objectID) bool // whether the store is known to have a content
}

// untilStill reads the file until it holds still. In the end it is taken as it was read, and read again by the next scan.
func (r *fileReader) untilStill() error {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for try := range readRetries {
		r.f.unsure = try == readRetries-1
		if done, err := r.once(buf); done || err != nil {
			return err
		}
	}
	return errChanged
}

// once makes one try; it is false when the file changed meanwhile.
func (r *fileReader) once(buf *[]byte) (done bool, err error) {
	info, err := statAt(r.at.fd, r.f.name)
	if err != nil {
		return false, err
	}
	switch info.mode {
	case 0, modeDir:
		return false, syscall.ENOENT
	case modeLink:
		return r.link(info, buf)
	}
	fd, err := oscall.Openat(r.at.fd, r.f.name, syscall.O_RDONLY|oscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err == syscall.ELOOP || err == syscall.EINTR {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer oscall.Close(fd)
	if info, err = statFD(fd); err != nil || info.mode != modeRegular && info.mode != modeExec {
		return false, err
	}
	r.f.mode, r.f.st = info.mode, info.st
	if info.size > largeFile {
		err = r.large(fd, info.size)
	} else {
		err = r.small(fd, int(info.size), buf)
	}
	if errors.Is(err, errChanged) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	after, err := statFD(fd)
	return r.f.unsure || after.st == info.st && after.mode == info.mode, err
}

func (r *fileReader) small(fd, size int, buf *[]byte) error {
	*buf = slices.Grow((*buf)[:0], size+1)
	data := (*buf)[:size+1]
	n, err := preadFull(fd, data, 0)
	if err != nil {
		return err
	}
	if n != size && !r.f.unsure {
		return errChanged
	}
	data = data[:min(n, size)]
	if err := r.checkEnds(r.at.path+r.f.name, data); err != nil {
		return err
	}
	if err := r.keep(data); err != nil || r.f.name != ".gitattributes" || r.holds(r.f.id) {
		return err
	}
	return r.checkAttributes(r.at.path, data)
}

func (r *fileReader) link(info fileInfo, buf *[]byte) (bool, error) {
	*buf = slices.Grow((*buf)[:0], oscall.PathMax)
	n, err := oscall.Readlinkat(r.at.fd, r.f.name, (*buf)[:oscall.PathMax])
	if err == syscall.EINVAL { // no link any more
		return false, nil
	}
	if err != nil {
		return false, err
	}
	r.f.mode, r.f.st = info.mode, info.st
	return true, r.keep((*buf)[:n])
}

// keep names the content, and stores it.
func (r *fileReader) keep(data []byte) error {
	r.f.id, r.f.unsaved = hashObject(kindBlob, data), false
	if r.holds(r.f.id) {
		return nil
	}
	if r.f.unsaved = r.how != readAndStore; r.f.unsaved {
		return nil
	}
	return r.store.write(r.f.id, kindBlob, data)
}

// large does the same in constant memory: it reads once to name the content, and again to store it.
func (r *fileReader) large(fd int, size int64) (err error) {
	if size > maxFile {
		return errTooLarge
	}
	if r.ends != "" {
		return unsupported("%s%s is large, and %s", r.at.path, r.f.name, r.ends)
	}
	r.f.id, err = hashStream(&fdReader{ctx: r.ctx, fd: fd, left: size}, size)
	if r.f.unsaved = false; err != nil || r.holds(r.f.id) {
		return err
	}
	if r.f.unsaved = r.how != readAndStore; r.f.unsaved {
		return nil
	}
	return r.store.stream(r.f.id, kindBlob, &fdReader{ctx: r.ctx, fd: fd, left: size}, size)
}

// fdReader reads a descriptor from its start, without owning it, until it is stopped.
type fdReader struct {
	ctx  context.Context // of one call: a reader lives no longer
	fd   int
	at   int64
	left int64
}

func (r *fdReader) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	p = p[:min(int64(len(p)), r.left)]
	n, err := preadFull(r.fd, p, r.at)
	r.at += int64(n)
	r.left -= int64(n)
	if err == nil && (n < len(p) || r.left == 0) {
		err = io.EOF
	}
	return n, err
}

// preadFull reads until p is full or the file ends.
func preadFull(fd int, p []byte, off int64) (n int, err error) {
	for n < len(p) {
		k, err := oscall.Pread(fd, p[n:], off+int64(n))
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return n, err
		}
		if k == 0 {
			break
		}
		n += k
	}
	return n, nil
}

// folder is a directory of the working tree as a scan found it, with the git tree that it makes: tracked files, and
// untracked ones that are not ignored. A scan makes new folders and never changes old ones; what an old one says of a
// file that did not change since is taken from there.
type folder struct {
	path   string    // "" or "a/b/"
	files  []file    // sorted by name
	dirs   []*folder // sorted as trees are, by name with a slash; none is empty
	id     objectID  // of its tree
	data   []byte    // its tree, until that is stored
	stored bool      // the tree and all below it are in the store
}

// file is a file or symbolic link of the working tree.
type file struct {
	name    string
	id      objectID // zero where it was not read
	mode    uint32
	st      fileStat
	fixed   bool // taken as the index has it: protected, assume-unchanged or skip-worktree
	unsure  bool // it may have changed, or change yet, without a change of st
	unsaved bool // its content is not in the store
}

func (d *folder) name() string {
	return d.path[strings.LastIndexByte(d.path[:len(d.path)-1], '/')+1 : len(d.path)-1]
}

// file finds a file directly in the folder, nil where it has none; so does dir.
func (d *folder) file(name string) *file {
	if d == nil {
		return nil
	}
	i, ok := slices.BinarySearchFunc(d.files, name, func(f file, name string) int { return strings.Compare(f.name, name) })
	if !ok {
		return nil
	}
	return &d.files[i]
}

func (d *folder) dir(name string) *folder {
	if d == nil {
		return nil
	}
	i, ok := slices.BinarySearchFunc(d.dirs, name, func(c *folder, name string) int { return compareEntries(c.name(), true, name, true) })
	if !ok {
		return nil
	}
	return d.dirs[i]
}

// each calls do for every file.
func (d *folder) each(do func(path string, f *file)) {
	for i := range d.files {
		do(d.path+d.files[i].name, &d.files[i])
	}
	for _, c := range d.dirs {
		c.each(do)
	}
}

// seal sorts what was found and makes the tree of it. prev is the folder as it was before, or nil.
func (d *folder) seal(prev *folder) {
	slices.SortFunc(d.files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	slices.SortFunc(d.dirs, func(a, b *folder) int { return compareEntries(a.name(), true, b.name(), true) })
	b := make([]byte, 0, 64+40*(len(d.files)+len(d.dirs)))
	i := 0
	for _, c := range d.dirs {
		name := c.name()
		for ; i < len(d.files) && compareEntries(d.files[i].name, false, name, true) < 0; i++ {
			b = appendEntry(b, d.files[i].mode, d.files[i].name, d.files[i].id)
		}
		b = appendEntry(b, modeDir, name, c.id)
	}
	for ; i < len(d.files); i++ {
		b = appendEntry(b, d.files[i].mode, d.files[i].name, d.files[i].id)
	}
	d.id = hashObject(kindTree, b)
	if d.stored = prev != nil && prev.stored && prev.id == d.id; !d.stored {
		d.data = b
	}
}

// store writes the trees that are not in the store. known is a tree that is there, HEAD's at the same place, or nil:
// what is the same need not be written.
func (d *folder) store(o *objectStore, known *objectID) error {
	if d.stored {
		return nil
	}
	if known != nil && *known == d.id {
		d.markStored()
		return nil
	}
	var items []treeItem
	if known != nil {
		b, err := o.tree(*known)
		if err == nil {
			items, err = parseTree(b)
		}
		if err != nil {
			return err
		}
	}
	for _, c := range d.dirs {
		var k *objectID
		if e := findItem(items, c.name(), true); e.mode != 0 {
			k = &e.id
		}
		if err := c.store(o, k); err != nil {
			return err
		}
	}
	if err := o.write(d.id, kindTree, d.data); err != nil {
		return err
	}
	d.stored, d.data = true, nil
	return nil
}

func (d *folder) markStored() {
	d.stored, d.data = true, nil
	for _, c := range d.dirs {
		c.markStored()
	}
}

// stampBefore compares the seconds and nanoseconds of a stat with a time.
func stampBefore(s, ns uint32, t time.Time) bool {
	sec := uint32(t.Unix())
	if ns == 0 { // a file system with coarse stamps
		return int64(s)+2 < t.Unix()
	}
	return s < sec || s == sec && ns < uint32(t.Nanosecond())
}
