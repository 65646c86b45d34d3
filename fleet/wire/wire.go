// Package wire is how an attempt travels between the machine that has the run and the one that makes it. Code, specs, results and logs are
// git objects on a remote that both can reach, below refs/descartes/<loop>; what else is said between the programs is in lines of JSON, each
// below 4 KiB. It knows no queue: who carries the lines from machine to machine is its callers' concern.
package wire

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"descartes/internal/config"
	"descartes/internal/lazyregexp"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/store"
)

// Ask is an attempt that somebody is to make, without its content.
type Ask struct {
	Remote string `json:"remote"` // URL of the repository
	Loop   string `json:"loop"`
	Tag    string `json:"tag"`
	Task   string `json:"task"`
	Title  string `json:"title,omitempty"`
	Wave   int    `json:"wave,omitempty"`
	Try    int    `json:"try"`

	Needs   []string `json:"needs,omitempty"`    // labels of the workers that may make it, sorted
	Rank    string   `json:"priority,omitempty"` // of the task: critical, high, medium, low
	Backend string   `json:"backend,omitempty"`  // of its agent

	Commit string `json:"commit"` // of the order, which is kept in Ref
	Ref    string `json:"ref"`
	Limit  int    `json:"limit"`            // seconds after which nobody waits for it any more
	Silent int    `json:"silent,omitempty"` // seconds after which a worker that says nothing is given up; 0: as the fleet has it
}

// ID names the attempt in the whole fleet: who asks for it twice gets the same one.
func (a *Ask) ID() string { return fmt.Sprintf("%s/%s/%d", a.Loop, a.Task, a.Try) }

// Kept is what a worker left on the remote.
type Kept struct {
	Ref    string `json:"ref"`
	Commit string `json:"commit,omitempty"` // "" before there is any
	Host   string `json:"host,omitempty"`
	Cut    bool   `json:"cut,omitempty"`   // the attempt was ended from outside
	Limit  *Limit `json:"limit,omitempty"` // that its agent met
}

// Limit says until when the quota of an account is used up.
type Limit struct {
	Account string    `json:"account"`
	Backend string    `json:"backend"`
	Until   time.Time `json:"until,omitzero"` // zero where the agent did not say
	Reason  string    `json:"reason,omitempty"`
	Host    string    `json:"host,omitempty"` // that met it
	At      time.Time `json:"at,omitzero"`    // when
}

// Wait says what an attempt waits for that no worker has.
type Wait struct {
	For    string    `json:"for"`              // in words, after "waits for"
	Until  time.Time `json:"until,omitzero"`   // when it is over, where that is known
	Reason string    `json:"reason,omitempty"` // of a quota, in words: each account that could make it has none left
}

// Labels sorts labels of a worker or needs of a task, each once.
func Labels(list []string) ([]string, error) {
	out := slices.Clone(list)
	slices.Sort(out)
	out = slices.Compact(out)
	for _, l := range out {
		if !label.MatchString(l) {
			return nil, fmt.Errorf("%q is not a label: small letters, digits, - _ and . make one, at most 32 of them", l)
		}
	}
	if len(out) > MostLabels {
		return nil, fmt.Errorf("%d labels, and at most %d are possible", len(out), MostLabels)
	}
	return out, nil
}

// MostLabels is how many labels a worker or a task may have: a worker has a queue for each choice of its labels.
const MostLabels = 5

// label is what a label may be.
var label = lazyregexp.New(`^[a-z0-9][a-z0-9._-]{0,31}$`)

// Line is what the programs say to each other. Which fields it has says what it is about.
type Line struct {
	ID     int    `json:"id,omitempty"`     // of the attempt it is about; 0: the run
	Hello  *Hello `json:"hello,omitempty"`  // the first line of a run
	Ask    *Ask   `json:"ask,omitempty"`    // make this attempt
	Cancel bool   `json:"cancel,omitempty"` // end it

	Ready bool   `json:"ready,omitempty"` // the run may begin
	Live  *Kept  `json:"live,omitempty"`  // a worker has it; what it reports so far
	Wait  *Wait  `json:"wait,omitempty"`  // what it waits for
	Done  *Kept  `json:"done,omitempty"`  // its result
	Lost  string `json:"lost,omitempty"`  // why it had no result
	Note  string `json:"note,omitempty"`  // a person should know
	Error string `json:"error,omitempty"` // why the run ends
	Taken bool   `json:"taken,omitempty"` // of Error: somebody else runs the tag
}

// Hello says which run asks: there is one for each tag of a repository.
type Hello struct {
	Remote string `json:"remote"`
	Tag    string `json:"tag"`
	Loop   string `json:"loop"`
	Host   string `json:"host"`
}

// Order is what lies in a commit that an Ask names, as order.json.
type Order struct {
	Version int           `json:"version"`
	Order   loop.Order    `json:"order"`
	Config  config.Config `json:"config"`
}

// Outcome is what lies in the commit of a result, as result.json, beside the attempt's log.
type Outcome struct {
	Version int            `json:"version"`
	Host    string         `json:"host"`
	Result  attempt.Result `json:"result"`
	Steps   []attempt.Step `json:"steps"`
	Beside  []string       `json:"beside,omitempty"` // names of further logs, which lie beside it; a step's log is one of these
}

