package loop

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
)

// SafetyConfig says what agents and verify commands may touch, see and use up.
type SafetyConfig struct {
	Sandbox        string   `json:"sandbox,omitempty"`          // auto, strict or off
	SandboxInForce string   `json:"sandbox_in_force,omitempty"` // what it came to on this machine, in words
	SandboxDomains []string `json:"sandbox_domains,omitempty"`  // hosts that a strict sandbox reaches besides
	SandboxWrite   []string `json:"sandbox_write,omitempty"`    // places outside the working tree that may be written
	SandboxRead    []string `json:"sandbox_read,omitempty"`     // hidden places that may be read
	VerifyNetwork  bool     `json:"verify_network,omitempty"`
	VerifyEnv      string   `json:"verify_env,omitempty"` // inherit: all variables; else those of the list
	Env            string   `json:"env,omitempty"`        // open: all but credentials, strict: those of a list; "" is strict in a strict sandbox, else open
	EnvPass        []string `json:"env_pass,omitempty"`   // NAME or PREFIX_*
	MaxMemory      int64    `json:"max_memory,omitempty"` // bytes of an attempt's processes; 0 is no limit
	MaxProcs       int      `json:"max_procs,omitempty"`
	MinFreeDisk    int64    `json:"min_free_disk,omitempty"` // bytes without which no attempt starts; 0 is no check
}

// InSandbox ends the words for a sandbox that is in force.
const InSandbox = "(bubblewrap, "

// Confined reports whether agents and verify commands run in a sandbox on this machine.
func (c *SafetyConfig) Confined() bool { return strings.Contains(c.SandboxInForce, InSandbox) }

// room says that too little is free on the disk for another attempt, or is
// empty. An attempt that met a full disk would have failed for nothing.
func (c *SafetyConfig) room(free func(dir string) (int64, error), root string) string {
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
