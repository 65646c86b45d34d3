package journal

// Stand is where a task is in a loop. These events change it, and no others; change and close are how.
//
//	event                                            from                 to
//	task_started                                     any                  underway
//	attempt_started                                  shelved              underway
//	task_done                                        any                  done
//	task_blocked                                     any                  blocked
//	loop_paused, loop_finished                       underway             shelved
//	  if it is named and no attempt at it is open    any                  idle
//	  baseline_failed, before a retried one began    idle                 blocked
//	loop_started, loop_resumed: retried, answered    any                  idle
//	list_changed                                     any but done         idle
//	loop_rewound                                     any                  idle
//	warning: its commit was taken away               any                  idle
//
// Where an attempt at it is meanwhile, see Phase.
type Stand string

// The stands of tasks, as the task file calls them, but for a task whose run ended in the middle.
const (
	StandIdle     Stand = ""
	StandUnderway Stand = "in-progress"
	StandShelved  Stand = "shelved"
	StandDone     Stand = "done"
	StandBlocked  Stand = "blocked"
)

// status is what the task file calls it.
func (s Stand) status() string {
	if s == StandIdle || s == StandShelved {
		return "pending"
	}
	return string(s)
}

// Open reports whether it was started and is neither done nor blocked.
func (t *Task) Open() bool { return t.Stand == StandUnderway || t.Stand == StandShelved }

// change gives a task a new stand, and its status in the task file.
func (s *State) change(t *Task, to Stand) {
	if t.Stand, t.since = to, s.Seq; t.ID != "" {
		s.changes = append(s.changes, t)
	}
}

// close ends what a task that was started stands on.
func (s *State) close(t *Task, to Stand) {
	s.change(t, to)
	if to == StandDone { // a later retry needs the failure for its spec
		t.Failure, t.Blocked = Failure{}, nil
	}
	t.Ground, t.CutShort = Ground{}, Failure{}
	if s.Current == t.ID {
		s.Current = ""
	}
}

// TakeChanges returns the new statuses since the last call that events after seq gave.
func (s *State) TakeChanges(seq int64) map[string]string {
	out := make(map[string]string, len(s.changes))
	for _, t := range s.changes {
		if t.since > seq {
			out[t.ID] = t.Stand.status()
		}
	}
	s.changes = s.changes[:0]
	return out
}
