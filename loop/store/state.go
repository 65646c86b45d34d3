package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"descartes/internal/atomicfile"
	"descartes/internal/config"
	"descartes/internal/plainfile"
	"descartes/loop/journal"
)

// StateVersion is the version of state files that this program reads and writes.
const StateVersion = "1.0"

// State is a loop's state file: a snapshot of the journal up to Seq, for people, for other programs, and for
// continuing without the journal. The journal is the truth.
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
	CurrentWave     int                `json:"current_wave"`
	TotalWaves      int                `json:"total_waves"`
	TasksCompleted  int                `json:"tasks_completed"`
	TasksTotal      int                `json:"tasks_total"`
	IterationCount  int                `json:"iteration_count"`
	CurrentTask     string             `json:"current_task,omitempty"`
	WaveCommits     []WaveCommit       `json:"wave_commits"`
	BlockedTasks    []Blocked          `json:"blocked_tasks"`
	Cost            *journal.Cost      `json:"cost,omitempty"`
	Agents          []journal.AgentUse `json:"agents,omitempty"` // what attempts ran with, in the order of first use
	TaskFile        string             `json:"task_file,omitempty"`
	Entries         []Entry            `json:"plan_entries,omitempty"` // of a plan with boxes, in its order: what it calls them may be a place
	Noticed         []journal.Notice   `json:"noticed,omitempty"`      // what looks said about attempts that passed
	Grades          journal.Grades     `json:"grades,omitempty"`       // of tasks that are done
	Checks          []journal.Tally    `json:"checks,omitempty"`       // results of named checks
	Flaky           []journal.Flaky    `json:"flaky,omitempty"`        // tests that failed and passed when run again
	Tree            string             `json:"tree,omitempty"`         // the working tree when the loop ended
	Seq             int64              `json:"seq"`                    // the task file and this file include events up to this one
	Session         string             `json:"session_id,omitempty"`   // id from the program that started it
	Gate            json.RawMessage    `json:"gate,omitempty"`         // the state of a prompt loop's gate
	PID             int                `json:"pid"`
	Host            string             `json:"host,omitempty"`
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

// maxLeft limits the lists of a state file.
const maxLeft = 1000

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
		return nil, &StateError{path, "it is not a loop's state file: no version"}
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
	b, err := s.encode()
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

// AddSummary adds a summary and drops the oldest beyond the limit.
func (s *State) AddSummary(sum IterationSummary) {
	s.Summaries = append(s.Summaries, sum)
	if n := len(s.Summaries) - maxSummaries; n > 0 {
		s.Summaries = append(s.Summaries[:0], s.Summaries[n:]...)
	}
}

// Summary is the end of an attempt or an iteration for the state file; ok is false for other events.
func Summary(h *journal.State, e *journal.Event) (s IterationSummary, ok bool) {
	s = IterationSummary{CompletedAt: e.TS}
	cut := false
	switch e.Type {
	case journal.AttemptFinished:
		s.Iteration, s.Task, s.Attempt, s.Verdict = max(0, h.Iteration-1), e.Task, e.Attempt, string(e.Verdict)
		cut = e.Verdict == journal.Cancelled
	case journal.IterationFinished:
		s.Iteration, s.Verdict, s.Commit = e.Iteration-1, string(e.Verdict), e.Commit
		if s.PromiseSeen, cut = e.Verdict == journal.Continue || e.Verdict == journal.Done, e.Verdict == journal.Cancelled; e.Attempt > 1 {
			s.Attempt = e.Attempt
		}
	default:
		return s, false
	}
	if d := e.Detail; d != nil {
		s.ExitCode, s.OutputPreview = d.Code, Preview(d.Words)
		if cut && d.Code == 0 {
			s.ExitCode = -1 // interrupted: there is none
		}
		if s.Task != "" {
			s.PromiseSeen = d.Claimed
		}
		s.StartedAt = e.TS.Add(-time.Duration(d.Seconds * float64(time.Second)))
	}
	return s, true
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

// promptState is the state of a prompt loop, without a tag's fields.
type promptState struct {
	Version         string             `json:"version"`
	ID              string             `json:"id,omitempty"`
	Kind            string             `json:"kind"`
	Iteration       int                `json:"iteration"`
	Config          promptConfig       `json:"config"`
	StartedAt       time.Time          `json:"started_at"`
	LastIterationAt *time.Time         `json:"last_iteration_at"`
	Completed       bool               `json:"completed"`
	ExitReason      ExitReason         `json:"exit_reason"`
	Summaries       []IterationSummary `json:"iteration_summaries"`
	Cost            *journal.Cost      `json:"cost,omitempty"`
	Tree            string             `json:"tree,omitempty"`
	Seq             int64              `json:"seq"`
	Session         string             `json:"session_id,omitempty"`
	Gate            json.RawMessage    `json:"gate,omitempty"`
	PID             int                `json:"pid"`
	Host            string             `json:"host,omitempty"`
}

type promptConfig struct {
	config.Config
	Scud *config.ScudConfig `json:"scud,omitempty"` // hides the one of Config
}

// encode returns the state file's text. It does not escape < and >, so that tags in prompts stay readable.
func (s *State) encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if s.Kind == KindTag {
		err := e.Encode(s)
		return b.Bytes(), err
	}
	p := promptState{Version: s.Version, ID: s.ID, Kind: s.Kind, Iteration: s.Iteration, Config: promptConfig{Config: s.Config}, StartedAt: s.StartedAt,
		LastIterationAt: s.LastIterationAt, Completed: s.Completed, ExitReason: s.ExitReason, Summaries: append([]IterationSummary{}, s.Summaries...),
		Cost: s.Cost, Tree: s.Tree, Seq: s.Seq, Session: s.Session, Gate: s.Gate, PID: s.PID, Host: s.Host}
	err := e.Encode(p)
	return b.Bytes(), err
}
