package launch

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"descartes/agent"
	"descartes/agent/process"
	"descartes/agent/stream"
	"descartes/config"
	"descartes/internal/plainfile"
	"descartes/internal/proc"
	"descartes/internal/sandbox"
	"descartes/verify"
)

// CommandsOf is what the commands of a run are started with.
type CommandsOf struct {
	Config   config.Config
	Sandbox  Sandbox
	Backends []agent.Backend // the usual one first
	Files    string          // folder of temporary files
	Dir      string          // where the supervising process works
	Cookie   string          // marks every process, see Cookie
}

// Cookie marks every process that a loop of that name starts, so that a later one finds what was left running.
func Cookie(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:8])
}

// Commands are the agents and the verify command of a loop, which gets them before they can run: they are started once
// the loop has its locks and an id.
type Commands struct {
	shim   *proc.Shim
	agents []*agent.Runner // each under its own name
	verify *verify.Runner
	boxes  map[string]sandbox.Config // by the backend's name, verifying and holding
	env    map[string][]string       // besides those for all
	whole  []string                  // all of ours besides those for all
	proxy  *sandbox.Proxy            // nil but in a strict sandbox
	limits process.Limits
	tmp    string // folder of the commands' temporary files

	mu     sync.Mutex
	layers map[string]bool // folders of layers over caches, which a command has; nil: there are none
}

// verifying stands for the verify command where others stand under a backend's name.
const verifying = ""

// holding stands for a command that sees the held-out checks. It is no name that a backend can have.
const holding = " held"

// Start ends what an earlier run under the same cookie left running, and makes the commands ready. Close is for when
// the last of them has ended; after an error there is nothing to close.
func (c *Commands) Start(r CommandsOf) (err error) {
	c.boxes, c.env, c.tmp = map[string]sandbox.Config{}, map[string][]string{}, filepath.Join(r.Files, "tmp")
	c.limits = process.Limits{Memory: r.Config.MaxMemory, Procs: r.Config.MaxProcs, Disk: r.Config.MaxDisk,
		Free: r.Config.MinFreeDisk, Log: r.Config.MaxLog}
	if err := plainfile.RemoveAll(c.tmp); err != nil { // of a loop that was killed
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	base, err := c.confine(r)
	if err != nil {
		return err
	}
	if _, err := proc.Sweep(r.Cookie); err != nil {
		return fmt.Errorf("end what an earlier run left running: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find our own program: %w", err)
	}
	c.shim, err = proc.Start(proc.ShimConfig{Argv: []string{self, proc.ShimCommand}, Env: base, Cookie: r.Cookie,
		Dir: r.Dir})
	if err != nil {
		return err
	}
	for _, b := range r.Backends {
		c.agents = append(c.agents, agent.NewRunner(c.shim, b))
	}
	c.verify = verify.NewRunner(c.shim)
	return nil
}

// confine makes each command's sandbox and environment, and returns the variables for all.
func (c *Commands) confine(r CommandsOf) (base []string, err error) {
	own := r.Sandbox.Config
	// what agents leave in caches reaches no check
	agents, checks := filepath.Join(c.tmp, "cache", "agents"), filepath.Join(c.tmp, "cache", "checks")
	if dir := filepath.Join(c.tmp, "cache", "probe"); own.LayersCaches(context.Background(), dir) {
		c.layers = map[string]bool{}
	}
	if own.Mode == sandbox.Strict {
		hosts := slices.Clone(r.Config.SandboxDomains)
		for _, b := range r.Backends {
			hosts = append(hosts, sandbox.Hosts(family(b))...)
		}
		if c.proxy, err = sandbox.StartProxy(hosts); err != nil {
			return nil, err
		}
		own.Socket = c.proxy.Socket()
	}
	for _, b := range r.Backends {
		parted := Part(r.Config, b, os.Environ())
		base, c.whole = parted.Base, slices.Concat(parted.Agent, parted.Left)
		loads := slices.DeleteFunc(slices.Clone(parted.Base), func(kv string) bool { return !process.Loads(kv) })
		base = slices.DeleteFunc(base, process.Loads) // the supervising process runs outside the sandbox
		parted.Agent, c.env[verifying], c.whole = append(parted.Agent, loads...), loads, append(c.whole, loads...)
		for _, kv := range parted.Agent {
			name, _, _ := strings.Cut(kv, "=")
			if _, set := b.Env[name]; !set && !slices.Contains(b.UnsetEnv, name) {
				c.env[b.Name] = append(c.env[b.Name], kv)
			}
		}
		own.Role, own.Agent, own.Program, own.Own = sandbox.Agent, family(b), programOf(b, r.Sandbox.Dir),
			b.Format == stream.FormatACP
		own.Cache = agents
		c.boxes[b.Name] = own
	}
	if verifyInherits(r.Config) {
		c.env[verifying] = c.whole
	}
	own.Role, own.Own, own.Cache = sandbox.Verify, false, checks
	c.boxes[verifying] = own
	own.Role = sandbox.HeldOut
	c.boxes[holding] = own
	return base, nil
}

// Close ends every process, and removes the temporary files.
func (c *Commands) Close() (err error) {
	if c.shim != nil {
		err = c.shim.Close()
	}
	err = errors.Join(err, plainfile.RemoveAll(c.tmp))
	if c.proxy != nil {
		err = errors.Join(err, c.proxy.Close())
	}
	return err
}

// Refused are the hosts that the sandbox refused since it was asked last.
func (c *Commands) Refused() []string {
	if c.proxy == nil {
		return nil
	}
	return c.proxy.Refused()
}

// limitsOf are those of one command, which calls done when it has ended.
func (c *Commands) limitsOf(own sandbox.Config) (l process.Limits, done func() []string, err error) {
	giveBack := c.lendLayers(&own)
	defer func() {
		if err != nil {
			giveBack()
		}
	}()
	box, err := sandbox.New(own)
	if err != nil {
		return l, nil, err
	}
	if !box.Wraps() {
		giveBack()
		return c.limits, func() []string { return nil }, nil
	}
	tmp, err := sandbox.MakeTemp(c.tmp)
	if err != nil {
		return l, nil, err
	}
	of := box.Limits(tmp)
	l = c.limits
	l.Wrap, l.Inside, l.Bare, l.Tree, l.Place, l.Temp = of.Wrap, of.Inside, of.Bare, of.Tree, of.Place, tmp
	l.Layers, l.Apart = of.Layers, of.Apart
	return l, func() (notes []string) {
		giveBack()
		if err := plainfile.RemoveAll(tmp); err != nil {
			notes = append(notes, "temporary files are left: "+err.Error())
		}
		return notes
	}, nil
}

// lendLayers gives a command layers over the user's caches that no other has: two cannot write one.
func (c *Commands) lendLayers(own *sandbox.Config) (giveBack func()) {
	if c.layers == nil || own.Role == sandbox.HeldOut {
		return func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := 1; ; n++ {
		dir := filepath.Join(own.Cache, fmt.Sprintf("layers-%d", n))
		if c.layers[dir] {
			continue
		}
		c.layers[dir], own.CacheLayers = true, dir
		return func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.layers, dir)
		}
	}
}

