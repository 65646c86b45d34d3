package quota_test

import (
	"fmt"
	"time"

	"descartes/agent/quota"
)

func Example() {
	now := time.Date(2026, 11, 20, 14, 30, 0, 0, time.UTC)
	name, until, _ := quota.Find("You've hit your session limit · resets 9:32pm (UTC)", now)
	fmt.Println(quota.Reason("Claude", name, until, now))
	// Output: Claude's session limit; resets Fri 20 Nov 21:32 (in 7 h 2 min)
}
