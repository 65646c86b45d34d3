package scheduler

import (
	"maps"
	"time"
)

// Accounts is whose quota can be used. A wait is a time in here, whoever met the limit; it is no goroutine and keeps
// no lane.
type Accounts struct {
	Until   map[string]time.Time // out of quota until then
	Rest    map[string]time.Time // after a passing fault of its provider: its turn is kept
	Faults  map[string]int       // in a row
	Refused map[string]bool      // its login or command line, in this run
}

// rests of an account before the next one's turn comes; the executor knows how long each is.
const maxRests = 3

func newAccounts() Accounts {
	return Accounts{map[string]time.Time{}, map[string]time.Time{}, map[string]int{}, map[string]bool{}}
}

// resumed: quota is the world's, but a person may have logged in, and a provider may have recovered.
func (a *Accounts) resumed() {
	until := maps.Clone(a.Until)
	*a = newAccounts()
	a.Until = until
}

func (a *Accounts) exhaust(account string, until time.Time) {
	if until.After(a.Until[account]) {
		a.Until[account] = until
	}
	delete(a.Faults, account)
}

func (a *Accounts) fault(account string, until time.Time) {
	a.Faults[account]++
	a.Rest[account] = until
}

func (a *Accounts) worked(account string) { delete(a.Faults, account) }

func (a *Accounts) isDead(account string) bool {
	return a.Refused[account] || a.Faults[account] > maxRests
}

// pick says whose turn it is: an account; or a time at which one will be usable; or neither, when none of them is in
// this run.
func (a *Accounts) pick(list []string, now time.Time) (account string, at time.Time) {
	for _, x := range list {
		if a.isDead(x) {
			continue
		}
		if u := a.Until[x]; u.After(now) {
			if at.IsZero() || u.Before(at) {
				at = u
			}
			continue
		}
		if rest := a.Rest[x]; rest.After(now) { // seconds: the next one's turn comes only when it does not help
			return "", earlier(rest, at)
		}
		return x, time.Time{}
	}
	return "", at
}

func earlier(a, b time.Time) time.Time {
	if b.IsZero() || a.Before(b) {
		return a
	}
	return b
}
