package loop

import (
	"regexp"
	"slices"

	"descartes/agent"
	"descartes/internal/oneline"
	"descartes/verify"
)

// Withheld names the variables of the caller's that are not passed on.
type Withheld struct {
	Agents []string
	Verify []string
}

// missing names what an attempt may have failed for: withheld variables that its failed verification, or its agent
// that crashed, names. Each is told of once in a run; told is where that is noted.
func (w *Withheld) missing(told map[string]bool, res agent.Result, check *verify.Result) (message string) {
	var names []string
	look := func(text string, among []string) {
		for _, word := range regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]{3,}`).FindAllString(text, -1) {
			if slices.Contains(among, word) && !told[word] {
				told[word] = true
				names = append(names, word)
			}
		}
	}
	if check != nil && !check.Passed {
		look(check.Tail, w.Verify)
	}
	if res.End == agent.Crashed {
		look(res.Reason+"\n"+res.Final, w.Agents)
	}
	if len(names) == 0 {
		return ""
	}
	return "the failure names variables of yours that are withheld: " + oneline.List(names) + "; --env-pass passes them on, env_pass in descartes.yaml in every run"
}
