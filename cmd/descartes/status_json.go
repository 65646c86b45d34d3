package main

import (
	"time"

	"descartes/loop"
	"descartes/loop/journal"
)

type statusJSON struct {
	ID           string              `json:"id"`
	Kind         string              `json:"kind"`
	State        string              `json:"state"`
	Requested    string              `json:"requested,omitempty"` // pause or cancel, of a live loop
	ExitReason   loop.ExitReason     `json:"exit_reason"`
	Tag          string              `json:"tag"`
	CurrentWave  int                 `json:"current_wave"`
	TotalWaves   int                 `json:"total_waves"`
	CurrentTask  *loop.TaskID        `json:"current_task"`
	Tasks        tasksJSON           `json:"tasks"`
	Waves        []committedWave     `json:"waves,omitempty"`
	Blocked      []loop.Blocked      `json:"blocked_tasks"`
	Questions    []questionJSON      `json:"questions"`
	Commits      []loop.WaveCommit   `json:"wave_commits"`
	Iteration    int                 `json:"iteration"`
	MaxIteration int                 `json:"max_iterations"`
	Cost         costJSON            `json:"cost"`
	TaskCosts    map[string]costJSON `json:"task_costs,omitempty"`
	Agents       []journal.AgentUse  `json:"agents"`            // what attempts were run with
	Waiting      *waitingJSON        `json:"waiting,omitempty"` // for a provider
	Verifying    *time.Time          `json:"verifying_since,omitempty"`
	Sandbox      string              `json:"sandbox"` // what is in force
	StartedAt    time.Time           `json:"started_at"`
	LastActivity time.Time           `json:"last_activity_at"`
	PID          int                 `json:"pid"`
	Gate         *gateReport         `json:"gate,omitempty"` // of a loop that a status or criteria gate ends
	StateFile    string              `json:"state_file"`
	EventsFile   string              `json:"events_file"`
}

type waitingJSON struct {
	Until   time.Time `json:"until"`
	Backend string    `json:"backend"`
	Reason  string    `json:"reason"`
}

type tasksJSON struct {
	Total      int `json:"total"`
	Done       int `json:"done"`
	Blocked    int `json:"blocked"`
	InProgress int `json:"in_progress"`
	Pending    int `json:"pending"`
	Held       int `json:"held"`
	Other      int `json:"other"`
}

type costJSON struct {
	USD           *float64 `json:"usd"`
	InputTokens   *int64   `json:"input_tokens"`
	OutputTokens  *int64   `json:"output_tokens"`
	Estimated     bool     `json:"estimated"`               // by the settings' prices
	Unknown       int      `json:"unknown_attempts"`        // whose dollars are not in usd
	UnknownTokens int      `json:"unknown_tokens_attempts"` // whose tokens are in neither sum
}

func jsonCost(c journal.Cost) costJSON {
	return costJSON{c.USD, c.InputTokens, c.OutputTokens, c.Estimated, c.Unknown, c.UnknownTokens}
}

// taskCosts are those of tasks of which anything is known.
func taskCosts(all map[string]journal.Cost) map[string]costJSON {
	out := map[string]costJSON{}
	for id, c := range all {
		if c.USD != nil || c.InputTokens != nil {
			out[id] = jsonCost(c)
		}
	}
	return out
}

func (st *loopStatus) report(waves bool) statusJSON {
	s := &st.view.State
	home := loop.NewHome(st.root)
	out := statusJSON{ID: s.ID, Kind: s.Kind, State: st.state(), ExitReason: s.ExitReason, Tag: s.Tag, CurrentWave: s.CurrentWave,
		TotalWaves: s.TotalWaves, Blocked: append([]loop.Blocked{}, s.BlockedTasks...), Commits: append([]loop.WaveCommit{}, s.WaveCommits...),
		Iteration: s.Iteration, MaxIteration: s.Config.Scud.MaxTotalIterations, StartedAt: s.StartedAt, LastActivity: st.lastActivity(),
		PID: s.PID, StateFile: shown(st.root, st.view.Path), EventsFile: shown(st.root, home.Events(s.ID))}
	if s.Kind != loop.KindTag {
		out.MaxIteration = s.Config.MaxIterations
	}
	if since := st.view.History.Verifying(); st.view.Live && !since.IsZero() {
		out.Verifying = &since
	}
	out.Sandbox = inForce(s.Config)
	out.Requested = string(st.view.Asked)
	out.Agents = append([]journal.AgentUse{}, s.Agents...)
	out.Gate = reportGate(s)
	if w, waits := st.view.History.WaitsUntil(); waits && !w.Until.IsZero() {
		out.Waiting = &waitingJSON{Until: w.Until, Backend: w.Backend, Reason: w.Reason}
	}
	if c := s.Cost; c != nil {
		out.Cost = jsonCost(*c)
	}
	out.Tasks = tasksJSON{Total: s.TasksTotal, Done: s.TasksCompleted}
	out.Questions = []questionJSON{}
	if b := st.board; b != nil {
		out.Questions = questionList(b, openQuestions(b, s))
		c := b.graph.Counts()
		out.Tasks = tasksJSON{c.Total, c.Done, c.Blocked, c.InProgress, c.Pending, c.Held, c.Other}
		if waves {
			out.Waves = b.wavesWithCommits()
			out.TaskCosts = taskCosts(st.view.History.Costs.Tasks)
			for i := range out.Waves {
				if c, ok := st.view.History.Costs.Waves[out.Waves[i].Number]; ok {
					cost := jsonCost(c)
					out.Waves[i].Cost = &cost
				}
			}
		}
		if s.CurrentTask != "" {
			id := b.id(s.CurrentTask)
			out.CurrentTask = &id
		}
	}
	return out
}

func (st *loopStatus) lastActivity() time.Time {
	if at := st.view.History.At; !at.IsZero() {
		return at
	}
	if at := st.view.State.LastIterationAt; at != nil {
		return *at
	}
	return st.view.State.StartedAt
}
