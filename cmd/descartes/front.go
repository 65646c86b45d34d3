package main

import (
	"os"
	"path/filepath"

	"descartes/loop"
	"descartes/tasks"
)

// fromPlan takes from the plan's front matter what is not set elsewhere. A plan that cannot be read is
// named when it is loaded.
func (s *settings) fromPlan(root string) {
	c := &s.Scud
	if c.PlanPath == "" {
		return
	}
	text, err := loop.PlanText(root, c.PlanPath)
	if err != nil {
		return
	}
	var front tasks.FrontMatter
	front, s.front = tasks.ReadFrontMatter([]byte(text))
	if c.Tag == "" {
		c.Tag = front.Tag
	}
	if c.VerificationCommand == "" && front.Verify != "" {
		c.VerificationCommand, s.verifyFrom = front.Verify, "front matter of "+c.PlanPath
	}
	if len(c.Spec.AdditionalSpecs) > 0 {
		return
	}
	for _, p := range front.SpecFiles {
		// As in descartes.yaml, a path begins at the project; one beside the plan is found too.
		if beside := filepath.Join(filepath.Dir(absolute(root, c.PlanPath)), p); !filepath.IsAbs(p) {
			_, here := os.Stat(filepath.Join(root, p))
			if _, err := os.Stat(beside); err == nil && here != nil {
				p = shown(root, beside)
			}
		}
		c.Spec.AdditionalSpecs = append(c.Spec.AdditionalSpecs, p)
	}
}

// frontProblem says what is wrong with the plan's front matter, where the tag was to come from there.
func (s *settings) frontProblem() error {
	if s.Scud.Tag != "" || len(s.front) == 0 {
		return nil
	}
	var found problems
	for _, f := range s.front {
		found = append(found, loop.Problem{Message: placed(s.Scud.PlanPath, f)})
	}
	found[len(found)-1].Hint = "mend it, or name the tag with --scud-tag"
	return found
}