// Agents are those of a loop as one: a request says which of them it is for.
type Agents struct{ c *Commands }

// Agents runs the agents once the commands are started.
func (c *Commands) Agents() Agents { return Agents{c} }

// of is the agent of that name, else the usual one.
func (a Agents) of(name string) *agent.Runner {
	for _, r := range a.c.agents {
		if r.Name() == name {
			return r
		}
	}
	return a.c.agents[0]
}

// Run runs one agent.
func (a Agents) Run(ctx context.Context, q agent.Request) (agent.Result, error) {
	r := a.of(q.Backend)
	own := a.c.boxes[r.Name()]
	own.Reads = q.Reads
	limits, done, err := a.c.limitsOf(own)
	if err != nil {
		return agent.Result{}, err
	}
	q.Limits, q.Env = limits, slices.Concat(a.c.env[r.Name()], q.Env)
	res, err := r.Run(ctx, q)
	res.Notes = append(res.Notes, done()...)
	return res, err
}

// Verifier runs the verify command of a loop.
type Verifier struct{ c *Commands }

// Verifier runs the verify command once the commands are started.
func (c *Commands) Verifier() Verifier { return Verifier{c} }

// Run runs the verify command.
func (v Verifier) Run(ctx context.Context, q verify.Request) (verify.Result, error) {
	who := verifying
	if q.Held {
		who = holding
	}
	limits, done, err := v.c.limitsOf(v.c.boxes[who])
	if err != nil {
		return verify.Result{}, err
	}
	more := v.c.env[verifying]
	if q.Whole {
		more = v.c.whole
	}
	q.Limits, q.Env = limits, slices.Concat(more, q.Env)
	place, remove, err := recordAt(v.c.boxes[who].Mode, limits)
	if err != nil {
		return verify.Result{}, err
	}
	defer remove()
	q.Record = place
	res, err := v.c.verify.Run(ctx, q)
	done()
	return res, err
}

// recordAt is where the results of a command's tests are recorded: among its temporary files, where it has its own,
// else among the user's.
func recordAt(mode sandbox.Mode, l process.Limits) (p verify.Place, remove func(), err error) {
	if mode != sandbox.Off && l.Temp != "" {
		name := "results-" + rand.Text()
		dir, at := sandbox.TempOf(l.Temp, l.Bare)
		return verify.Place{Dir: filepath.Join(dir, name), At: filepath.Join(at, name)}, func() {}, nil
	}
	dir, err := os.MkdirTemp("", "descartes-results-")
	if err != nil {
		return p, nil, fmt.Errorf("make a folder for test results: %w", err)
	}
	return verify.Place{Dir: dir, At: dir}, func() { _ = plainfile.RemoveAll(dir) }, nil
}
