package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"descartes/agent"
	"descartes/config"
	"descartes/internal/proc"
	"descartes/internal/sandbox"
	"descartes/internal/terminal"
)

// Place is where the commands of a run work.
type Place struct {
	Root string   // the project
	Dir  string   // where the commands start
	Top  string   // the folder of the repository, or Dir
	Keep []string // files, besides the usual ones, that commands may not change
}

// Sandbox is the one that this machine gives.
type Sandbox struct {
	sandbox.Config
	Dir     string               // where commands start
	Note    string               // what is in force, in words
	Lacking *sandbox.CannotError // why there is less than was asked for; nil: there is not
}

// StrictError says that there is no sandbox where nothing may run without one.
type StrictError struct {
	sandbox.CannotError
	Wanted string // the flag that forbids it, and what it says
}

func (e *StrictError) Error() string { return e.Wanted + ": " + e.Why }

// Next is what to do about it.
func (e *StrictError) Next() string { return e.Fix + "; or run without it: --sandbox off" }

// FindSandbox finds out what sandbox there is for the commands of cfg, most of all for b. One that is missing is an
// error, a *StrictError, only where cfg allows nothing else.
func FindSandbox(ctx context.Context, at Place, cfg config.Config, b agent.Backend) (s Sandbox, err error) {
	s.Dir = at.Dir
	if s.Config, err = sandboxConfig(at, cfg, b); err != nil {
		return s, err
	}
	if s.Mode == sandbox.Off {
		s.Note = "off"
		s.mountOnly(ctx)
		return s, nil
	}
	box, err := sandbox.New(s.Config)
	if err == nil {
		s.Userns, err = box.Probe(ctx)
	}
	by := config.InSandbox
	if s.Bwrap == "" {
		by = config.InSeatbelt
	}
	switch {
	case err == nil && s.Mode == sandbox.Strict:
		s.Note = fmt.Sprintf("strict "+by+"network to %s only)",
			terminal.Count(len(sandbox.Hosts(s.Agent))+len(cfg.SandboxDomains), "host"))
		return s, nil
	case err == nil:
		s.Note = "auto " + by + "network open)"
		return s, nil
	case !errors.As(err, &s.Lacking):
		return s, err
	case s.Mode == sandbox.Strict:
		return s, &StrictError{*s.Lacking, "--sandbox strict"}
	}
	s.Mode, s.Note = sandbox.Off, "none ("+s.Lacking.Why+")"
	s.mountOnly(ctx)
	return s, nil
}

// mountOnly finds out whether slots can be seen at the project's path where nothing is confined.
func (s *Sandbox) mountOnly(ctx context.Context) {
	c := s.Config
	c.Slot.Tree = c.Top
	box, err := sandbox.New(c)
	if err == nil {
		s.Userns, err = box.Probe(ctx)
	}
	if err != nil {
		s.Bwrap = ""
	}
}

// Warning is the one line about a sandbox that is missing, "" where there is one or none was wanted.
func (s Sandbox) Warning() string {
	if s.Lacking == nil {
		return ""
	}
	return "agents run without a sandbox: " + s.Lacking.Why + "; " + s.Lacking.Fix + "; --sandbox off silences this"
}

// sandboxConfig is the sandbox that settings ask for.
func sandboxConfig(at Place, cfg config.Config, b agent.Backend) (sandbox.Config, error) {
	env := os.Environ()
	c := sandbox.Config{Mode: sandbox.Mode(cmp.Or(cfg.Sandbox, string(sandbox.Auto))), Root: at.Root, Top: at.Top,
		Env: env, Agent: family(b), Program: programOf(b, at.Dir),
		UID: os.Geteuid(), VerifyNetwork: cfg.VerifyNetwork, Hosts: cfg.SandboxDomains, ShowLogin: verifyInherits(cfg),
		Keep: at.Keep}
	// What a person typed names files that commands may see. A repository's settings do not: for those there is
	// sandbox_read, which needs trust.
	typed := slices.Concat(cfg.Typed["command"], cfg.Typed["verify"],
		[]string{os.Getenv("DESCARTES_COMMAND"), os.Getenv("DESCARTES_VERIFY")})
	c.Named = words(typed)
	if runtime.GOOS == "darwin" {
		if path, err := proc.Look(sandbox.SandboxExec, "/", env); err == nil {
			c.Seatbelt = path
		}
	} else if path, err := proc.Look("bwrap", "/", proc.Outside(env, at.Top)); err == nil && filepath.IsAbs(path) {
		c.Bwrap = path
	}
	c.Write, c.Read = Paths(at.Root, cfg.SandboxWrite), Paths(at.Root, cfg.SandboxRead)
	if cfg.Holdout.Run != "" {
		c.Held = sandbox.Held{Dir: cfg.Holdout.Folder(at.Root), Own: filepath.Join(at.Root, ".descartes", "private")}
	}
	if cfg.SettingsFile != "" {
		c.Keep = append(c.Keep, cfg.SettingsFile)
	}
	self, err := os.Executable()
	if err != nil {
		return c, fmt.Errorf("find our own program: %w", err)
	}
	c.Self = self
	return c, nil
}

// words are those of command lines that may be paths.
func words(lines []string) []string {
	return strings.FieldsFunc(strings.Join(lines, " "), func(r rune) bool {
		return strings.ContainsRune(" \t\n;&|<>()\"'`=", r)
	})
}

// sees refuses an agent whose command names a file that the sandbox hides from it: no attempt could run.
func (r *Run) sees(b agent.Backend) {
	box, err := sandbox.New(r.Box.Config)
	if err != nil || r.Config.Fleet != "" {
		return // the sandbox of another machine
	}
	for _, path := range words(b.Command) {
		if filepath.IsAbs(path) && box.Hides(path) {
			hint := "sandbox_read: [" + path + "] in " + config.SettingsFile + " shows it"
			if !slices.Contains(r.Box.Named, path) {
				line := make([]string, len(b.Command))
				for i, word := range b.Command {
					line[i] = terminal.Quote(word)
				}
				hint += ", and so does the command, typed: --command " + terminal.Quote(strings.Join(line, " "))
			}
			r.wrong(config.Wrong(hint, "the sandbox hides %s, which the agent's command names", path))
		}
	}
}

// Paths are the places that a setting of the sandbox names, in a project with that root.
func Paths(root string, list []string) (out []string) {
	for _, path := range list {
		if rest, ok := strings.CutPrefix(path, "~/"); ok {
			path = filepath.Join(os.Getenv("HOME"), rest)
		} else if !filepath.IsAbs(path) {
			path = filepath.Join(root, path)
		}
		out = append(out, path)
	}
	return out
}

// programOf is where a backend's program is, "" if it is nowhere.
func programOf(b agent.Backend, dir string) string {
	if len(b.Command) == 0 {
		return ""
	}
	path, err := proc.Look(b.Command[0], dir, os.Environ())
	if err == nil && !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	return path
}
