package main

import (
	"fmt"

	"descartes/loop"
)

// filePrompt is what descartes.yaml says of prompt loops alone.
type filePrompt struct {
	Prompt           string `yaml:"prompt"`
	MaxIterations    *int   `yaml:"max_iterations"`
	WorkingDirectory string `yaml:"working_directory"`
	StateFile        string `yaml:"state_file"`
	IterationContext bool   `yaml:"include_iteration_context"`
	ContinueSession  bool   `yaml:"continue_session"`
	Gate             string `yaml:"gate"`
	Verification     string `yaml:"verification_command"`

	fileGate `yaml:",inline"`
}

// fileMore is what the settings file says besides a loop's Config.
type fileMore struct {
	commits            bool // git.auto_commit, which a prompt loop asks
	workDir, stateFile string
}

func (f *filePrompt) check() error {
	if n := f.MaxIterations; n != nil && *n < 1 {
		return fmt.Errorf("max_iterations: %d: must be at least 1", *n)
	}
	return f.fileGate.check(f.Gate)
}

func (f *filePrompt) into(c *loop.Config) {
	c.Prompt, c.IterationContext, c.ContinueSession = f.Prompt, f.IterationContext, f.ContinueSession
	c.Gate, c.VerificationCommand = f.Gate, f.Verification
	f.fileGate.into(c)
	if f.MaxIterations != nil {
		c.MaxIterations = *f.MaxIterations
	}
}
