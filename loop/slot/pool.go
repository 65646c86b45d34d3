package slot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/crash"
	"descartes/internal/lockfile"
	"descartes/internal/oneline"
	"descartes/internal/oscall"
	"descartes/internal/plainfile"
	"descartes/internal/redact"
)

// PoolOptions say how to make a project's slots.
type PoolOptions struct {
	Repo    *gitops.Repo
	FS      atomicfile.FS
	Loop    string           // whose runs they serve; "" is none
	Place   string           // folder with the project's slots, in no tree that a user's tools walk
	Root    string           // the project's folder
	Dir     string           // where commands would run in the user's tree
	Fixed   []string         // files of the project that attempts must not change
	Shown   bool             // commands see the slot at the project's path
	Fresh   bool             // remove ignored files after each attempt
	MaxCopy int64            // bytes of ignored files to copy into a slot; 0 copies none
	Keep    []string         // ignored files that a check slot has too, as patterns
	Redact  *redact.Redactor // secrets that no commit of an agent's may say; nil: none
	// Layers reports whether folders in a folder can be mounted over each other; nil: they cannot, and a check slot has
	// copies
	Layers func(dir string) bool

	// command to run once in each slot, and again when a lock file changed; "" is what installs what a lock file pins,
	// where that is another than the user's folders were made by
	Setup   string
	SetupOn []string                                                 // other files that are as lock files are, as patterns
	Run     func(ctx context.Context, s *Slot, command string) error // runs it
}

// Pool makes a project's slots and hands them out. A slot is made once and stays for later runs. Several loops may use
// slots of one project: each slot has a lock. Safe for concurrent use.
//
// The slots lie in the user's state folder, not below the project, where gofmt, eslint and find would list them, and
// not in .git, where find would too. No sandbox may write there: what git reads about a slot decides what runs.
type Pool struct {
	opt PoolOptions

	mu      sync.Mutex
	planned *copies // nil until the first slot is made
	said    bool    // what is not copied was reported
	notes   []string
	layers  *bool // whether check slots have layers; nil: nobody asked
}

// NewPool returns a pool without making slots.
func NewPool(o PoolOptions) *Pool { return &Pool{opt: o} }

// longest bounds the bytes of a project's own name in that of its place.
const longest = 200

// PlaceOf is the folder with the slots of the project at root, below state, the user's folder for our state.
func PlaceOf(state, root string) string {
	sum := sha256.Sum256([]byte(root))
	name := filepath.Base(root)
	if len(name) > longest { // a file's name has 255 at most
		name = strings.ToValidUTF8(name[:longest], "")
	}
	return filepath.Join(state, "pool", name+"-"+hex.EncodeToString(sum[:6]))
}

// objects is the path through which the .git of each slot of a place reaches the repository's objects.
func objects(place string) string { return filepath.Join(place, "objects") }

// rootLink is the link of a place to the project's folder.
func rootLink(place string) string { return filepath.Join(place, "project") }

// Abandoned lists the places beside a place whose projects are not there any more, by the folders in which these were.
// Nobody uses a slot of theirs.
func Abandoned(place string) map[string]string {
	gone := map[string]string{}
	pools := filepath.Dir(place)
	all, _ := os.ReadDir(pools)
	for _, e := range all {
		other := filepath.Join(pools, e.Name())
		root, err := os.Readlink(rootLink(other))
		if err != nil || PlaceOf(filepath.Dir(pools), root) != other {
			continue
		}
		_, missing := os.Lstat(root)
		if errors.Is(missing, fs.ErrNotExist) && !slices.ContainsFunc(Slots(other),
			func(s SlotInfo) bool { return s.Busy }) {
			gone[other] = root
		}
	}
	return gone
}

// SlotFiles is the folder of a slot's prompt, temporary files and sockets for a loop. It is removed with the slot.
func SlotFiles(place string, number int, loop string) string {
	return filepath.Join(place, strconv.Itoa(number)+".files", loop)
}

