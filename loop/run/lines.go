package run

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"descartes/loop/journal"
	"descartes/scheduler/prompt"
)

// carried is what a line of the journal has for the machine: its event, and what the gate said when it heard of it.
type carried struct {
	Event string          `json:"event"`
	Is    json.RawMessage `json:"is,omitempty"` // its fields that are not zero
	Says  []prompt.Say    `json:"says,omitempty"`
}

// kinds are the machine's events by their names in the journal.
var kinds = map[string]func(json.RawMessage) (prompt.Event, error){
	"Resumed":         kind[prompt.Resumed],
	"BaselineStarted": kind[prompt.BaselineStarted],
	"BaselineEnded":   kind[prompt.BaselineEnded],
	"LastStarted":     kind[prompt.LastStarted],
	"LastEnded":       kind[prompt.LastEnded],
	"Started":         kind[prompt.Started],
	"Unprepared":      kind[prompt.Unprepared],
	"AgentEnded":      kind[prompt.AgentEnded],
	"CheckStarted":    kind[prompt.CheckStarted],
	"CheckEnded":      kind[prompt.CheckEnded],
	"ReviewStarted":   kind[prompt.ReviewStarted],
	"Reviewed":        kind[prompt.Reviewed],
	"DeliverStarted":  kind[prompt.DeliverStarted],
	"Delivered":       kind[prompt.Delivered],
	"PrecheckStarted": kind[prompt.PrecheckStarted],
	"Prechecked":      kind[prompt.Prechecked],
	"AskStarted":      kind[prompt.AskStarted],
	"Answered":        kind[prompt.Answered],
	"LimitMet":        kind[prompt.LimitMet],
	"Asked":           kind[prompt.Asked],
	"Broken":          kind[prompt.Broken],
	"LimitsChanged":   kind[prompt.LimitsChanged],
	"Ended":           kind[prompt.Ended],
}

func kind[E prompt.Event](b json.RawMessage) (prompt.Event, error) {
	var e E
	if len(b) == 0 {
		return e, nil
	}
	err := json.Unmarshal(b, &e)
	return e, err
}

// carry puts an event of the machine, and what the gate said to it, on a line.
func carry(line *journal.Event, e prompt.Event, says []prompt.Say) error {
	b, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode an event: %w", err)
	}
	var fields any
	if err := json.Unmarshal(b, &fields); err != nil {
		return fmt.Errorf("encode an event: %w", err)
	}
	c := carried{Event: reflect.TypeOf(e).Name(), Says: says}
	if !slices.ContainsFunc(says, func(s prompt.Say) bool { return s.Word != prompt.Continue }) {
		c.Says = nil // which is what a gate is taken to say
	}
	if fields = withoutZeros(fields); fields != nil {
		if c.Is, err = json.Marshal(fields); err != nil {
			return fmt.Errorf("encode an event: %w", err)
		}
	}
	line.Run, err = json.Marshal(c)
	return err
}

// carriedBy reads what a line has for the machine; nil if it has nothing.
func carriedBy(line *journal.Event) (prompt.Event, []prompt.Say, error) {
	if len(line.Run) == 0 {
		return nil, nil, nil
	}
	var c carried
	if err := json.Unmarshal(line.Run, &c); err != nil {
		return nil, nil, fmt.Errorf("event %d: %w", line.Seq, err)
	}
	read := kinds[c.Event]
	if read == nil {
		return nil, nil, fmt.Errorf("event %d is a %q, which this program does not know", line.Seq, c.Event)
	}
	e, err := read(c.Is)
	if err != nil {
		return nil, nil, fmt.Errorf("event %d: %w", line.Seq, err)
	}
	return e, c.Says, nil
}

// noTime is how a time that is zero is written.
const noTime = "0001-01-01T00:00:00Z"

// withoutZeros leaves out what decoding gives back without it; nil if nothing is left.
func withoutZeros(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k, member := range x {
			if x[k] = withoutZeros(member); x[k] == nil {
				delete(x, k)
			}
		}
		if len(x) == 0 {
			return nil
		}
	case []any:
		if len(x) == 0 {
			return nil
		}
	case bool:
		if !x {
			return nil
		}
	case float64:
		if x == 0 {
			return nil
		}
	case string:
		if x == "" || x == noTime {
			return nil
		}
	}
	return v
}