// live is the ref of what the same worker reported before.
func (k *Kept) live() string { return instead(k.Ref, results, live) }

// of reports whether that is a part of the attempt asked for: a worker, or the server, could name any other ref, and fetching it would overwrite
// the one of that name here.
func (k *Kept) of(a *Ask, part string) bool {
	ref, err := Ref(a.Loop, part, a.Task, a.Try)
	try, ok := strings.CutPrefix(k.Ref, ref+"-")
	return err == nil && ok && runName.MatchString(try)
}

// besideName is what a further log may be called.
var besideName = lazyregexp.New(`^[a-z0-9-]{1,40}\.log$`)

// maxTitle bounds the bytes of a task's title that are said.
const maxTitle = 200

// cut is the beginning of a text.
func cut(s string, most int) string { return strings.ToValidUTF8(s[:min(len(s), most)], "") }

// version is that of the content of orders and results.
const version = 1

const (
	maxLine  = 64 << 10 // of the lines between two programs
	maxOrder = 16 << 20 // of an order, or of a result without its log
	maxLog   = 1 << 30
)

// loopName is what a loop may be called in the fleet: its own id, and what tells it from those of the same id elsewhere.
var loopName = lazyregexp.New(`^[a-z0-9][a-z0-9-]{0,63}\.[0-9a-f]{8}$`)

// NameLoop is the name of a loop in the whole fleet. Ids are drawn for one project, and people choose them; mark tells it from others.
func NameLoop(id, mark string) string {
	sum := sha256.Sum256([]byte(mark))
	return id + "." + hex.EncodeToString(sum[:4])
}

// LoopName is a loop's own id.
func LoopName(name string) string {
	id, _, _ := strings.Cut(name, ".")
	return id
}

// Below is the prefix of everything of a loop on the remote.
func Below(name string) (string, error) {
	if !loopName.MatchString(name) {
		return "", fmt.Errorf("a loop cannot be called %q in a fleet", name)
	}
	id, mark, _ := strings.Cut(name, ".")
	return "refs/descartes/" + id + "/fleet/" + mark + "/", nil
}

// Ref names a ref of a loop; part says what of. Different tasks have different ones; a long id gets one that is made of it.
func Ref(name, part, task string, try int) (string, error) {
	below, err := Below(name)
	if err != nil {
		return "", err
	}
	if task == "" || try < 1 {
		return "", fmt.Errorf("attempt %d at task %q has no name that a ref can have", try, task)
	}
	folder := store.FileName(task)
	if len(folder) > maxTask {
		sum := sha256.Sum256([]byte(task))
		folder = "%-" + hex.EncodeToString(sum[:16]) // as no other id has it
	}
	return fmt.Sprintf("%s%s/%s/%d", below, part, folder, try), nil
}

// instead is the ref of another part of the same attempt. A loop may be called like a part.
func instead(ref, part, other string) string {
	i := max(0, strings.Index(ref, "/fleet/"))
	return ref[:i] + strings.Replace(ref[i:], "/"+part+"/", "/"+other+"/", 1)
}

// maxTask bounds the bytes of a task's id in a ref: it is the name of a folder.
const maxTask = 200

// The parts of a loop's refs on the remote.
const (
	orders  = "orders"
	results = "results"
	live    = "live"
	sent    = "sent"
	opened  = "run" // says that the remote takes what a run puts there
)

// Writer writes lines. It is safe for concurrent use.
type Writer struct {
	mu sync.Mutex
	w  io.Writer
}

// NewWriter writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Say writes a line.
func (w *Writer) Say(l Line) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err = w.w.Write(append(b, '\n'))
	return err
}

// Reader reads lines.
type Reader struct{ s *bufio.Scanner }

// NewReader reads from r.
func NewReader(r io.Reader) *Reader {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 4096), maxLine)
	return &Reader{s}
}

// Lines are those of a program, until its output ends or is none of ours. They must be read to their end.
func Lines(r io.Reader) <-chan Line {
	lines := make(chan Line)
	go func() {
		defer close(lines)
		for r := NewReader(r); ; {
			l, err := r.Next()
			if err != nil {
				return
			}
			lines <- l
		}
	}()
	return lines
}

// Next is the next line; io.EOF after the last.
func (r *Reader) Next() (l Line, err error) {
	if !r.s.Scan() {
		if err = r.s.Err(); err == nil {
			err = io.EOF
		}
		return l, err
	}
	if err := json.Unmarshal(r.s.Bytes(), &l); err != nil {
		return l, fmt.Errorf("not a line of ours: %w", err)
	}
	return l, nil
}

// InputError is a mistake in what a person asked for.
type InputError struct{ Message, Hint string }

func (e *InputError) Error() string { return e.Message }

// errGone says that the other program has ended.
var errGone = errors.New("descartes-fleet has ended")

// patience is how long a program that was asked to end is waited for.
const patience = 20 * time.Second
