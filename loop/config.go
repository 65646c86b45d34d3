package loop

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"descartes/internal/config"
	"descartes/loop/attempt"
	"descartes/loop/journal"
	"descartes/verify"
)

// Config is what a loop was asked to do; internal/config has each setting with its flag, its key and its default.
type (
	Config        = config.Config
	RepeatConfig  = config.RepeatConfig
	GateConfig    = config.GateConfig
	SafetyConfig  = config.SafetyConfig
	BackendConfig = config.BackendConfig
	GitConfig     = config.GitConfig
	ScudConfig    = config.ScudConfig
	SpecConfig    = config.SpecConfig
	AgentType     = config.AgentType
	Models        = config.Models
	Choice        = config.Choice
)

// Timed gives a run of the verify command its clocks.
func Timed(c *Config, q verify.Request) verify.Request {
	q.Timeout, q.Idle, q.Grace = seconds(c.VerifyTimeoutSecs), seconds(c.VerifyIdleSecs), grace
	return q
}

// verifyDetail is a run of the verify command as its event has it.
func verifyDetail(res verify.Result) *journal.Detail {
	return &journal.Detail{Code: res.Code, Signal: res.Signal, Passed: res.Passed, TimedOut: res.TimedOut, Seconds: res.Duration.Seconds()}
}

// NoVerify is the verification command that asks for none.
const NoVerify = "none"

// DefaultTotalIterations is the global limit of attempts for a tag of n tasks where none is given.
func DefaultTotalIterations(n int) int { return max(100, 3*n) }

// usedUp names the deadline or the sum of money that is used up, or nil.
func usedUp(c *Config, now time.Time, cost journal.Cost) *Outcome {
	switch {
	case c.Deadline != nil && !now.Before(*c.Deadline):
		return &Outcome{Ending: journal.DeadlinePast, Message: "the deadline " + c.Deadline.Format(time.RFC3339) + " has passed"}
	case c.MaxCostUSD > 0 && cost.USD != nil && *cost.USD >= c.MaxCostUSD:
		return &Outcome{Ending: journal.CostReached, Message: "the agents cost " + cost.Dollars() + ", the limit is " + journal.Dollars(c.MaxCostUSD)}
	}
	return nil
}

// SettingsFile is where a project's settings lie.
const SettingsFile = "descartes.yaml"

// settingsFiles are where settings are read from: the project's file, and another that was named.
func settingsFiles(c *Config, root string) []string {
	paths := []string{filepath.Join(root, SettingsFile)}
	if c.SettingsFile != "" && c.SettingsFile != paths[0] {
		paths = append(paths, c.SettingsFile)
	}
	return paths
}

// roomFor says that too little is free on the disk for another attempt, or is
// empty. An attempt that met a full disk would have failed for nothing.
func roomFor(c *Config, free func(dir string) (int64, error), root string) string {
	if c.MinFreeDisk <= 0 || free == nil {
		return ""
	}
	return Room(free, root, c.MinFreeDisk)
}

// full reports whether an error is that of a disk without room; git says so in words.
func full(err error) bool {
	return err != nil && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || strings.Contains(err.Error(), "No space left on device"))
}

// Room is what is wrong with the free space of the file systems that a run at
// root writes to, or empty. A file system that does not tell is let be.
func Room(free func(dir string) (int64, error), root string, least int64) string {
	for _, dir := range []string{root, filepath.Join(root, ".descartes")} {
		n, err := free(dir)
		if err == nil && n < least {
			return fmt.Sprintf("%s free on the disk of %s, at least %s are wanted for an attempt", mebibytes(n), dir, mebibytes(least))
		}
	}
	return ""
}

func mebibytes(n int64) string { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }

// denied says in words what the sandbox refused an attempt with that log.
func (t *Tools) denied(c *Config, root, log string) []string {
	if !c.Confined() {
		return nil
	}
	var hosts []string
	if t.Refused != nil {
		hosts = t.Refused()
	}
	return attempt.Denied(root, log, hosts)
}

// grace is what a process is given between the request to end and the kill.
const grace = 5 * time.Second

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
