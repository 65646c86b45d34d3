package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"descartes/fleet/wire"
)

// queueOf is the task queue of attempts with these needs.
func queueOf(needs []string) string {
	if len(needs) == 0 {
		return Queue
	}
	return Queue + "/" + strings.Join(needs, "+")
}

// queues are those of the attempts that a worker with these labels can make: of each choice of them, none and all included.
func queues(labels []string) []string {
	out := []string{Queue}
	for choice := 1; choice < 1<<len(labels); choice++ {
		var needs []string
		for i, l := range labels {
			if choice&(1<<i) != 0 {
				needs = append(needs, l)
			}
		}
		out = append(out, queueOf(needs))
	}
	return out
}

// slots are those of one worker. All its queues share them. The SDK reserves a slot before it polls a queue, and an idle poll would keep it from
// the other queues: so a poll only waits until there is a free one, and an attempt takes it when it comes. One that comes too many is handed
// back.
type slots struct {
	room func() string // why the disk has no room for an attempt, "" where it has

	mu      sync.Mutex
	free    int
	changed chan struct{} // closed when one becomes free
	aside   map[string]pause
}

// pause keeps a worker from a queue whose attempts it handed back or could not make, so that another worker gets them.
type pause struct {
	until time.Time
	times int // in a row
}

// A worker that cannot make what a queue has leaves it alone for so long, twice as long each time.
const (
	firstPause = 2 * time.Second
	lastPause  = 30 * time.Second
	lookAgain  = 5 * time.Second // at a full disk
)

func newSlots(n int, room func() string) *slots {
	return &slots{room: room, free: n, changed: make(chan struct{}), aside: map[string]pause{}}
}

// take takes a slot for an attempt from a queue; ok is false where none is free.
func (s *slots) take() (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == 0 {
		return false
	}
	s.free--
	return true
}

func (s *slots) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	close(s.changed)
	s.changed = make(chan struct{})
}

// stepAside leaves a queue to others for a while.
func (s *slots) stepAside(queue string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.aside[queue]
	if time.Now().Before(p.until) { // another poll that was under way
		return
	}
	p.until = time.Now().Add(min(firstPause<<min(p.times, 10), lastPause))
	p.times++
	s.aside[queue] = p
}

// made ends what stepAside began: the worker has made an attempt.
func (s *slots) made(queue string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.aside, queue)
}

// ReserveSlot waits until a queue may be polled.
func (s *slots) ReserveSlot(ctx context.Context, info worker.SlotReservationInfo) (*worker.SlotPermit, error) {
	for {
		s.mu.Lock()
		free, changed, wait := s.free, s.changed, time.Until(s.aside[info.TaskQueue()].until)
		s.mu.Unlock()
		if free > 0 && wait <= 0 {
			if s.room() == "" {
				return &worker.SlotPermit{}, nil
			}
			wait = lookAgain
		}
		var timer <-chan time.Time
		if wait > 0 {
			timer = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-changed:
		case <-timer:
		}
	}
}

// TryReserveSlot is for eager activities, which no worker of ours takes.
func (s *slots) TryReserveSlot(worker.SlotReservationInfo) *worker.SlotPermit { return nil }

// MarkSlotUsed does nothing: the attempt takes the slot.
func (s *slots) MarkSlotUsed(worker.SlotMarkUsedInfo) {}

// ReleaseSlot does nothing: the attempt gives it back.
func (s *slots) ReleaseSlot(worker.SlotReleaseInfo) {}

// MaxSlots is unknown to the SDK: permits are no slots.
func (s *slots) MaxSlots() int { return 0 }

// tuner has a queue polled as the slots allow.
func (s *slots) tuner() (worker.WorkerTuner, error) {
	one, err := worker.NewFixedSizeSlotSupplier(1)
	if err != nil {
		return nil, err
	}
	return worker.NewCompositeTuner(worker.CompositeTunerOptions{ActivitySlotSupplier: s, WorkflowSlotSupplier: one, LocalActivitySlotSupplier: one, NexusSlotSupplier: one, SessionActivitySlotSupplier: one})
}

// The types of the errors with which a worker hands an attempt back that it did not begin.
const (
	noSlot  = "NoSlot"
	noRoom  = "NoRoom"
	noQuota = "NoQuota"
)

// handBack gives an attempt to others that was not begun.
func handBack(kind, why string, after time.Duration) error {
	return temporal.NewApplicationErrorWithOptions(why, kind, temporal.ApplicationErrorOptions{NextRetryDelay: after, Category: temporal.ApplicationErrorCategoryBenign})
}

// handedBack reports whether a type of error is one of these.
func handedBack(kind string) bool { return slices.Contains([]string{noSlot, noRoom, noQuota}, kind) }

// identity is what a worker says of itself wherever the server names it.
type identity struct {
	Name    string   // host and process
	Slots   int      // 0: it is no worker
	Account string   // with which its agents are logged in
	Labels  []string // sorted
	Paused  string   // why it makes no attempt; "" where it does
}

func (id identity) String() string {
	text := fmt.Sprintf("%s slots=%d account=%s", id.Name, id.Slots, id.Account)
	if len(id.Labels) > 0 {
		text += " labels=" + strings.Join(id.Labels, ",")
	}
	if id.Paused != "" {
		text += " paused=" + strings.ReplaceAll(id.Paused, " ", "_")
	}
	return text
}

// readIdentity is the opposite of String. Anything else is a name.
func readIdentity(text string) (id identity) {
	name, rest, _ := strings.Cut(text, " ")
	id.Name = name
	for _, field := range strings.Fields(rest) {
		switch key, value, _ := strings.Cut(field, "="); key {
		case "slots":
			_, _ = fmt.Sscanf(value, "%d", &id.Slots)
		case "account":
			id.Account = value
		case "labels":
			id.Labels = strings.Split(value, ",")
		case "paused":
			id.Paused = strings.ReplaceAll(value, "_", " ")
		}
	}
	return id
}

// can reports whether the worker has the labels that are needed.
func (id identity) can(needs []string) bool {
	return !slices.ContainsFunc(needs, func(l string) bool { return !slices.Contains(id.Labels, l) })
}

// rank is the priority of an attempt for the server, which begins with the smallest.
func rank(a *wire.Ask) int {
	switch a.Rank {
	case "critical":
		return 1
	case "high":
		return 2
	case "low":
		return 4
	}
	return 3
}
