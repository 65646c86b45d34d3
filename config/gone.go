package config

import "strings"

// gone are the settings and flags of earlier versions, by their keys, and why they are no more.
var gone = map[string]string{
	"in_place":    "every agent works in a copy of the project; leave it out",
	"mutants":     "holdout and prove find more; leave it out",
	"candidates":  "fallback names who tries next; leave it out",
	"pick":        "there are no candidates to pick from; leave it out",
	"final_check": "each commit is checked before it is merged; leave it out",
}

// Gone says of a setting or a flag of earlier versions, as it was typed, that it is no more and what to do; "" of any
// other.
func Gone(name string) string {
	why := gone[strings.ReplaceAll(strings.TrimPrefix(name, "--"), "-", "_")]
	if why == "" {
		return ""
	}
	return name + " is gone: " + why
}
