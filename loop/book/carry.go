package book

import (
	"encoding/json"
	"fmt"
	"reflect"

	"descartes/loop/journal"
)

// carried is what a line of the journal has for a machine: its event, and what was said to that.
type carried struct {
	Event string          `json:"event"`
	Is    json.RawMessage `json:"is,omitempty"` // its fields that are not zero
	Says  json.RawMessage `json:"says,omitempty"`
}

// Kinds are a machine's events by their names in the journal.
type Kinds[E any] map[string]func(json.RawMessage) (E, error)

// Kind reads an event of type T as one of a machine's.
func Kind[T, E any](b json.RawMessage) (E, error) {
	var e T
	if len(b) > 0 {
		if err := json.Unmarshal(b, &e); err != nil {
			var none E
			return none, err
		}
	}
	return any(e).(E), nil
}

// Carry puts an event of a machine, and what was said to it, nil for nothing, on a line.
func Carry(line *journal.Event, e, says any) error {
	b, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode an event: %w", err)
	}
	var fields any
	if err := json.Unmarshal(b, &fields); err != nil {
		return fmt.Errorf("encode an event: %w", err)
	}
	c := carried{Event: reflect.TypeOf(e).Name()}
	if fields = withoutZeros(fields); fields != nil {
		if c.Is, err = json.Marshal(fields); err != nil {
			return fmt.Errorf("encode an event: %w", err)
		}
	}
	if says != nil {
		if c.Says, err = json.Marshal(says); err != nil {
			return fmt.Errorf("encode an event: %w", err)
		}
	}
	line.Run, err = json.Marshal(c)
	return err
}

// Read reads what a line carries, and into says what was said to it; ok is false if it carries nothing.
func (k Kinds[E]) Read(line *journal.Event, says any) (e E, ok bool, err error) {
	if len(line.Run) == 0 {
		return e, false, nil
	}
	var c carried
	if err := json.Unmarshal(line.Run, &c); err != nil {
		return e, false, fmt.Errorf("event %d: %w", line.Seq, err)
	}
	read := k[c.Event]
	if read == nil {
		return e, false, fmt.Errorf("event %d is a %q, which this program does not know", line.Seq, c.Event)
	}
	if e, err = read(c.Is); err == nil && len(c.Says) > 0 && says != nil {
		err = json.Unmarshal(c.Says, says)
	}
	if err != nil {
		return e, false, fmt.Errorf("event %d: %w", line.Seq, err)
	}
	return e, true, nil
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
