// Package fleet has the attempts of a run made on other machines. Code, specs, results and logs are git objects on a
// remote that all of them reach, below refs/descartes/<loop>/fleet. Which machine makes which attempt is a Carrier's
// concern, to which names and hashes are all it sees.
package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"descartes/config"
	"descartes/gitops"
	"descartes/internal/lazyregexp"
	"descartes/internal/safename"
	"descartes/loop"
	"descartes/loop/attempt"
)

// Carrier takes orders to workers. It is safe for concurrent use.
type Carrier interface {
	// Claim makes this the only run of its tag until it is released. Where it is another's, that is a *TakenError.
	// note hears what a person should know meanwhile, and lost that the claim is gone.
	Claim(ctx context.Context, h Hello, note func(string), lost func(error)) (release func(), err error)

	// Carry has an attempt made, or finds it where that was asked for before. hear hears, in this goroutine, what is
	// known of it before its result; its error withdraws the attempt, and is returned. Cancelling ctx interrupts the
	// agent, and what that left is the result.
	Carry(ctx context.Context, a Ask, hear func(Report) error) (Kept, error)
}

// Ask is an attempt that some worker is to make, without its content.
type Ask struct {
	Remote  string   `json:"remote"` // URL of the repository
	Loop    string   `json:"loop"`
	Tag     string   `json:"tag"`
	Task    string   `json:"task"`
	Title   string   `json:"title,omitempty"`
	Wave    int      `json:"wave,omitempty"`
	Try     int      `json:"try"`
	Needs   []string `json:"needs,omitempty"`    // labels of the workers that may make it, sorted
	Rank    string   `json:"priority,omitempty"` // of the task: critical, high, medium, low
	Backend string   `json:"backend,omitempty"`  // of its agent
	Commit  string   `json:"commit"`             // of the order
	Limit   int      `json:"limit"`              // seconds after which nobody waits for it any more
}

// ID names the attempt in the whole fleet: who asks for it twice gets the same one.
func (a *Ask) ID() string { return fmt.Sprintf("%s/%s/%d", a.Loop, a.Task, a.Try) }

// String says in a line what is asked for.
func (a *Ask) String() string {
	return cut(fmt.Sprintf("%s, wave %d, task %s, attempt %d: %s", a.Tag, a.Wave, a.Task, a.Try, a.Title), maxTitle)
}

// Kept is what a worker made of an attempt.
type Kept struct {
	Commit  string `json:"commit"` // of the result
	Verdict string `json:"verdict"`
}

// Report is what is known of an attempt before its result: who has it or, where Live has no Run, what it waits for.
type Report struct {
	Live Live
	Wait Wait
}

// Live is what a worker that has an attempt reports.
type Live struct {
	Host   string `json:"host"`
	Run    string `json:"run"`              // tells this try of the queue's from others at the same attempt
	Commit string `json:"commit,omitempty"` // of steps and log so far; "" before there are any
}

// Wait says what an attempt waits for that no worker has.
type Wait struct {
	For    string    `json:"for"`              // in words, after "waits for"
	Until  time.Time `json:"until,omitzero"`   // when it is over, where that is known
	Reason string    `json:"reason,omitempty"` // of a quota that is used up, in words
}

// Hello says which run asks: there is one for each tag of a repository.
type Hello struct {
	Remote string `json:"remote"`
	Tag    string `json:"tag"`
	Loop   string `json:"loop"`
	Host   string `json:"host"`
}

// TakenError says that somebody runs a tag already.
type TakenError struct{ Hello }

func (e *TakenError) Error() string {
	return fmt.Sprintf("%s runs %s already (run %s); if that run was killed, resume it there, or wait 90 s", e.Host,
		e.Tag, LoopName(e.Loop))
}

// Next is what to do about it.
func (e *TakenError) Next() string { return "descartes-fleet status lists what is under way" }

// Order is what lies in the commit that an Ask names, as order.json.
type Order struct {
	Version int           `json:"version"`
	Order   loop.Order    `json:"order"`
	Config  config.Config `json:"config"`
}

