package run

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"descartes/loop"
	"descartes/loop/gate"
	"descartes/scheduler/prompt"
)

// voice is the gate as the machine hears it. What the gate said is in the journal with the event to which it said it,
// and so is its state: a run that folds its journal again repeats both, and asks nothing twice.
type voice struct {
	gate     loop.Gate // nil: the first iteration that exits with status 0 is the last
	precheck bool      // something can be asked whether work that is hard to undo may begin
	words    string    // of what was asked

	facts gate.Facts      // of the try that is to be heard of next
	unfit string          // why what it made is in no commit, or ""
	last  gate.Decision   // what the gate said last, for people
	spoke []gate.Decision // since the last event
	says  []prompt.Say    // since the last event
	told  []prompt.Say    // what the journal says that it said; taken first
	folds bool            // the journal is being folded
}

// asker is a gate that speaks before the first iteration, and that a person can answer.
type asker interface {
	Begin(now time.Time) gate.Decision
	Answer(yes bool) gate.Decision
}

// Begin is asked at every start and resume.
func (v *voice) Begin(now time.Time) prompt.Say {
	a, ok := loop.Deciding(v.gate).(asker)
	return v.speak(func() gate.Decision {
		if !ok {
			return gate.Decision{Kind: gate.Continue}
		}
		return a.Begin(now)
	})
}

// Hear is told of a try whose agent ended by itself.
func (v *voice) Hear(h *prompt.Heard) prompt.Say {
	return v.speak(func() gate.Decision {
		v.facts.Now = h.At
		switch {
		case v.gate != nil:
			d := loop.Deciding(v.gate).Decide(v.facts)
			if d.Kind == gate.Done && !h.Passed {
				d.Kind, d.Reason = gate.Continue, cmp.Or(v.unfit, "what it did is not where it belongs")
			}
			return d
		case v.facts.Err == "" && h.Passed:
			return gate.Decision{Kind: gate.Done, Reason: "the command succeeded"}
		}
		return gate.Decision{Kind: gate.Continue, Reason: v.facts.Err}
	})
}

// Answer is a person's.
func (v *voice) Answer(_ prompt.Question, yes bool, _ time.Time) prompt.Say {
	a, ok := loop.Deciding(v.gate).(asker)
	return v.speak(func() gate.Decision {
		if !ok {
			return gate.Decision{Kind: gate.Continue}
		}
		return a.Answer(yes)
	})
}

// Agreed is what a pre-check says.
func (v *voice) Agreed(yes bool, _ time.Time) prompt.Say {
	return v.speak(func() gate.Decision {
		c, ok := loop.Deciding(v.gate).(*gate.Criteria)
		if !ok {
			return gate.Decision{Kind: gate.Continue}
		}
		d := c.Precheck(gate.Check{Name: "precheck", Passed: yes, Output: v.words})
		if d.Kind == gate.Blocked {
			d.Gate = "precheck"
		}
		return d
	})
}

// speak has the gate say something, or repeats what the journal has.
func (v *voice) speak(ask func() gate.Decision) prompt.Say {
	if v.folds {
		if len(v.told) == 0 {
			return prompt.Say{Word: prompt.Continue}
		}
		s := v.told[0]
		v.told = v.told[1:]
		return s
	}
	d := ask()
	v.last, v.spoke = d, append(v.spoke, d)
	s := v.say(&d)
	v.says = append(v.says, s)
	return s
}

// say is a gate's decision in the machine's words.
func (v *voice) say(d *gate.Decision) prompt.Say {
	switch {
	case d.Kind == gate.Done:
		return prompt.Say{Word: prompt.Done}
	case d.Kind == gate.Blocked && d.Gate == "precheck":
		return prompt.Say{Word: prompt.Blocked, What: prompt.NoCheck}
	case d.Kind == gate.Blocked:
		return prompt.Say{Word: prompt.Blocked}
	case d.Kind == gate.Open:
		return prompt.Say{Word: prompt.Open, What: prompt.Help, Until: d.Until}
	case d.Kind == gate.Ask && d.Gate == "precheck" && v.precheck:
		return prompt.Say{Word: prompt.First}
	case d.Kind == gate.Ask && d.Gate == "precheck":
		return prompt.Say{Word: prompt.Wait, What: prompt.NoCheck}
	case d.Kind == gate.Ask:
		return prompt.Say{Word: prompt.Wait, What: prompt.Question(d.Gate)}
	}
	return prompt.Say{Word: prompt.Continue}
}

// take returns what was said since the last event.
func (v *voice) take() (spoke []gate.Decision, says []prompt.Say) {
	spoke, says = v.spoke, v.says
	v.spoke, v.says = nil, nil
	return spoke, says
}

// state is the gate's, for the journal.
func (v *voice) state() (json.RawMessage, error) {
	if v.gate == nil {
		return nil, nil
	}
	b, err := json.Marshal(v.gate)
	if err != nil {
		return nil, fmt.Errorf("save the gate: %w", err)
	}
	return b, nil
}

// restore gives the gate its state from the journal. What was asked for comes from the settings: limits may be new, and
// the journal holds no secrets.
func (v *voice) restore(id string, known json.RawMessage) error {
	if s, ok := loop.Deciding(v.gate).(*gate.Status); ok {
		defer func(l gate.Limits) { s.Limits = l; s.Breaker.Begin(id) }(s.Limits)
	}
	if c, ok := loop.Deciding(v.gate).(*gate.Criteria); ok {
		defer func(spec string, asked gate.Asked, freely bool) {
			c.Spec, c.Asked, c.Freely = spec, asked, freely
		}(c.Spec, c.Asked, c.Freely)
		c.Asked = gate.Asked{} // decoding would append to its lists
	}
	if len(known) == 0 || v.gate == nil {
		return nil
	}
	if err := json.Unmarshal(known, v.gate); err != nil {
		return fmt.Errorf("restore the gate's state: %w", err)
	}
	return nil
}
