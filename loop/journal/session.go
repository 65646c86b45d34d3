package journal

import "fmt"

// Session is a client's conversation that an attempt at another task may continue.
type Session struct {
	ID      string
	Task    string // the task done in it
	Backend string
	Dir     string // where its client ran: the client may look for the conversation only there
	Spent   Tokens // since its beginning
	By      string // the task that continued it, or ""
}

// Tokens are what a run of an agent was charged for.
type Tokens struct{ Input, CacheRead, CacheWrite, Output int64 }

func (t Tokens) plus(d *Detail) Tokens {
	return Tokens{t.Input + d.InputTokens, t.CacheRead + d.CacheRead, t.CacheWrite + d.CacheWrite, t.Output + d.OutputTokens}
}

// keepSession records the session in which a task was done.
func (s *State) keepSession(t *Task, e *Event) {
	a := s.Attempt(e.Key())
	if a == nil || a.Agent == nil || a.Agent.Session == "" || a.Dir == "" {
		return
	}
	d := a.Agent
	before := Tokens{}
	if a.From != nil && a.From.ID == d.Session {
		before = a.From.Spent
	}
	t.Session = Session{ID: d.Session, Task: e.Task, Backend: d.Backend, Dir: a.Dir, Spent: before.plus(d)}
}

// Chains compares attempts that continued another's session with fresh ones. New input is what the client did not have in its cache.
type Chains struct {
	Attempts int    `json:"attempts"`         // attempts that continued the previous task's session
	New      *int64 `json:"new_input_tokens"` // of those attempts; null if no client reported tokens
	Fresh    *int64 `json:"fresh_average"`    // average new input tokens of a fresh agent in this loop
	Saved    *int64 `json:"saved_input_tokens"`
}

// Chains compares the attempts that continued a session with those of fresh agents.
func (s *State) Chains() Chains {
	var c Chains
	var chained, fresh, sum, told int64
	for _, a := range s.Attempts {
		if a.From != nil {
			c.Attempts++
		}
		d := a.Agent
		if d == nil || d.InputTokens+d.OutputTokens == 0 {
			continue
		}
		if n := d.InputTokens - d.CacheRead; a.From != nil {
			chained, told = chained+n, told+1
		} else {
			sum, fresh = sum+n, fresh+1
		}
	}
	if told > 0 {
		c.New = &chained
	}
	if fresh > 0 {
		sum /= fresh
		c.Fresh = &sum
	}
	if told > 0 && fresh > 0 {
		saved := sum*told - chained
		c.Saved = &saved
	}
	return c
}

// String is the comparison in one line, "" if no attempt continued a session.
func (c Chains) String() string {
	if c.Attempts == 0 {
		return ""
	}
	s := attempts(c.Attempts) + " in the session of the task before"
	if c.New == nil {
		return s + ", tokens unknown"
	}
	s += fmt.Sprintf(", %s new input tokens", thousands(*c.New))
	switch {
	case c.Saved == nil:
		return s
	case *c.Saved < 0:
		return s + fmt.Sprintf(", %s more than as many fresh agents", thousands(-*c.Saved))
	}
	return s + fmt.Sprintf(", %s fewer than as many fresh agents", thousands(*c.Saved))
}