// Outcome is what a worker has made of an attempt so far: it lies in the commits that follow the order's under the
// attempt's ref, as made.json, beside the log.
type Outcome struct {
	Version int             `json:"version"`
	Host    string          `json:"host"`
	Run     string          `json:"run"`
	Steps   []attempt.Step  `json:"steps"`
	Result  *attempt.Result `json:"result,omitempty"` // nil: it is under way
	// names of further logs, which lie beside it; a step's log is one of these
	Beside []string `json:"beside,omitempty"`
}

// outcomeAt reads what a commit has; nothing is in that of an order.
func outcomeAt(ctx context.Context, repo *gitops.Repo, commit string) (out Outcome, err error) {
	b, err := repo.FileAt(ctx, commit, madeFile, maxOrder)
	if err != nil || b == nil {
		return out, err
	}
	if err = json.Unmarshal(b, &out); err == nil && out.Version != version {
		err = fmt.Errorf("another version of descartes, on %s, made it: all machines of a fleet need the same one", out.Host)
	} else if err == nil && !runName.MatchString(out.Run) {
		err = fmt.Errorf("%q is no name of a try", out.Run)
	}
	names := slices.Clone(out.Beside)
	for _, s := range out.Steps {
		names = append(names, s.Log)
	}
	for _, name := range names {
		if err == nil && name != "" && !besideName.MatchString(name) {
			err = fmt.Errorf("%q is no name of a log", name)
		}
	}
	return out, err
}

// version is that of the content of orders and results.
const version = 4

// The files of an attempt's commits.
const (
	orderFile = "order.json" // each of them has it
	madeFile  = "made.json"
	logFile   = "log"
)

const (
	maxOrder = 16 << 20 // bytes of an order, or of an outcome without its log
	maxLog   = 1 << 30
)

// The names that others choose.
var (
	label      = lazyregexp.New(`^[a-z0-9][a-z0-9._-]{0,31}$`)
	besideName = lazyregexp.New(`^[a-z0-9-]{1,40}\.log$`)                 // of a further log
	loopName   = lazyregexp.New(`^[a-z0-9][a-z0-9-]{0,63}\.[0-9a-f]{8}$`) // of a loop in the fleet, see NameLoop
	hash       = lazyregexp.New(`^([0-9a-f]{40}|[0-9a-f]{64})$`)          // of a commit
	runName    = lazyregexp.New(`^[A-Za-z0-9-]{1,80}$`)                   // of a try of the queue's
	// in URLs, which git prints as its settings have them
	logins = lazyregexp.New(`://[^/@\s]+@`)
)

// Labels sorts labels of a worker or needs of a task, each once.
func Labels(list []string) ([]string, error) {
	out := slices.Compact(slices.Sorted(slices.Values(list)))
	for _, l := range out {
		if !label.MatchString(l) {
			return nil, fmt.Errorf("%q is not a label: small letters, digits, - _ and . make one, at most 32 of them",
				l)
		}
	}
	return out, nil
}

// NameLoop is the name of a loop in the whole fleet. Ids are drawn for one project, and people choose them; mark tells
// it from others.
func NameLoop(id, mark string) string {
	sum := sha256.Sum256([]byte(mark))
	return fmt.Sprintf("%s.%x", id, sum[:4])
}

// LoopName is a loop's own id.
func LoopName(name string) string {
	id, _, _ := strings.Cut(name, ".")
	return id
}

// below is the prefix of everything of a loop on the remote.
func below(name string) (string, error) {
	if !loopName.MatchString(name) {
		return "", fmt.Errorf("a run cannot be called %q in a fleet", name)
	}
	id, mark, _ := strings.Cut(name, ".")
	return "refs/descartes/" + id + "/fleet/" + mark + "/", nil
}

// refOf is the ref of an attempt: the order, and on top of that what its workers make of it. Different tasks have
// different ones; a long id gets one that is made of it.
func refOf(loop, task string, try int) (string, error) {
	prefix, err := below(loop)
	if err == nil && (task == "" || try < 1) {
		err = fmt.Errorf("attempt %d at task %q has no name that a ref can have", try, task)
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%stasks/%s/%d", prefix, safename.Of(task), try), nil
}

// cut is the beginning of a text.
func cut(s string, most int) string { return strings.ToValidUTF8(s[:min(len(s), most)], "") }

// maxTitle bounds the bytes of a task's title that are said.
const maxTitle = 200

// Host is the name of this machine.
func Host() string {
	host, _ := os.Hostname()
	return host
}
