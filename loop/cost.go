package loop

import (
	"context"
	"fmt"

	"descartes/loop/journal"
	"descartes/verify"
)

// overpaid says that a task has cost what one may cost, or nothing.
func (w *tagWork) overpaid(task string) string {
	most, spent := w.config.MaxCostPerTask, w.history.Costs.Fresh[task]
	if most <= 0 || spent < most {
		return ""
	}
	return fmt.Sprintf("its attempts cost %s, and a task may cost %s", journal.Dollars(spent), journal.Dollars(most))
}

// costOf is what the attempts at some tasks cost together.
func (w *tagWork) costOf(tasks []string) (sum journal.Cost) {
	for _, id := range tasks {
		sum = sum.Plus(w.history.Costs.Tasks[id])
	}
	return sum
}

// blockOverpaid gives up a task that has cost what one may cost.
func (w *tagWork) blockOverpaid(ctx context.Context, u *unit, over string) error {
	u.res.Verdict, u.res.Reason = verify.Failed, over+"; the last one: "+u.res.Reason
	return w.block(ctx, u)
}
