package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"descartes/config"
	"descartes/internal/atomicfile"
	"descartes/internal/plainfile"
	"descartes/loop/journal"
)

// StateVersion is the version of state files that this program reads and writes.
const StateVersion = "1.0"

// State is a loop's state file: a snapshot of the journal up to Seq, for people and for other programs. Of one that a
// loop of ours wrote nothing but the id is read: what the loop was given is in its folder (givenFile), the rest in its
// journal. One of another program, which has neither, is where its loop goes on from.
type State struct {
	Version         string             `json:"version"`
	ID              string             `json:"id"`
	Kind            string             `json:"kind"` // KindTag, KindPrompt or another
	Iteration       int                `json:"iteration"`
	Config          config.Config      `json:"config"`
	StartedAt       time.Time          `json:"started_at"`
	LastIterationAt *time.Time         `json:"last_iteration_at"`
	Completed       bool               `json:"completed"`
	ExitReason      ExitReason         `json:"exit_reason"`
	Summaries       []IterationSummary `json:"iteration_summaries"`
	Tag             string             `json:"tag"`
	List            string             `json:"list,omitempty"` // below the project, where the tag alone does not find it
	// the branch whose list alone has the statuses, as another one is checked out; "": the task file has
	ListOn         string        `json:"list_on,omitempty"`
	Scope          Scope         `json:"scope,omitzero"`
	CurrentWave    int           `json:"current_wave"`
	TotalWaves     int           `json:"total_waves"`
	TasksCompleted int           `json:"tasks_completed"`
	TasksTotal     int           `json:"tasks_total"`
	IterationCount int           `json:"iteration_count"`
	CurrentTask    string        `json:"current_task,omitempty"`
	WaveCommits    []WaveCommit  `json:"wave_commits"`
	BlockedTasks   []Blocked     `json:"blocked_tasks"`
	Cost           *journal.Cost `json:"cost,omitempty"`
	TaskFile       string        `json:"task_file,omitempty"`
	// of a plan with boxes, in its order: what it calls them may be a place
	Entries []Entry         `json:"plan_entries,omitempty"`
	Grades  journal.Grades  `json:"grades,omitempty"`     // of tasks that are done
	Tree    string          `json:"tree,omitempty"`       // the working tree when the loop ended
	Seq     int64           `json:"seq"`                  // the task file and this file include events up to this one
	Session string          `json:"session_id,omitempty"` // id from the program that started it
	Gate    json.RawMessage `json:"gate,omitempty"`       // the state of a prompt loop's gate
	PID     int             `json:"pid"`
	Host    string          `json:"host,omitempty"`
}

// Scope limits a run to one wave or one task. A resume has the scope of the run that it resumes.
type Scope struct {
	Step bool   `json:"step,omitempty"` // one wave
	Task string `json:"task,omitempty"` // one task; implies Step
}

// ExitReason says why a loop ended, or that it runs.
type ExitReason struct {
	Type    string `json:"type"`
	Message string `json:"message,omitempty"`
}

// IterationSummary is one attempt, as the state file lists it.
type IterationSummary struct {
	Iteration     int       `json:"iteration"`
	Task          string    `json:"task_id,omitempty"`
	Attempt       int       `json:"attempt,omitempty"`
	StartedAt     time.Time `json:"started_at"`
	CompletedAt   time.Time `json:"completed_at"`
	ExitCode      int       `json:"exit_code"`
	OutputPreview string    `json:"output_preview"`
	PromiseSeen   bool      `json:"promise_checked"`
	Verdict       string    `json:"verdict,omitempty"`
	Commit        string    `json:"commit,omitempty"`
}

// WaveCommit is one commit of a loop. Task ids are numbers if the task file has numbers.
type WaveCommit struct {
	Wave      int       `json:"wave"`
	Hash      string    `json:"commit_hash"`
	Subject   string    `json:"-"` // the journal has it
	Timestamp time.Time `json:"timestamp"`
	Tasks     []TaskID  `json:"tasks_completed"`
}

// Blocked is one task that was given up.
type Blocked struct {
	Task     TaskID    `json:"task_id"`
	Title    string    `json:"title"`
	Reason   string    `json:"reason"`
	Question string    `json:"question,omitempty"` // what its agent asked instead of doing it
	Denied   []string  `json:"denied,omitempty"`   // what the sandbox refused its last attempt
	Attempts int       `json:"attempts"`
	At       time.Time `json:"blocked_at"`
}

// Entry is an entry of a plan and the id that it has for good.
type Entry struct {
	ID    string `json:"id"`
	Title string `json:"title"`
}

// TaskID is written as a number if the task file does so.
type TaskID struct {
	ID      string
	Numeric bool
}

// MarshalJSON writes a number or a string.
func (t TaskID) MarshalJSON() ([]byte, error) {
	if t.Numeric && json.Valid([]byte(t.ID)) {
		return []byte(t.ID), nil
	}
	return json.Marshal(t.ID)
}

// UnmarshalJSON reads a number's literal text, or a string.
func (t *TaskID) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		t.Numeric = false
		return json.Unmarshal(b, &t.ID)
	}
	var n json.Number
	if err := json.Unmarshal(b, &n); err != nil {
		return err
	}
	t.ID, t.Numeric = n.String(), true
	return nil
}

// maxSummaries limits the attempts in a state file; the journal has all of them.
const maxSummaries = 50

// VersionError says that another version of the program wrote a state file.
type VersionError struct{ Path, Version string }

