package loop

import (
	"slices"

	"descartes/config"
	"descartes/loop/source"
)

// CheckReview returns what makes a reviewer useless: it never replaces the checks.
func CheckReview(c *Config) []source.Problem {
	// if no command was found, that is reported elsewhere
	if !c.Reviews() || c.Scud.VerificationCommand == "" || len(c.ChecksOf(true)) > 0 {
		return nil
	}
	return []source.Problem{{Message: "a review needs a verify command, and --verify none turns it off",
		Hint: `--verify "make test", or --review off`}}
}

// CheckCare returns what a run lacks that is to be careful: somebody else than the agents of its tasks has to judge.
func CheckCare(c *Config) []source.Problem {
	switch {
	case !c.Careful():
		return nil
	case c.Paranoid() && !c.Reviews():
		return []source.Problem{{Message: "care: paranoid needs a review by another backend", Hint: "--review BACKEND"}}
	case !c.Reviews() && c.Holdout.Run == "":
		return []source.Problem{{Message: "care: careful needs held-out checks or a review",
			Hint: "holdout: {run: ..., dir: ...} in descartes.yaml, or --review BACKEND"}}
	case !c.Paranoid():
		return nil
	}
	makers := c.Choices(nil)
	for _, one := range c.AgentTypes {
		makers = append(makers, config.Choice{Backend: one.Backend})
	}
	for _, maker := range makers {
		if maker.Backend != "" && !slices.ContainsFunc(c.Reviewers(), func(by config.Choice) bool { return by.Backend != maker.Backend }) {
			return []source.Problem{{Message: "care: paranoid: work of " + maker.Backend + " would have no review by another backend",
				Hint: "--review ANOTHER"}}
		}
	}
	return nil
}
