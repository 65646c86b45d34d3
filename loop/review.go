package loop

import "descartes/loop/source"

// CheckReview returns what makes a reviewer useless: it never replaces the checks.
func CheckReview(c *Config) []source.Problem {
	// if no command was found, that is reported elsewhere
	if !c.Reviews() || c.Scud.VerificationCommand == "" || len(c.ChecksOf(true)) > 0 {
		return nil
	}
	return []source.Problem{{Message: "a review needs a verify command, and --verify none turns it off",
		Hint: `--verify "make test", or --review off`}}
}
