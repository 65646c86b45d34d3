package loop

import (
	"bytes"
	"encoding/json"
	"time"

	"descartes/loop/journal"
)

// Kinds of loops.
const (
	KindTag    = "tag"
	KindPrompt = "prompt"
	KindPlan   = "plan"
	KindBuild  = "build"
)

// oldMaxIterations is the limit of a state file that has none.
const oldMaxIterations = 10

// complete gives a state file of another program, or of an older one, what it lacks.
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

// promptState is the state of a loop that repeats a prompt, without what only a tag has.
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
	Config
	Scud *ScudConfig `json:"scud,omitempty"` // hides the one of Config
}

// encode is the state file's text. Prompts hold tags, which stay readable.
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
