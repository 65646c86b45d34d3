package temporal

import (
	"context"
	"time"

	"go.temporal.io/sdk/worker"
)

// slots are those of one worker: it holds one for each that is free. All queues share them. The SDK reserves a slot
// before it polls a queue, and an idle poll would keep it from the other queues: so a poll only waits until there is a
// free one, and an attempt takes it when it comes. One that comes too many is handed back.
type slots chan struct{}

func newSlots(n int) slots {
	s := make(slots, n)
	for range n {
		s <- struct{}{}
	}
	return s
}

// take takes a slot for an attempt, if there is a free one.
func (s slots) take() bool {
	select {
	case <-s:
		return true
	default:
		return false
	}
}

// give gives it back after a while.
func (s slots) give(after time.Duration) { time.AfterFunc(after, func() { s <- struct{}{} }) }

// ReserveSlot waits until a queue may be polled.
func (s slots) ReserveSlot(ctx context.Context, _ worker.SlotReservationInfo) (*worker.SlotPermit, error) {
	select {
	case <-s:
		s <- struct{}{}
		return &worker.SlotPermit{}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TryReserveSlot is for eager activities, which no worker of ours takes.
func (s slots) TryReserveSlot(worker.SlotReservationInfo) *worker.SlotPermit { return nil }

// MarkSlotUsed does nothing: the attempt takes the slot.
func (s slots) MarkSlotUsed(worker.SlotMarkUsedInfo) {}

// ReleaseSlot does nothing: the attempt gives it back.
func (s slots) ReleaseSlot(worker.SlotReleaseInfo) {}

// MaxSlots is unknown to the SDK: permits are no slots.
func (s slots) MaxSlots() int { return 0 }

// tuner has a queue polled as the slots allow. What decides has two slots of its own: with one it would ask by turns
// for what is new and for what it has begun.
func (s slots) tuner() (worker.WorkerTuner, error) {
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
