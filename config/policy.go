package config

import (
	"fmt"
	"strings"

	"descartes/internal/terminal"
	"descartes/verify"
)

// Line is one policy in force beyond what every run has.
type Line struct{ Name, Text string }

func (l Line) String() string { return l.Name + ": " + l.Text }

// ReceiptsLine names the line about receipts: how a task is proved, not whether it is done.
const ReceiptsLine = "receipts"

// InForce is the policy in one line; "" for none.
func InForce(c *Config, tag bool) string {
	var list []string
	for _, l := range Policy(c, tag) {
		list = append(list, l.String())
	}
	return strings.Join(list, "; ")
}

// reviewText says what is reviewed, and by whom.
func (c *Config) reviewText(tag bool) string {
	one, text := c.Reviewers()[0], "each task"
	if !tag {
		text = "iterations"
	}
	by := one.Backend
	if by == "generic" && c.Command != "" && c.Review.Backend == "" { // which says nothing
		by = oneLine(c.Command)
	}
	if text += ", by " + by; one.Model != "" {
		text += " (" + one.Model + ")"
	}
	if n := len(c.Review.Team); n > 0 {
		text += ", " + terminal.Count(n, "reviewer")
	}
	if c.Paranoid() {
		text += ", of another backend than the work"
	}
	return text
}

// Policy describes what is in force for a run, over a tag or of a prompt; empty where all is default.
func Policy(c *Config, tag bool) (lines []Line) {
	add := func(name, format string, args ...any) {
		lines = append(lines, Line{name, fmt.Sprintf(format, args...)})
	}
	if checks := c.ChecksOf(tag); len(checks) > 0 && checks[0].Name != "" {
		names := make([]string, len(checks))
		for i, one := range checks {
			if names[i] = one.Name; !one.At(verify.AtAttempt) {
				names[i] += " (at " + string(one.When) + ")"
			}
		}
		text := terminal.Count(len(names), "check") + " (" + strings.Join(names, ", ") + ")"
		if c.AllChecks {
			text += ", all of them even after a failure"
		}
		add("verify", "%s", text)
	}
	if c.Baseline == "known" {
		add("baseline", "known failures may stay, new ones fail the attempt")
	}
	if tag && c.Verified() {
		add("require", "a task turns a test from red to green, or adds one")
	}
	if tag && c.Careful() {
		add("care", "a person says whether a task is done for which nothing had to be done")
	}
	if len(c.Guard) > 0 || len(c.Protect) > 0 {
		add("guard", "%s", guardText(c))
	}
	if c.Holdout.Run != "" {
		text := "checks in " + c.Holdout.Dir + " that no agent sees"
		if !c.Confined() {
			text = "checks in " + c.Holdout.Dir + ", which nothing hides from agents without a sandbox"
		}
		add("holdout", "%s", text)
	}
	if c.proves() {
		add("prove", "tests that an attempt adds must fail without the rest of its work")
	}
	if c.Reviews() {
		add("review", "%s", c.reviewText(tag))
	}
	if tag && c.Receipts.Write && c.Receipts.Sign {
		add(ReceiptsLine, "signed with git's key")
	}
	return lines
}

// oneLine is a command for people, cut where it is long.
func oneLine(command string) string {
	return terminal.Fit(strings.Join(strings.Fields(command), " "), 60)
}
