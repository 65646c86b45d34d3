package loop

import (
	"context"
	"fmt"

	"descartes/loop/journal"
	"descartes/verify"
)

// Costs are what the loop's tasks and waves cost so far.
func (l *Loop) Costs() journal.Costs { return l.history.Costs }

// overpaid says that a task has cost what one may cost, or nothing.
func (l *Loop) overpaid(task string) string {
	most, spent := l.job.Config.MaxCostPerTask, l.history.Costs.Fresh[task]
	if most <= 0 || spent < most {
		return ""
	}
	return fmt.Sprintf("its attempts cost %s, and a task may cost %s", journal.Dollars(spent), journal.Dollars(most))
}

// costOf is what the attempts at some tasks cost together.
func (l *Loop) costOf(tasks []string) (sum journal.Cost) {
	for _, id := range tasks {
		sum = sum.Plus(l.history.Costs.Tasks[id])
	}
	return sum
}

// blockOverpaid gives up a task that has cost what one may cost.
func (l *Loop) blockOverpaid(ctx context.Context, u *unit, over string) error {
	u.res.Verdict, u.res.Reason = verify.Failed, over+"; the last one: "+u.res.Reason
	return l.block(ctx, u)
}