func (e *VersionError) Error() string {
	return fmt.Sprintf("%s has version %q, this program reads %q", e.Path, e.Version, StateVersion)
}

// stateAway is what to do about a state file that is not ours to read.
const stateAway = "move it away, or choose another with --state-file"

// Next is what to do about it.
func (e *VersionError) Next() string { return stateAway }

// StateError says why a file is not a loop's state.
type StateError struct{ Path, Reason string }

func (e *StateError) Error() string { return "read state " + e.Path + ": " + e.Reason }

// Next is what to do about it.
func (e *StateError) Next() string { return stateAway }

// LoadState reads a state file. If it is missing, errors.Is(err, fs.ErrNotExist).
func LoadState(path string) (*State, error) {
	data, err := plainfile.Read("", path, MaxFile)
	var refused *plainfile.Error
	if errors.As(err, &refused) {
		return nil, &StateError{path, refused.Reason}
	}
	if err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	return ParseState(path, data)
}

// ParseState reads the text of a state file; path is for its errors.
func ParseState(path string, data []byte) (*State, error) {
	var v struct {
		Version *string `json:"version"`
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, &StateError{path, "it is cut short or not JSON: " + err.Error()}
	}
	if v.Version == nil {
		return nil, &StateError{path, "it is not a run's state file: no version"}
	}
	if *v.Version != StateVersion {
		return nil, &VersionError{Path: path, Version: *v.Version}
	}
	s := &State{Config: config.Config{IterationContext: true}}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, &StateError{path, err.Error()}
	}
	return s, s.complete(path)
}

// Save replaces the state file at path.
func (s *State) Save(fsys atomicfile.FS, path string) error {
	b, err := s.encode(nil)
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("save state: %w", err)
	}
	if err := atomicfile.Write(fsys, path, b, 0o600); err != nil {
		return fmt.Errorf("save state: %w", err)
	}
	return nil
}

// summaries are the last runs of agents. earlier are those of the state file, which a prompt loop may have had before
// its journal began.
func summaries(earlier []IterationSummary, h *journal.State) []IterationSummary {
	list := []IterationSummary{}
	for _, s := range earlier {
		if s.Task == "" && (len(h.Attempts) == 0 || s.Iteration < h.Attempts[0].Iteration-1) {
			list = append(list, s)
		}
	}
	for i, a := range h.Ended {
		s := IterationSummary{Iteration: a.Iteration - 1, Attempt: a.Number, CompletedAt: a.Ended,
			Verdict: string(a.Verdict), Commit: a.Commit}
		switch {
		case a.Task != "":
			s.Iteration, s.Task = i, a.Task
		case a.Number == 1:
			s.Attempt = 0
		}
		s.PromiseSeen = a.Verdict == journal.Continue || a.Verdict == journal.Done
		if d := a.Result; d != nil {
			s.ExitCode, s.OutputPreview = d.Code, Preview(d.Words)
			if a.Verdict == journal.Cancelled && d.Code == 0 {
				s.ExitCode = -1 // interrupted: there is none
			}
			s.PromiseSeen = s.PromiseSeen || d.Claimed && a.Task != ""
			s.StartedAt = a.Ended.Add(-time.Duration(d.Seconds * float64(time.Second)))
		}
		list = append(list, s)
	}
	return list[max(0, len(list)-maxSummaries):]
}

// Preview is the beginning of a text, at most 200 characters of it.
func Preview(s string) string {
	r := []rune(s)
	if len(r) > 200 {
		return string(r[:200]) + "..."
	}
	return s
}

// Kinds of loops.
const (
	KindTag    = "tag"
	KindPrompt = "prompt"
	KindPlan   = "plan"
	KindBuild  = "build"
)

// oldMaxIterations is the limit for a state file that has none.
const oldMaxIterations = 10

// complete fills in what a state file of another program, or of an older one, lacks.
func (s *State) complete(path string) error {
	if s.Kind == "" {
		s.Kind = KindPrompt
		if s.Tag != "" || s.Config.Scud.Tag != "" {
			s.Kind = KindTag
		}
	}
	if s.Kind == KindTag {
		return nil
	}
	if s.Config.MaxIterations == 0 {
		s.Config.MaxIterations = oldMaxIterations
	}
	if s.Iteration < 0 || s.Config.MaxIterations < 0 {
		return &StateError{path, "its counts are negative"}
	}
	if s.ID != "" {
		if err := ValidID(s.ID); err != nil {
			return &StateError{path, err.Error()}
		}
	}
	return nil
}

// ofTags are the members that only a tag loop's state has.
var ofTags = []string{"tag", "current_wave", "total_waves", "tasks_completed", "tasks_total", "iteration_count",
	"wave_commits", "blocked_tasks"}

// encode returns the state's text with only some members; nil for all that its kind has. It does not escape < and >,
// so that tags in prompts stay readable.
func (s *State) encode(only []string) ([]byte, error) {
	out := *s
	if s.Kind != KindTag {
		out.Config.Scud = config.ScudConfig{}
	}
	var b, text bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(&out); err != nil {
		return nil, err
	}
	members := []string{}
	gjson.ParseBytes(b.Bytes()).ForEach(func(k, v gjson.Result) bool {
		if only == nil && (s.Kind == KindTag || !slices.Contains(ofTags, k.Str)) || slices.Contains(only, k.Str) {
			members = append(members, k.Raw+":"+v.Raw)
		}
		return true
	})
	err := json.Indent(&text, []byte("{"+strings.Join(members, ",")+"}\n"), "", "  ")
	return text.Bytes(), err
}
