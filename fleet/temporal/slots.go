package temporal

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/worker"
)

// slots are those of one worker. All its queues share them. The SDK reserves a slot before it polls a queue, and an
// idle poll would keep it from the other queues: so a poll only waits until there is a free one, and an attempt takes
// it when it comes. One that comes too many is handed back.
type slots struct {
	room func() string // why no attempt may begin now, "" where one may

	mu      sync.Mutex
	free    int
	aside   time.Time     // until when others come first
	changed chan struct{} // closed when one becomes free
}

// How long a worker leaves the queues to others after an attempt that it could not make, and when it looks at a full
// disk again.
const (
	stepAside = 3 * time.Second
	lookAgain = 5 * time.Second
)

// take takes a slot for an attempt, if there is a free one.
func (s *slots) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == 0 {
		return false
	}
	s.free--
	return true
}

// give gives it back; made says that the attempt could be made here.
func (s *slots) give(made bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free++; !made {
		s.aside = time.Now().Add(stepAside)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// ReserveSlot waits until a queue may be polled.
func (s *slots) ReserveSlot(ctx context.Context, _ worker.SlotReservationInfo) (*worker.SlotPermit, error) {
	for {
		s.mu.Lock()
		free, changed, wait := s.free, s.changed, time.Until(s.aside)
		s.mu.Unlock()
		var timer <-chan time.Time
		if free > 0 && wait <= 0 {
			if s.room() == "" {
				return &worker.SlotPermit{}, nil
			}
			wait = lookAgain
		}
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

// tuner has a queue polled as the slots allow. What decides has two slots of its own: with one it would ask by turns
// for what is new and for what it has begun.
func (s *slots) tuner() (worker.WorkerTuner, error) {
	decide, err := worker.NewFixedSizeSlotSupplier(2)
	if err != nil {
		return nil, err
	}
	none, err := worker.NewFixedSizeSlotSupplier(1) // of what there is none the SDK keeps one ready, too
	if err != nil {
		return nil, err
	}
	return worker.NewCompositeTuner(worker.CompositeTunerOptions{ActivitySlotSupplier: s, WorkflowSlotSupplier: decide,
		LocalActivitySlotSupplier: none, NexusSlotSupplier: none, SessionActivitySlotSupplier: none})
}
