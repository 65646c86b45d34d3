package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"descartes/agent"
	"descartes/agent/process"
	"descartes/agent/stream"
	"descartes/internal/config"
	"descartes/internal/proc"
	"descartes/internal/redact"
	"descartes/internal/sandbox"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/verify"
)

// confined is what agents and verify commands are held in by, and what they get to see of our environment. The
// agents are known by their backend's name, the verify command by verifying.
type confined struct {
	boxes  map[string]*sandbox.Box
	env    map[string][]string // besides base
	base   []string            // variables for all
	whole  []string            // the rest of ours
	proxy  *sandbox.Proxy      // nil but in a strict sandbox
	limits process.Limits
	tmp    string // folder of the commands' temporary files
}

// verifying is no backend's name.
const verifying = ""

// sandboxConfig is the sandbox that settings ask for.
func sandboxConfig(root, dir string, cfg loop.Config, b agent.Backend) (sandbox.Config, error) {
	env := os.Environ()
	c := sandbox.Config{Mode: sandbox.Mode(cmp.Or(cfg.Sandbox, string(sandbox.Auto))), Root: root, Top: gitTop(dir), Env: env, Agent: familyOf(b),
		UID: os.Geteuid(), VerifyNetwork: cfg.VerifyNetwork, Hosts: cfg.SandboxDomains}
	c.Program = programOf(b, dir)
	c.ShowLogin = cfg.VerifyEnv == "inherit"
	c.Named = slices.Concat(b.Command[min(1, len(b.Command)):], strings.FieldsFunc(cfg.Scud.VerificationCommand+" "+cfg.VerificationCommand, func(r rune) bool {
		return strings.ContainsRune(" \t\n;&|<>()\"'`=", r)
	}))
	if path, err := proc.Look("bwrap", "/", env); err == nil && filepath.IsAbs(path) {
		c.Bwrap = path
	}
	for _, list := range []struct {
		from []string
		to   *[]string
	}{{cfg.SandboxWrite, &c.Write}, {cfg.SandboxRead, &c.Read}} {
		for _, path := range list.from {
			if rest, ok := strings.CutPrefix(path, "~/"); ok {
				path = filepath.Join(os.Getenv("HOME"), rest)
			} else if !filepath.IsAbs(path) {
				path = filepath.Join(root, path)
			}
			*list.to = append(*list.to, path)
		}
	}
	if cfg.SettingsFile != "" {
		c.Keep = append(c.Keep, cfg.SettingsFile)
	}
	if cfg.Scud.Tag != "" {
		if f, err := loop.OpenTasks(root, cfg.Scud); err == nil { // else there is none to keep yet
			c.Keep = append(c.Keep, f.Path())
		}
	}
	self, err := os.Executable()
	if err != nil {
		return c, fmt.Errorf("find our own program: %w", err)
	}
	c.Self = self
	return c, nil
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

// enclosure is the sandbox that a machine gives.
type enclosure struct {
	sandbox.Config
	dir     string               // where commands run
	note    string               // what is in force, in words
	lacking *sandbox.CannotError // why there is less than was asked for
}

// sandboxed finds out what sandbox there is for a run.
func sandboxed(ctx context.Context, root, dir string, cfg loop.Config, b agent.Backend) (h enclosure, err error) {
	h.dir = dir
	if h.Config, err = sandboxConfig(root, dir, cfg, b); err != nil {
		return h, err
	}
	if h.Mode == sandbox.Off {
		h.note = "off"
		return h, nil
	}
	box, err := sandbox.New(h.Config)
	if err == nil {
		h.Userns, err = box.Probe(ctx)
	}
	switch {
	case err == nil && h.Mode == sandbox.Strict:
		h.note = fmt.Sprintf("strict "+config.InSandbox+"network to %s only)", terminal.Count(len(sandbox.Hosts(h.Agent))+len(cfg.SandboxDomains), "host"))
		return h, nil
	case err == nil:
		h.note = "auto " + config.InSandbox + "network open)"
		return h, nil
	case !errors.As(err, &h.lacking):
		return h, err
	case h.Mode == sandbox.Strict:
		return h, badInput(h.lacking.Fix+"; or run without it: --sandbox off", "--sandbox strict: %s", h.lacking.Why)
	}
	h.Mode, h.note = sandbox.Off, "none ("+h.lacking.Why+")"
	return h, nil
}

// warning is the one line about a sandbox that is missing.
func (h enclosure) warning() string {
	if h.lacking == nil {
		return ""
	}
	return "agents run without a sandbox: " + h.lacking.Why + "; " + h.lacking.Fix + "; --sandbox off silences this"
}

// safety finds out what sandbox there is for commands in dir, and whether there is room on the disk. It writes into the
// settings what came of it.
func safety(ctx context.Context, root, dir string, cfg *loop.Config, b agent.Backend) (h enclosure, found problems) {
	h, err := sandboxed(ctx, root, dir, *cfg, b)
	if err != nil {
		found = append(found, loop.Problem{Message: err.Error(), Hint: hintOf(err), Err: err})
	}
	cfg.SandboxInForce = h.note
	if cfg.MinFreeDisk > 0 {
		if why := loop.Room(freeDisk, root, cfg.MinFreeDisk); why != "" {
			hint := "free some, or start with --min-free-disk 0"
			found = append(found, loop.Problem{Message: why, Hint: hint, Err: &failure{code: exitError, err: errors.New(why)}})
		}
	}
	return h, found
}

// passing parts our environment between agents and verify commands. What is masked is withheld.
func passing(cfg loop.Config, b agent.Backend, env []string) sandbox.Parted {
	words := slices.DeleteFunc(slices.Clone(cfg.Mask), func(w string) bool { return w == "off" })
	return sandbox.Passing{Backend: familyOf(b), Pass: cfg.EnvPass, Own: b.EnvPass, Strict: strictEnv(cfg),
		Credential: func(name, value string) bool { return len(redact.Parts(name, value, words)) > 0 }}.Part(env)
}

// strictEnv reports whether only the variables of the list are passed on.
func strictEnv(cfg loop.Config) bool {
	return cfg.Env == envStrict || cfg.Env == "" && cfg.Sandbox == string(sandbox.Strict)
}

// What is passed on of our variables where nothing is said of one.
const (
	envOpen   = "open"
	envStrict = "strict"
)

// withheld names the variables of ours that agents and verify commands do not get.
func withheld(cfg loop.Config, b agent.Backend, env []string) (w loop.Withheld) {
	parted := passing(cfg, b, env)
	w.Agents = parted.Names()
	if cfg.VerifyEnv != "inherit" {
		parted.Left = append(parted.Left, parted.Agent...)
		w.Verify = parted.Names()
	}
	return w
}

const (
	wantedShown   = 6
	withheldShown = 12
)

// environmentText says how many of our variables agents get, and names those that are withheld: all of them, or where
// only a list is passed on those that look needed.
func environmentText(cfg loop.Config, b agent.Backend) string {
	parted := passing(cfg, b, os.Environ())
	text := fmt.Sprintf("%s passed on", terminal.Count(len(parted.Base)+len(parted.Agent), "variable"))
	if strictEnv(cfg) {
		commands := append(slices.Clone(b.Command), cfg.Scud.VerificationCommand, cfg.VerificationCommand)
		if names := parted.Wanted(commands...); len(names) > 0 {
			text += "; not " + terminal.Few(names, wantedShown) + " (--env-pass passes them on)"
		}
		return text
	}
	if names := parted.Names(); len(names) > 0 {
		text += "; withheld: " + terminal.Few(names, withheldShown) + " (--env-pass passes them on)"
	}
	if names := slices.Sorted(slices.Values(parted.Never)); len(names) > 0 {
		text += "; never passed on: " + terminal.Few(names, wantedShown)
	}
	return text
}

// confine makes ready what the commands of a run are held in by. run is the folder of the loop's files. close is for
// when the last of them has ended.
func confine(run string, cfg loop.Config, h enclosure, backends ...agent.Backend) (c *confined, err error) {
	c = &confined{boxes: map[string]*sandbox.Box{}, env: map[string][]string{}, tmp: filepath.Join(run, "tmp"),
		limits: process.Limits{Memory: cfg.MaxMemory, Procs: cfg.MaxProcs}}
	if err := sandbox.RemoveTemp(c.tmp); err != nil { // of a loop that was killed
		return nil, err
	}
	own := h.Config
	own.Make, own.Cache = true, filepath.Join(c.tmp, "cache")
	if own.Mode == sandbox.Strict {
		hosts := slices.Clone(cfg.SandboxDomains)
		for _, b := range backends {
			hosts = append(hosts, sandbox.Hosts(familyOf(b))...)
		}
		if c.proxy, err = sandbox.StartProxy(hosts, run); err != nil {
			return nil, err
		}
		own.Socket = c.proxy.Socket()
	}
	for _, b := range backends {
		parted := passing(cfg, b, os.Environ())
		c.base, c.whole = parted.Base, slices.Concat(parted.Agent, parted.Left)
		for _, kv := range parted.Agent {
			name, _, _ := strings.Cut(kv, "=")
			if _, set := b.Env[name]; !set && !slices.Contains(b.UnsetEnv, name) {
				c.env[b.Name] = append(c.env[b.Name], kv)
			}
		}
		if cfg.VerifyEnv == "inherit" {
			c.env[verifying] = slices.Concat(parted.Agent, parted.Left)
		}
		own.Role, own.Agent, own.Program, own.Own = sandbox.Agent, familyOf(b), programOf(b, h.dir), b.Format == stream.FormatACP
		if c.boxes[b.Name], err = sandbox.New(own); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	own.Role, own.Own = sandbox.Verify, false
	if c.boxes[verifying], err = sandbox.New(own); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// familyOf is the name by which a backend's folders, hosts and variables are known: those of the same client that is
// run in another way.
func familyOf(b agent.Backend) string { return strings.TrimSuffix(b.Name, "-acp") }

func (c *confined) close() error {
	err := sandbox.RemoveTemp(c.tmp)
	if c.proxy != nil {
		err = errors.Join(err, c.proxy.Close())
	}
	return err
}

// bounds are those of one command, which calls done when it has ended.
func (c *confined) bounds(who string) (b process.Limits, done func() []string, err error) {
	box := c.boxes[who]
	if box.Mode() == sandbox.Off {
		return c.limits, func() []string { return nil }, nil
	}
	tmp, err := sandbox.MakeTemp(c.tmp)
	if err != nil {
		return b, nil, err
	}
	b = box.Limits(tmp)
	b.Memory, b.Procs = c.limits.Memory, c.limits.Procs
	return b, func() (notes []string) {
		for _, path := range box.Planted() {
			notes = append(notes, "the attempt made "+path+", which leads git elsewhere: it was removed")
		}
		if err := sandbox.RemoveTemp(tmp); err != nil {
			notes = append(notes, "temporary files are left: "+err.Error())
		}
		return notes
	}, nil
}

// lateVerifier is the verification of a loop, whose runner comes as late as lateAgent's.
type lateVerifier struct {
	r *verify.Runner
	c *confined
}

// refused are the hosts that the sandbox's proxy refused since it was asked last.
func (v *lateVerifier) refused() []string {
	if v.c == nil || v.c.proxy == nil {
		return nil
	}
	return v.c.proxy.Refused()
}

func (v *lateVerifier) use(sh *proc.Shim, c *confined) { v.r, v.c = verify.NewRunner(sh), c }

func (v *lateVerifier) Run(ctx context.Context, q verify.Request) (verify.Result, error) {
	bounds, done, err := v.c.bounds(verifying)
	if err != nil {
		return verify.Result{}, err
	}
	more := v.c.env[verifying]
	if q.Whole {
		more = v.c.whole
	}
	q.Limits, q.Env = bounds, slices.Concat(more, q.Env)
	res, err := v.r.Run(ctx, q)
	done()
	return res, err
}

// freeDisk is what an unprivileged program may still write below a folder, or above where it will be.
func freeDisk(dir string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}
