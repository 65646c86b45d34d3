package source

import (
	"path/filepath"

	"descartes/config"
	"descartes/loop/journal"
	"descartes/loop/receipt"
	"descartes/verify"
)

// Inputs returns what receipts record about a task: its description, its section of the plan and the project's
// settings, as they are now.
func (j *Job) Inputs(id string) (in journal.Inputs) {
	t, ok := j.Graph.Task(id)
	if !ok {
		return in
	}
	if j.settings == "" {
		j.settings = settingsDigest(j.Root)
	}
	in.Task, in.Settings = receipt.TaskDigest(t), j.settings
	if j.plan != nil {
		in.PlanPath, in.Plan = j.Config.Scud.PlanPath, receipt.PlanDigest(j.plan, *t, j.Graph.Parents(id))
	}
	return in
}

// settingsDigest is the digest of descartes.yaml's own settings, "" if it is unreadable.
func settingsDigest(root string) string {
	f, err := config.ReadFile(filepath.Join(root, config.SettingsFile), false)
	if err != nil {
		return ""
	}
	return receipt.PolicyDigest(PolicyLines(&f.Config))
}

// PolicyLines describes the checks and looks in the settings, one per line.
func PolicyLines(c *config.Config) (lines []string) {
	for _, one := range c.ChecksOf(true) {
		at := ""
		if !one.At(verify.AtAttempt) {
			at = " (at " + string(one.When) + ")"
		}
		lines = append(lines, one.Title()+at+": "+one.Run)
	}
	for _, one := range config.Policy(c, true) {
		if one.Name != config.ReceiptsLine {
			lines = append(lines, one.String())
		}
	}
	return lines
}