func (p *Pool) dir(number int) string { return filepath.Join(p.opt.Place, strconv.Itoa(number)) }

// lockSlot locks a slot; nil if another process has it. The lock file is never removed, so that two processes cannot
// lock different files.
func lockSlot(place string, number int) (*flock.Flock, error) {
	path := filepath.Join(place, strconv.Itoa(number)+".lock")
	if err := os.MkdirAll(place, 0o700); err != nil {
		return nil, err
	}
	f := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR))
	ok, err := f.TryLock()
	if err != nil || !ok {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Take gives the caller a slot: the one with a number, or with 0 the first free one. It returns nil if that number is
// taken. Its first Prepare makes the slot if it does not exist.
func (p *Pool) Take(ctx context.Context, number int) (*Slot, error) {
	return p.take(ctx, max(1, number), number > 0)
}

// firstLab is the number of the first slot that attempts never use: what runs there may leave what no agent may see.
const firstLab = 1001

// firstHeld is the number of the first slot that only runs held-out checks.
const firstHeld = 2001

// TakeLab gives the caller a slot that attempts never use; held says that only held-out checks do.
func (p *Pool) TakeLab(ctx context.Context, held bool) (*Slot, error) {
	if held {
		return p.take(ctx, firstHeld, false)
	}
	return p.take(ctx, firstLab, false)
}

// take takes the first free slot from a number on, or only that one.
func (p *Pool) take(ctx context.Context, from int, only bool) (*Slot, error) {
	for n := from; ; n++ {
		lock, err := lockSlot(p.opt.Place, n)
		if err != nil {
			return nil, fmt.Errorf("lock slot %d: %w", n, err)
		}
		if lock == nil && only {
			return nil, nil
		}
		if lock == nil {
			continue
		}
		if err := os.Symlink(p.opt.Root, rootLink(p.opt.Place)); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, errors.Join(fmt.Errorf("note the project of the slots: %w", err), lock.Close())
		}
		s := &Slot{Number: n, pool: p, lock: lock, told: map[string]bool{}, fixed: NewFiles(p.opt.Root)}
		s.layered = s.forChecks() && p.layered()
		if err := p.open(ctx, s); err != nil {
			return nil, errors.Join(err, lock.Close())
		}
		s.fixed.at = s.Host(p.opt.Root)
		return s, nil
	}
}

// layered reports whether check slots have layers here.
func (p *Pool) layered() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.layers == nil {
		can := p.opt.Shown && p.opt.Layers != nil && p.opt.Layers(p.opt.Place)
		p.layers = &can
	}
	return *p.layers
}

// Notes returns what a person should know about the slots made since the last call, in lines.
func (p *Pool) Notes() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	notes := p.notes
	p.notes = nil
	return notes
}

// slotState is recorded about a slot between runs, once it is whole.
type slotState struct {
	Setup string `json:"setup,omitempty"` // what the set-up command was run for
	// the tree that the user had when the folders that package managers made for him were copied
	For       gitops.Tree `json:"for,omitempty"`
	Made      []string    `json:"made,omitempty"`  // what it made that git ignores
	Bytes     int64       `json:"bytes,omitempty"` // what it occupies
	Weighed   time.Time   `json:"weighed,omitzero"`
	Layered   bool        `json:"layered,omitempty"`
	Furnished time.Time   `json:"furnished,omitzero"` // when it had got all that it is given
}

// readState is an error for a slot that was not completely made.
func readState(dir string) (st slotState, err error) {
	err = readJSON(filepath.Join(dir, "slot.json"), &st)
	return st, err
}

func readJSON(path string, to any) error {
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, to)
	}
	return err
}

