package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"descartes/agent"
	"descartes/internal/plainfile"
	"descartes/internal/proc"
	"descartes/loop"
)

// backend is the agent that the settings choose, then what else there is.
func (d *doctor) backend(ctx context.Context, cfg loop.Config) {
	b, _, err := resolveBackend(cfg)
	if err != nil {
		d.bad("agent", err.Error(), hintOf(err))
		d.agents(ctx, cfg, agent.Backend{})
		return
	}
	look := func(program string) (string, error) { return proc.Look(program, d.root, d.env) }
	if err := b.Check(look, 0); err != nil {
		d.bad("agent", err.Error(), `install it`+inBrackets(b.Install())+`, or give any program with --command "my-agent --flag"`)
		d.agents(ctx, cfg, b)
		return
	}
	path, _ := look(b.Command[0]) // Check has found it
	c := &installed{b: b, path: path}
	c.ask(ctx, d)
	d.good("agent", c.text(cfg.Backend.Model))
	for _, l := range b.Preflight(placeOf(cfg, b, d.root, c.version)) {
		if l.Certain {
			d.bad("agent", b.Name+": "+l.What, l.Fix)
		} else {
			d.lacking("agent", b.Name+": "+l.What, l.Fix)
		}
	}
	d.agents(ctx, cfg, b)
}

// agents tells of every client of the table with the settings' rows, but the chosen one, and of accounts that are used
// up.
func (d *doctor) agents(ctx context.Context, cfg loop.Config, chosen agent.Backend) {
	defer d.limits()
	table, err := agent.NewTable(cfg.Backends)
	if err != nil {
		d.bad("agent", err.Error(), "correct it in the settings")
		return
	}
	var found []*installed
	for _, name := range table.Names() {
		b, ok := table.Lookup(name)
		if !ok || len(b.Command) == 0 || b.Name == chosen.Name {
			continue
		}
		path, err := proc.Look(b.Command[0], d.root, d.env)
		if err != nil {
			d.lacking("agent", name+": "+b.Command[0]+" is not on PATH"+inBrackets(b.Install()), "")
			continue
		}
		found = append(found, &installed{b: b, path: path})
	}
	var wg sync.WaitGroup // some need seconds to tell their version
	for _, c := range found {
		wg.Go(func() { c.ask(ctx, d) })
	}
	wg.Wait()
	for _, c := range found {
		d.good("agent", c.text(""))
		for _, l := range c.b.Preflight(placeOf(cfg, c.b, d.root, c.version)) {
			d.lacking("agent", c.b.Name+": "+l.What, l.Fix)
		}
	}
	if len(found) == 0 && len(chosen.Command) == 0 {
		d.fix(`install one, or give any program with --command "my-agent --flag"`)
	}
}

// inBrackets is a remark after a sentence, where there is one.
func inBrackets(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

// installed is a backend whose program is there.
type installed struct {
	b       agent.Backend
	path    string
	version string // as the program tells it, "" where it did not or was not asked
}

// ask asks a program that is known for its version: any other may do anything when it is called so.
func (c *installed) ask(ctx context.Context, d *doctor) {
	if c.b.Known() {
		c.version = d.version(ctx, c.path)
	}
}

// text is what is there, and how it is called.
func (c *installed) text(model string) string {
	version := c.version
	if version == "" && c.b.Known() {
		version = "version unknown"
	}
	s := c.b.Name + ": " + c.path + inBrackets(version) + ", called as " + c.b.CommandLine(model)
	if model != "" && len(c.b.ModelArgs) == 0 && c.b.Format != agent.FormatACP {
		s += ", model " + model + " is not told to it"
	}
	return s
}

// version is the first line of what a program says of its version. It is asked in a folder of its own, which is its home
// too: a wrapper under a client's name may write where it stands, and clients leave settings and caches behind.
func (d *doctor) version(ctx context.Context, path string) string {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	dir, err := os.MkdirTemp("", "descartes-doctor-")
	if err != nil {
		return ""
	}
	defer os.RemoveAll(dir)
	env := slices.Clone(d.env)
	for _, name := range []string{"HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "COPILOT_HOME"} {
		env = append(env, name+"="+dir)
	}
	reply, err := proc.Output(ctx, proc.Call{Argv: []string{path, "--version"}, Dir: dir, Env: env})
	line, _, _ := strings.Cut(strings.TrimSpace(string(reply.Stdout)), "\n")
	if err != nil || reply.Code != 0 {
		return ""
	}
	return fit(line, 60)
}

// placeOf is where a client would run, with the variables that the settings pass on to it, for what it may lack.
func placeOf(cfg loop.Config, b agent.Backend, root, version string) agent.Host {
	parted := passing(cfg, b, os.Environ())
	env := slices.Concat(parted.Base, parted.Agent)
	get := func(name string) string {
		for i := len(env) - 1; i >= 0; i-- { // the last one counts
			if v, ok := strings.CutPrefix(env[i], name+"="); ok {
				return v
			}
		}
		return ""
	}
	return agent.Host{Root: os.Geteuid() == 0, Env: get, Read: beginning, Dir: root, Version: version}
}

// lacking sorts what keeps a client from its work into what stops a start and what is told as a warning.
func lacking(cfg loop.Config, b agent.Backend, root string) (found problems, warnings []string) {
	for _, l := range b.Preflight(placeOf(cfg, b, root, "")) {
		what := b.Name + ": " + l.What
		if l.Certain {
			found = append(found, loop.Problem{Message: what, Hint: l.Fix, Err: &failure{code: exitAgent, err: fmt.Errorf("%s", what)}})
			continue
		}
		warnings = append(warnings, what+": "+l.Fix)
	}
	return found, warnings
}

// beginning is the first of a file's bytes, where it is one: settings of a client are shorter than this.
func beginning(path string) []byte {
	b, err := plainfile.Read("", path, 4<<20)
	if err != nil {
		return nil
	}
	return b
}
