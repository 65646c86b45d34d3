package run

import (
	"context"
	"fmt"

	"descartes/loop/book"
	"descartes/loop/lab"
	"descartes/loop/slot"
)

// setUp runs the set-up command in the slot. Whatever asks the run to stop ends it: it can simply be done again.
func (r *Run) setUp(ctx context.Context, slot *slot.Slot, command string) error {
	log := r.home.NamedLog(r.place.id, fmt.Sprintf("setup-%d", slot.Number))
	c := &r.job.Config.Pool
	return lab.SetUp(ctx, r.place.of(slot).runner.Verify, slot, lab.Setup{Command: command, Log: log,
		Shown: book.Relative(r.root, log), Redact: r.tools.Redact, Timeout: seconds(c.SetupTimeout)})
}
