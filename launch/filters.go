package launch

import (
	"context"
	"os"
	"slices"
	"sync"

	"descartes/agent"
	"descartes/agent/process"
	"descartes/config"
	"descartes/gitops"
	"descartes/internal/plainfile"
	"descartes/internal/sandbox"
)

// gitBox is the sandbox of git commands that may start a filter, with the variables of a check. It is looked for when
// the first one comes; where there is none they run as agents do.
func gitBox(ctx context.Context, top string, c *config.Config) gitops.Box {
	find := sync.OnceValues(func() (Sandbox, error) {
		return FindSandbox(context.WithoutCancel(ctx), Place{Root: top, Dir: top, Top: top}, *c, agent.Backend{})
	})
	return func(p gitops.Places) (wrap, env []string, done func(), err error) {
		found, err := find()
		if err != nil {
			return nil, nil, nil, err
		}
		box, err := found.Around(sandbox.Around{Read: p.Read, Write: p.Write, Sealed: p.Sealed, Instead: p.Instead})
		if err != nil || !box.Wraps() {
			return nil, nil, nil, err
		}
		tmp, err := sandbox.MakeTemp(os.TempDir())
		if err != nil {
			return nil, nil, nil, err
		}
		parted := Part(*c, agent.Backend{}, os.Environ())
		env = slices.DeleteFunc(slices.Clone(parted.Base), process.Loads)
		return append(box.Limits(tmp).Wrap, "--"), env, func() { _ = plainfile.RemoveAll(tmp) }, nil
	}
}
