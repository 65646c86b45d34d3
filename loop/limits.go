package loop

import (
	"time"

	"descartes/loop/journal"
)

// UsedUp returns the outcome if the deadline or the budget is used up, else nil.
func UsedUp(c *Config, now time.Time, cost journal.Cost) *Outcome {
	switch {
	case c.Deadline != nil && !now.Before(*c.Deadline):
		return &Outcome{Ending: journal.DeadlinePast, Message: "the deadline " + c.Deadline.Format(time.RFC3339) +
			" has passed"}
	case c.MaxCostUSD > 0 && cost.USD != nil && *cost.USD >= c.MaxCostUSD:
		return &Outcome{Ending: journal.CostReached, Message: "the agents cost " + cost.Dollars() + ", the limit is " +
			journal.Dollars(c.MaxCostUSD)}
	}
	return nil
}
