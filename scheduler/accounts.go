package scheduler

import (
	"slices"
	"time"
)

// Accounts is whose quota can be used. A wait is a time in here, whoever met the limit; it is no goroutine and keeps
// no lane. Times are computed by the executor and come in events.
type Accounts struct {
	// out of quota until then: a wait ends when Next is asked at that time or later, which the executor does every tick
	until   map[string]time.Time
	rest    map[string]time.Time // after a passing fault of its provider: its turn is kept
	faults  map[string]int       // in a row
	refused map[string]bool      // its login or command line, in this run
	// when the first wait for quota was to be over since an agent last got past one: a provider that does not say when
	// its quota is back, or says what is not so, would be asked for ever
	row time.Time
}

// rests of an account before the next one's turn comes; the executor knows how long each is.
const maxRests = 3

// NewAccounts returns accounts of which nothing is known.
func NewAccounts() Accounts {
	return Accounts{until: map[string]time.Time{}, rest: map[string]time.Time{}, faults: map[string]int{},
		refused: map[string]bool{}}
}

// AccountOn names an account as a worker's machine has it, whose logins and quotas are its own; "" is this machine.
func AccountOn(worker, account string) string {
	if worker == "" {
		return account
	}
	return account + "@" + worker
}

// Forget lets all of them be asked again: a person may have logged in, and a provider may have recovered. Anew also
// forgets the limits that were met.
func (a *Accounts) Forget(anew bool) {
	until := a.until
	*a = NewAccounts()
	if !anew {
		a.until = until
	}
}

// Exhaust notes that an account has no quota before that time.
func (a *Accounts) Exhaust(account string, until time.Time) {
	if until.After(a.until[account]) {
		a.until[account] = until
	}
	if delete(a.faults, account); a.row.IsZero() {
		a.row = until
	}
}

// Clear forgets a limit that was met: a person says that it holds no more.
func (a *Accounts) Clear(account string) { delete(a.until, account) }

// Fault notes a passing fault of an account's provider, after which it rests.
func (a *Accounts) Fault(account string, until time.Time) {
	a.faults[account]++
	a.rest[account] = until
}

// Refuse notes that a login or command line is refused.
func (a *Accounts) Refuse(account string) { a.refused[account] = true }

// Served notes that an agent got past its quota: what is waited for next has nothing to do with earlier waits.
func (a *Accounts) Served() { a.row = time.Time{} }

// IsTooLong reports whether a run with nothing else to do does not wait until then: it bounds each wait for a quota, and
// those after the first of a row together.
func (a *Accounts) IsTooLong(b *Bounds, until, now time.Time) bool {
	return b.isTooLong(until, now) || !a.row.IsZero() && b.isTooLong(until, a.row)
}

// Worked ends a row of faults.
func (a *Accounts) Worked(account string) { delete(a.faults, account) }

func (a *Accounts) isDead(account string) bool {
	return a.refused[account] || a.faults[account] > maxRests
}

// Until is when an account has quota again, as far as that is known.
func (a *Accounts) Until(account string) time.Time { return a.until[account] }

// Rest is when an account has rested from a fault of its provider.
func (a *Accounts) Rest(account string) time.Time { return a.rest[account] }

// Pick says whose turn it is: an account; or a time at which one will be usable; or neither, when none of them is in
// this run. resting: somebody's turn is kept until then, which takes seconds and is no wait for quota.
func (a *Accounts) Pick(list []string, now time.Time) (account string, at time.Time, resting bool) {
	for _, x := range list {
		if a.isDead(x) {
			continue
		}
		if u := a.until[x]; u.After(now) {
			if at.IsZero() || u.Before(at) {
				at = u
			}
			continue
		}
		if rest := a.rest[x]; rest.After(now) { // the next one's turn comes only when that does not help
			return "", earlier(rest, at), true
		}
		return x, time.Time{}, false
	}
	return "", at, false
}

// pickOn is Pick for a worker's machine.
func (a *Accounts) pickOn(worker string, list []string, now time.Time) (account string, at time.Time, resting bool) {
	if worker == "" {
		return a.Pick(list, now)
	}
	names := make([]string, len(list))
	for i, x := range list {
		names[i] = AccountOn(worker, x)
	}
	account, at, resting = a.Pick(names, now)
	if i := slices.Index(names, account); i >= 0 {
		account = list[i]
	}
	return account, at, resting
}

// earlier is the earlier of two times; the second may be none.
func earlier(a, b time.Time) time.Time {
	if b.IsZero() || a.Before(b) {
		return a
	}
	return b
}
