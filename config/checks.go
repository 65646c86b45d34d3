package config

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"descartes/verify"
)

// checks is verify as descartes.yaml has it: one command, or a list of named checks.
type checks []verify.Check

func (c *checks) UnmarshalYAML(read func(any) error) error {
	var command string
	if read(&command) == nil {
		if strings.TrimSpace(command) == "" {
			return errors.New("verify: the command is empty; write none to take the agent's word")
		}
		*c = checks{{Run: command}}
		return nil
	}
	var rows []struct {
		Name, Run, When string
		Timeout         seconds
		Retry           int
		Results         wordList
	}
	if err := read(&rows); err != nil {
		return err
	}
	*c = checks{}
	for _, row := range rows {
		*c = append(*c, verify.Check{Name: row.Name, Run: row.Run, Timeout: time.Duration(row.Timeout) * time.Second,
			When: verify.When(row.When), Retry: row.Retry, Results: row.Results})
	}
	if err := verify.CheckAll(*c); err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	return nil
}
