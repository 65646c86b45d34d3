package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"

	"descartes/internal/proc"
	"descartes/internal/sandbox"
	"descartes/loop"
)

// leastFree is the free disk space without which no attempt starts: an agent's log and a build's output fit.
const leastFree = 200 << 20

// fileSafety is the part of descartes.yaml about what commands may touch, see and use up.
type fileSafety struct {
	Sandbox        string   `yaml:"sandbox"`
	SandboxDomains []string `yaml:"sandbox_domains"`
	SandboxWrite   []string `yaml:"sandbox_write"`
	SandboxRead    []string `yaml:"sandbox_read"`
	VerifyNetwork  bool     `yaml:"verify_network"`
	VerifyEnv      string   `yaml:"verify_env"`
	Env            string   `yaml:"env"`
	EnvPass        []string `yaml:"env_pass"`
	MaxMemory      bytesOf  `yaml:"max_memory"`
	MaxProcs       int      `yaml:"max_procs"`
	MinFreeDisk    bytesOf  `yaml:"min_free_disk"`
}

func safetyFrom(c loop.SafetyConfig) fileSafety {
	return fileSafety{Sandbox: c.Sandbox, MinFreeDisk: bytesOf(c.MinFreeDisk)}
}

func (f *fileSafety) into(c *loop.SafetyConfig) {
	*c = loop.SafetyConfig{Sandbox: f.Sandbox, SandboxDomains: f.SandboxDomains, SandboxWrite: f.SandboxWrite, SandboxRead: f.SandboxRead,
		VerifyNetwork: f.VerifyNetwork, VerifyEnv: f.VerifyEnv, Env: f.Env, EnvPass: f.EnvPass, MaxMemory: int64(f.MaxMemory), MaxProcs: f.MaxProcs,
		MinFreeDisk: int64(f.MinFreeDisk)}
}

func (s *settings) registerSafety(f *pflag.FlagSet) {
	f.Var(choice{&s.Sandbox, sandbox.Modes}, "sandbox", "what agents and verify commands may touch: auto holds them in where this machine can, strict or nothing runs, off does not")
	f.Var(choice{&s.Env, envWords}, "env", "variables that agents and verify commands get: open is all but credentials, strict is those of a list (default: open; strict with --sandbox strict)")
	f.StringSliceVar(&s.EnvPass, "env-pass", nil, "`variables` that agents and verify commands get besides: NAME or PREFIX_*; may be repeated")
	f.Var((*bytesOf)(&s.MaxMemory), "max-memory", "end an attempt whose processes use more memory than this, like 4G (default: no limit)")
	f.IntVar(&s.MaxProcs, "max-procs", 0, "end an attempt that has more processes, threads included, at a time (default: no limit)")
	f.Var((*bytesOf)(&s.MinFreeDisk), "min-free-disk", "start no attempt with less free disk space; 0: whatever is free")
}

// checkSafety refuses settings that mean nothing, from wherever they come.
func (s *settings) checkSafety() error {
	c := s.SafetyConfig
	if c.Sandbox != "" {
		if err := (choice{new(string), sandbox.Modes}).Set(c.Sandbox); err != nil {
			return badInput("", "sandbox: %w", err)
		}
	}
	if c.VerifyEnv != "" && c.VerifyEnv != "inherit" && c.VerifyEnv != "list" {
		return badInput("", "verify_env: %q is none of list, inherit", c.VerifyEnv)
	}
	if c.Env != "" {
		if err := (choice{new(string), envWords}).Set(c.Env); err != nil {
			return badInput("", "env: %w", err)
		}
	}
	for _, word := range c.EnvPass {
		if !sandbox.ValidPass(word) {
			return badInput("give names only, as in --env-pass DATABASE_URL,MYAPP_*; values go under backend.environment in descartes.yaml",
				"--env-pass %q names no variable", word)
		}
	}
	for _, word := range c.SandboxDomains {
		if !sandbox.ValidHost(word) {
			return badInput("write example.org, *.example.org, or an address; with a port as example.org:8443", "sandbox_domains: %q names no host", word)
		}
	}
	if c.MaxProcs < 0 {
		return badInput("", "--max-procs %d: must not be negative", c.MaxProcs)
	}
	if 0 < c.MaxMemory && c.MaxMemory < 16<<20 {
		return badInput("4G is four GiB", "--max-memory %s: no agent runs in less than 16 MiB", proc.Size(c.MaxMemory))
	}
	return nil
}

// bytesOf is a number of bytes, with a letter for its unit.
type bytesOf int64

func (s *bytesOf) String() string {
	if s == nil || *s == 0 {
		return ""
	}
	n := int64(*s)
	for _, unit := range []struct {
		letter string
		bytes  int64
	}{{"T", 1 << 40}, {"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}} {
		if n%unit.bytes == 0 {
			return strconv.FormatInt(n/unit.bytes, 10) + unit.letter
		}
	}
	return strconv.FormatInt(n, 10)
}
func (*bytesOf) Type() string { return "size" }

func (s *bytesOf) Set(text string) error {
	if text == "" {
		*s = 0
		return nil
	}
	number := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(strings.TrimSpace(text)), "B"), "I")
	unit := 1.0
	if n := len(number); n > 0 {
		if at := strings.IndexByte("KMGT", number[n-1]); at >= 0 {
			unit, number = math.Pow(1024, float64(at+1)), number[:n-1]
		}
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || math.IsNaN(v) || v < 0 || v*unit > 1<<50 {
		return fmt.Errorf("%q is no size like 512M or 4G", text)
	}
	*s = bytesOf(v * unit)
	return nil
}

// UnmarshalYAML reads a number of bytes, or a text with a unit.
func (s *bytesOf) UnmarshalYAML(n *yaml.Node) error {
	if err := s.Set(n.Value); err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	return nil
}

// freeDisk is what an unprivileged program may still write below a folder, or above where it will be.
func freeDisk(dir string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}