// record replaces a file of the slot.
func (p *Pool) record(s *Slot, name string, what any) error {
	b, err := json.Marshal(what)
	if err == nil {
		err = atomicfile.Write(p.opt.FS, filepath.Join(p.dir(s.Number), name), append(b, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("record what slot %d has: %w", s.Number, err)
	}
	return nil
}

// open opens the slot's folder. One that a killed run was making, or that git cannot use, is made anew.
func (p *Pool) open(ctx context.Context, s *Slot) (err error) {
	s.state, err = readState(p.dir(s.Number))
	if err == nil && s.state.Layered == s.layered {
		s.git, err = p.opt.Repo.OpenSlot(ctx, gitops.SlotOptions{Dir: p.dir(s.Number), Objects: objects(p.opt.Place),
			Pin: s.ref("base")})
		if _, broken := errors.AsType[*gitops.BrokenSlotError](err); !broken {
			return err
		}
	}
	return p.remake(ctx, s)
}

// remake removes a slot and opens an empty one.
func (p *Pool) remake(ctx context.Context, s *Slot) (err error) {
	if s.git != nil {
		_ = s.git.Close() // its files are removed anyway
	}
	if err := plainfile.RemoveAll(p.dir(s.Number)); err != nil {
		return fmt.Errorf("remove slot %d: %w", s.Number, err)
	}
	s.current, s.state = false, slotState{Layered: s.layered}
	s.git, err = p.opt.Repo.OpenSlot(ctx, gitops.SlotOptions{Dir: p.dir(s.Number), Objects: objects(p.opt.Place),
		Pin: s.ref("base")})
	return err
}

// furnish brings the ignored files up to date, once in a run, and runs the set-up command if it is due.
func (p *Pool) furnish(ctx context.Context, s *Slot) error {
	was, setup := s.current, s.state.Setup
	if !s.current {
		if err := p.copyInto(ctx, s); err != nil {
			return fmt.Errorf("copy ignored files into slot %d: %w", s.Number, err)
		}
		if err := p.record(s, "slot.json", s.state); err != nil {
			return err
		}
		s.current = true
	}
	if p.opt.Setup == "" {
		if err := p.install(ctx, s); err != nil {
			return err
		}
	} else {
		key, err := p.setupKey(ctx, s)
		if err != nil {
			return err
		}
		if s.state.Setup != key {
			err := p.setUp(ctx, s, p.opt.Setup)
			switch cut := errors.Is(err, context.Canceled) || ctx.Err() != nil; {
			case err != nil && !cut && !s.forChecks() && s.start.Before != s.start.Base:
				// the work that its agent goes on from is at fault: this agent may mend it
				p.mu.Lock()
				p.notes = append(p.notes, err.Error())
				p.mu.Unlock()
				key = ""
			case err != nil:
				return err
			}
			crash.Point("slot set up")
			s.state.Setup = key
			if err := p.record(s, "slot.json", s.state); err != nil {
				return err
			}
		}
	}
	if !was || s.state.Setup != setup || s.forChecks() && !s.layered {
		var err error
		if s.state.Furnished, err = oscall.Clock(); err == nil {
			err = p.record(s, "slot.json", s.state)
		}
		if err != nil {
			return err
		}
	}
	return p.apart(ctx, s)
}

// setUp runs the set-up command, and notes what it makes.
func (p *Pool) setUp(ctx context.Context, s *Slot, command string) error {
	before, err := s.git.Ignored(ctx)
	if err == nil {
		err = p.opt.Run(ctx, s, command)
	}
	if err != nil {
		return err
	}
	after, err := s.git.Ignored(ctx)
	for _, name := range after {
		if !slices.Contains(before, name) && !slices.Contains(s.state.Made, name) {
			s.state.Made = append(s.state.Made, name)
		}
	}
	return err
}

// install installs what the lock files pin that are others than those by which the user's folders were made. Where it
// fails the checks say what is missing: an attempt may have written a lock file that no program takes.
func (p *Pool) install(ctx context.Context, s *Slot) error {
	if s.state.For == "" || p.opt.Run == nil {
		return nil
	}
	changes, err := p.opt.Repo.Changed(ctx, s.state.For, s.start.Before)
	if err != nil {
		return nil // the tree is gone that he had then
	}
	var commands []string
	key, listed := sha256.New(), map[string]string{}
	for _, c := range changes {
		f, _ := lockfile.Of(c.Path)
		if f.Frozen == "" || c.Op == 'D' {
			continue
		}
		if len(listed) == 0 {
			if listed, err = s.git.Listed(ctx); err != nil {
				return fmt.Errorf("look for lock files in slot %d: %w", s.Number, err)
			}
		}
		fmt.Fprintf(key, "%s %s\n", c.Path, listed[c.Path])
		program, _, _ := strings.Cut(f.Frozen, " ")
		commands = append(commands, fmt.Sprintf("(! command -v %s >/dev/null || { cd %s && %s; })", program,
			quoted(p.inDir(s, path.Dir(c.Path))), f.Frozen))
	}
	want := ""
	if len(commands) > 0 {
		want = hex.EncodeToString(key.Sum(nil)[:16])
	}
	switch {
	case s.state.Setup == want:
		return nil
	case want == "" && s.layered:
		return s.cold()
	case want == "":
		return nil // what is installed has more than the lock files pin
	}
	err = p.setUp(ctx, s, strings.Join(commands, " && "))
	if errors.Is(err, context.Canceled) || ctx.Err() != nil {
		return err
	}
	if err != nil {
		p.mu.Lock()
		p.notes = append(p.notes, err.Error())
		p.mu.Unlock()
	}
	s.state.Setup = want
	return p.record(s, "slot.json", s.state)
}

// inDir is a folder of the slot as its commands, which start in Dir, name it.
func (p *Pool) inDir(s *Slot, dir string) string {
	rel, err := filepath.Rel(p.opt.Dir, filepath.Join(p.opt.Repo.Root(), dir))
	if err != nil {
		return dir
	}
	return rel
}

func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// setupKey identifies a set-up: the command, and the lock files in the slot.
func (p *Pool) setupKey(ctx context.Context, s *Slot) (string, error) {
	listed, err := s.git.Listed(ctx)
	if err != nil {
		return "", fmt.Errorf("look for lock files in slot %d: %w", s.Number, err)
	}
	blobs, also := map[string]string{}, gitops.NewPatterns(p.opt.SetupOn)
	for name, about := range listed {
		if _, locks := lockfile.Of(name); locks || among(name, also) {
			blobs[name] = about
		}
	}
	b, err := json.Marshal(blobs)
	sum := sha256.Sum256(append(b, p.opt.Setup...))
	return hex.EncodeToString(sum[:16]), err
}

// copiedRecord is the file of a slot that says what of the user's was copied into it.
const copiedRecord = "copied.json"

// copyInto copies what git ignores in the user's tree and the slot does not have as it is there. A slot records what
// it was given: what its attempts made of that stays.
func (p *Pool) copyInto(ctx context.Context, s *Slot) error {
	c, err := p.copies(ctx, s)
	if err != nil {
		return err
	}
	var was map[string]stamp
	if !p.opt.Fresh || s.forChecks() { // which no attempt changes
		_ = readJSON(filepath.Join(p.dir(s.Number), copiedRecord), &was) // everything is copied again if it is damaged
	}
	recorded := len(was)
	if s.forChecks() { // strip removed what it had by other settings
		maps.DeleteFunc(was, func(name string, _ stamp) bool { return !p.kept(name) })
	}
	if s.layered && recorded != len(was) {
		if err := s.fresh(baseLayer); err != nil {
			return err
		}
		was = nil
	}
	tracked, err := s.git.Listed(ctx)
	if err != nil {
		return fmt.Errorf("list the files of slot %d: %w", s.Number, err)
	}
	to := s.git.Tree()
	if s.layered {
		to = s.in(baseLayer)
	}
	now, bad, err := c.into(ctx, to, was, tracked)
	if err != nil {
		return err
	}
	if recorded != len(was) || !maps.Equal(was, now) {
		if s.layered {
			if err := s.cold(); err != nil {
				return err
			}
		}
		if err := p.record(s, copiedRecord, now); err != nil {
			return err
		}
		s.state.For = ""
	}
	if s.state.For == "" {
		if s.state.For, err = p.opt.Repo.HeadTree(ctx); err != nil {
			return err
		}
	}
	crash.Point("slot furnished")
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.said && !s.forChecks() {
		p.said = true
		if c.large != "" {
			p.notes = append(p.notes, c.large)
		}
		if len(bad) > 0 {
			p.notes = append(p.notes, "ignored files that could not be copied into the slots: "+oneline.List(bad))
		}
		if empty := s.git.EmptyModules(); len(empty) > 0 && p.opt.Setup == "" {
			p.notes = append(p.notes, "submodules are empty folders in the slots (pool.setup can check them out): "+
				gitops.Reasons(empty))
		}
	}
	return nil
}

// copies are what a slot gets.
func (p *Pool) copies(ctx context.Context, s *Slot) (*copies, error) {
	c, err := p.plan(ctx)
	if err == nil && s.forChecks() {
		c = c.only(p.kept)
	}
	return c, err
}

// plan decides, once, what to copy.
func (p *Pool) plan(ctx context.Context) (*copies, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.planned != nil {
		return p.planned, nil
	}
	list, err := p.opt.Repo.Ignored(ctx)
	if err != nil {
		return nil, err
	}
	p.planned, err = planCopies(ctx, p.opt.Repo.Root(), list, p.opt.MaxCopy)
	return p.planned, err
}

// Slots lists the slots in a place, by number.
func Slots(place string) (out []SlotInfo) {
	entries, _ := os.ReadDir(place)
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil || !e.IsDir() || n < 1 {
			continue
		}
		i := SlotInfo{Number: n, Dir: filepath.Join(place, e.Name())}
		st, err := readState(i.Dir)
		i.Whole, i.bytes = err == nil, st.Bytes
		for _, name := range []string{"slot.json", "git/HEAD", "git/index"} { // each Prepare writes these
			if fi, err := os.Lstat(filepath.Join(i.Dir, name)); err == nil && fi.ModTime().After(i.Last) {
				i.Last = fi.ModTime()
			}
		}
		lock, err := lockSlot(place, n)
		if i.Busy = lock == nil || err != nil; lock != nil {
			_ = lock.Close()
		}
		out = append(out, i)
	}
	slices.SortFunc(out, func(a, b SlotInfo) int { return a.Number - b.Number })
	return out
}

// Occupied is how many bytes a place's slots had when each was last weighed.
func Occupied(place string) (n int64) {
	for _, s := range Slots(place) {
		n += s.bytes
	}
	return n
}

// weigh records what the slot occupies. That takes a look at each of its files, so once a day is enough.
func (p *Pool) weigh(s *Slot) error {
	if _, err := readState(p.dir(s.Number)); err != nil || time.Since(s.state.Weighed) < 24*time.Hour {
		return nil
	}
	s.state.Bytes, s.state.Weighed = Weight(p.dir(s.Number)), time.Now()
	return p.record(s, "slot.json", s.state)
}

// Weight is how many bytes the files in a folder have.
func Weight(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if fi, err := e.Info(); err == nil {
				n += fi.Size()
			}
		}
		return nil
	})
	return n
}

// SlotInfo describes a slot from outside.
type SlotInfo struct {
	Number int
	Dir    string
	Busy   bool // a process has it
	Whole  bool // it was completely made
	Last   time.Time
	bytes  int64
}

// RemoveSlot removes a slot, but not its lock file; false if a process has it.
func RemoveSlot(place string, number int) (bool, error) {
	lock, err := lockSlot(place, number)
	if err != nil || lock == nil {
		return false, err
	}
	dir := filepath.Join(place, strconv.Itoa(number))
	if err = errors.Join(plainfile.RemoveAll(dir), plainfile.RemoveAll(dir+".files"), lock.Close()); err != nil {
		return false, fmt.Errorf("remove slot %d: %w", number, err)
	}
	return true, nil
}
