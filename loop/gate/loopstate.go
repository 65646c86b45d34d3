package gate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// LoopState is .loop/state.json, in the field names that other tools and agents read and write.
type LoopState struct {
	Spec       string         `json:"spec"`
	Criteria   []string       `json:"criteria"`
	Status     map[string]Met `json:"criteriaStatus"` // by a criterion's text
	ExitSignal bool           `json:"exit_signal"`
	Steps      []string       `json:"steps"`
	Completed  []string       `json:"completedSteps"`
	Remaining  []string       `json:"remainingSteps"`
	Iteration  int            `json:"iteration"`
	State      string         `json:"status"` // in_progress, complete, blocked, paused
	Breaker    struct {
		Stuck     int    `json:"stuckCount"`
		LastUnmet string `json:"lastUnmet"`
	} `json:"circuitBreaker"`
}

// Met is the state of one criterion: a boolean, or an object where its verification is known.
type Met struct {
	Met          bool   `json:"met"`
	Verification string `json:"verification"`

	unclear bool // it was read, and is neither
}

// MarshalJSON writes a plain boolean where no verification is known.
func (m Met) MarshalJSON() ([]byte, error) {
	if m.Verification == "" {
		return json.Marshal(m.Met)
	}
	type object Met
	return json.Marshal(object(m))
}

// UnmarshalJSON reads true, false or {"met": true, "verification": "..."}. Anything else is false, and no error.
func (m *Met) UnmarshalJSON(raw []byte) error {
	var o struct {
		Met          *bool
		Verification string
	}
	err := json.Unmarshal(raw, &o.Met)
	if err != nil {
		err = json.Unmarshal(raw, &o)
	}
	*m = Met{Met: o.Met != nil && *o.Met, Verification: o.Verification, unclear: err != nil || o.Met == nil}
	return nil
}

// DecodeState reads the file. Values of the wrong type are named in problems; an error means that this is no such file
// at all.
func DecodeState(src []byte) (s *LoopState, problems []string, err error) {
	if len(src) > 8<<20 {
		return nil, nil, errors.New(".loop/state.json is larger than 8 MiB")
	}
	s = &LoopState{}
	err = json.Unmarshal(src, s)
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case ok && bytes.HasPrefix(bytes.TrimSpace(src), []byte("{")):
		problems = append(problems, fmt.Sprintf(".loop/state.json: %s has a value of the wrong type", wrong.Field))
	case err == nil && !bytes.HasPrefix(bytes.TrimSpace(src), []byte("{")):
		return nil, nil, errors.New(".loop/state.json is not a JSON object: it is null")
	case err != nil:
		return nil, nil, fmt.Errorf(".loop/state.json is not a JSON object: %w", err)
	}
	for _, k := range slices.Sorted(maps.Keys(s.Status)) {
		if s.Status[k].unclear {
			problems = append(problems, fmt.Sprintf(".loop/state.json: criteriaStatus of %q is neither true nor false",
				oneLine(k, 80)))
		}
	}
	return s, problems, nil
}

// Encode writes the file over what was there before: fields that we do not know stay. The same state gives the same
// bytes.
func (s *LoopState) Encode(before []byte) []byte {
	tree := func(src []byte) (t map[string]any) {
		d := json.NewDecoder(bytes.NewReader(src))
		d.UseNumber()
		if d.Decode(&t) != nil {
			return nil
		}
		return t
	}
	old := tree(before)
	if status, ok := old["criteriaStatus"].(map[string]any); ok {
		maps.DeleteFunc(status, func(k string, _ any) bool { _, ours := s.Status[k]; return !ours })
	}
	var out bytes.Buffer
	_ = json.Indent(&out, plainJSON(overlay(old, tree(plainJSON(s)))), "", "  ") // it is valid
	out.WriteByte('\n')
	return out.Bytes()
}

// overlay sets the members of now in old.
func overlay(old, now any) any {
	to, was := old.(map[string]any)
	from, is := now.(map[string]any)
	if !was || !is || to == nil {
		return now
	}
	for k, v := range from {
		to[k] = overlay(to[k], v)
	}
	return to
}

// plainJSON is a value without escapes for HTML.
func plainJSON(value any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(value) // texts, numbers, and what was read
	return bytes.TrimRight(b.Bytes(), "\n")
}
