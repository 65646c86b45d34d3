package gate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The circuit breakers of a criteria loop, as Decision.Breaker names them.
const (
	BreakCriteria   = "same criteria unmet"
	BreakError      = "same error"
	BreakEdits      = "same file edits"
	BreakBudget     = "budget exceeded"
	BreakIterations = "iteration limit"
	BreakMustNot    = "mustNot"
)

// Caps say when they open. A field that is 0 has its default; a negative one never opens it.
type Caps struct {
	Unmet      int     `json:"same_criteria,omitempty"` // iterations in a row with the same criteria unmet; 5
	SameError  int     `json:"same_error,omitempty"`    // iterations in a row with one error; 3
	FileEdits  int     `json:"file_edits,omitempty"`    // edits of one file in one iteration; 5
	BudgetUSD  float64 `json:"budget_usd,omitempty"`    // 25
	Iterations int     `json:"iterations,omitempty"`    // 10

	Step struct {
		BudgetUSD  float64 `json:"budget_usd,omitempty"`
		Iterations int     `json:"iterations,omitempty"`
	} `json:"step,omitzero"` // what a person's yes adds; set by NewCriteria
}

func (l Caps) orDefault() Caps {
	pick := func(n *int, def int) {
		if *n == 0 {
			*n = def
		}
	}
	pick(&l.Unmet, 5)
	pick(&l.SameError, 3)
	pick(&l.FileEdits, 5)
	pick(&l.Iterations, 10)
	if l.BudgetUSD == 0 {
		l.BudgetUSD = 25
	}
	if l.Step.Iterations == 0 {
		l.Step.BudgetUSD, l.Step.Iterations = l.BudgetUSD, l.Iterations
	}
	return l
}

func (l Caps) budgetStep() float64 { return max(l.Step.BudgetUSD, 0) }
func (l Caps) iterationStep() int  { return max(l.Step.Iterations, 0) }

// Counts are what the breakers have seen so far.
type Counts struct {
	Stuck     int    `json:"stuck,omitempty"`
	LastUnmet string `json:"last_unmet,omitempty"`
	SameError int    `json:"same_error,omitempty"`
	LastError string `json:"last_error,omitempty"` // signature
}

// judge counts one iteration and names the breaker that it opens, and why. Without one both are "".
func (n *Counts) judge(f Facts, unmet []string, l Caps) (breaker, why string) {
	l = l.orDefault()
	now := strings.Join(unmet, ", ")
	if now == n.LastUnmet && now != "" {
		n.Stuck++
	} else {
		n.Stuck = 0
	}
	n.LastUnmet = now
	signature, shown := failure(f)
	switch {
	case signature == "":
		n.SameError = 0
	case signature == n.LastError:
		n.SameError++
	default:
		n.SameError = 1
	}
	n.LastError = signature
	file, edits := mostEdited(f.Edits)
	switch {
	case l.SameError > 0 && n.SameError >= l.SameError:
		return BreakError, fmt.Sprintf("the same error came %d times in a row: %s", n.SameError, shown)
	case l.FileEdits > 0 && edits >= l.FileEdits:
		return BreakEdits, fmt.Sprintf("%s was edited %d times in one iteration, likely thrashing", file, edits)
	case l.Unmet > 0 && n.Stuck >= l.Unmet:
		return BreakCriteria, fmt.Sprintf("the same criteria were unmet after %d iterations in a row: %s", n.Stuck, list(unmet, 5))
	case l.BudgetUSD > 0 && f.CostUSD != nil && *f.CostUSD > l.BudgetUSD:
		return BreakBudget, fmt.Sprintf("the loop has cost %s, more than its budget of %s", money(*f.CostUSD), money(l.BudgetUSD))
	case l.Iterations > 0 && f.Iteration >= l.Iterations:
		if f.Iteration == 1 {
			return BreakIterations, "1 iteration is over"
		}
		return BreakIterations, fmt.Sprintf("%d iterations are over", f.Iteration)
	}
	return "", ""
}

func mostEdited(edits map[string]int) (file string, n int) {
	for _, f := range slices.Sorted(maps.Keys(edits)) {
		if edits[f] > n {
			file, n = f, edits[f]
		}
	}
	return file, n
}

// money writes dollars: $25, $4.50.
func money(usd float64) string {
	return "$" + strings.TrimSuffix(fmt.Sprintf("%.2f", usd), ".00")
}
