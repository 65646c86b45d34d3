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
	Spec       string
	Criteria   []string
	Status     map[string]Met // criteriaStatus, by a criterion's text
	ExitSignal bool
	Steps      []string
	Completed  []string
	Remaining  []string
	Iteration  int
	State      string // "status": in_progress, complete, blocked, paused
	Stuck      int    // circuitBreaker.stuckCount
	LastUnmet  string // circuitBreaker.lastUnmet

	extra        map[string]json.RawMessage // fields that we do not know
	extraBreaker map[string]json.RawMessage
}

// Met is the state of one criterion. It is written as a plain boolean where no verification is known.
type Met struct {
	Met          bool
	Verification string
	extra        map[string]json.RawMessage
}

// DecodeState reads the file. A field of the wrong type keeps its zero value and is named in problems;
// an error means that this is no such file at all.
func DecodeState(src []byte) (s *LoopState, problems []string, err error) {
	if len(src) > 8<<20 {
		return nil, nil, errors.New(".loop/state.json is larger than 8 MiB")
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(src, &fields); err != nil || fields == nil {
		return nil, nil, fmt.Errorf(".loop/state.json is not a JSON object: %w", orNull(err))
	}
	s = &LoopState{Status: map[string]Met{}}
	take := func(from map[string]json.RawMessage, key string, to any) {
		raw, ok := from[key]
		delete(from, key)
		if !ok || bytes.Equal(raw, []byte("null")) {
			return
		}
		if json.Unmarshal(raw, to) != nil {
			problems = append(problems, fmt.Sprintf(".loop/state.json: %s has a value of the wrong type", key))
		}
	}
	var status, breaker map[string]json.RawMessage
	take(fields, "spec", &s.Spec)
	take(fields, "criteria", &s.Criteria)
	take(fields, "criteriaStatus", &status)
	take(fields, "exit_signal", &s.ExitSignal)
	take(fields, "steps", &s.Steps)
	take(fields, "completedSteps", &s.Completed)
	take(fields, "remainingSteps", &s.Remaining)
	take(fields, "iteration", &s.Iteration)
	take(fields, "status", &s.State)
	take(fields, "circuitBreaker", &breaker)
	take(breaker, "stuckCount", &s.Stuck)
	take(breaker, "lastUnmet", &s.LastUnmet)
	s.extra, s.extraBreaker = fields, breaker
	for _, k := range slices.Sorted(maps.Keys(status)) {
		m, ok := decodeMet(status[k])
		if !ok {
			problems = append(problems, fmt.Sprintf(".loop/state.json: criteriaStatus of %q is neither true nor false", oneLine(k, 80)))
		}
		s.Status[k] = m
	}
	return s, problems, nil
}

func orNull(err error) error {
	if err == nil {
		return errors.New("it is null")
	}
	return err
}

// decodeMet reads true, false or {"met": true, "verification": "..."}.
func decodeMet(raw json.RawMessage) (m Met, ok bool) {
	if json.Unmarshal(raw, &m.Met) == nil && !bytes.Equal(raw, []byte("null")) {
		return m, true
	}
	m = Met{}
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil || object == nil {
		return m, false
	}
	ok = json.Unmarshal(object["met"], &m.Met) == nil
	if !ok {
		m.Met = false
	}
	if raw, given := object["verification"]; given && json.Unmarshal(raw, &m.Verification) != nil {
		ok = false
	}
	delete(object, "met")
	delete(object, "verification")
	m.extra = object
	return m, ok
}

// Encode writes the file: the known fields in their usual order, criteria in theirs, then the fields
// that we do not know. The same state gives the same bytes.
func (s *LoopState) Encode() []byte {
	var status []any
	for _, k := range s.order() {
		m := s.Status[k]
		var value any = m.Met
		if m.Verification != "" || len(m.extra) > 0 {
			value = object(m.extra, "met", m.Met, "verification", m.Verification)
		}
		status = append(status, k, value)
	}
	all := object(s.extra,
		"spec", s.Spec, "criteria", filled(s.Criteria), "criteriaStatus", object(nil, status...), "exit_signal", s.ExitSignal,
		"steps", filled(s.Steps), "completedSteps", filled(s.Completed), "remainingSteps", filled(s.Remaining),
		"iteration", s.Iteration, "status", s.State,
		"circuitBreaker", object(s.extraBreaker, "stuckCount", s.Stuck, "lastUnmet", s.LastUnmet))
	var out bytes.Buffer
	_ = json.Indent(&out, all, "", "  ") // it is valid
	out.WriteByte('\n')
	return out.Bytes()
}

// order is the names of criteriaStatus: the criteria first, then what else has a state.
func (s *LoopState) order() []string {
	var keys []string
	for _, c := range s.Criteria {
		if _, ok := s.Status[c]; ok && !slices.Contains(keys, c) {
			keys = append(keys, c)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(s.Status)) {
		if !slices.Contains(s.Criteria, k) {
			keys = append(keys, k)
		}
	}
	return keys
}

func filled(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// object is a JSON object: names and values in their order, then the members that we do not know.
func object(rest map[string]json.RawMessage, pairs ...any) json.RawMessage {
	for _, k := range slices.Sorted(maps.Keys(rest)) {
		pairs = append(pairs, k, rest[k])
	}
	b := []byte{'{'}
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, plainJSON(pairs[i])...), ':'), plainJSON(pairs[i+1])...)
	}
	return append(b, '}')
}

// plainJSON is a value without escapes for HTML.
func plainJSON(value any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(value) // texts, numbers, and raw messages that were read
	return bytes.TrimRight(b.Bytes(), "\n")
}
