package launch

import (
	"os"
	"slices"

	"descartes/agent/process"
	"descartes/internal/plainfile"
	"descartes/internal/sandbox"
	"descartes/internal/shell"
)

// Notice is how a notice's command runs: in the sandbox, with the variables and the network of a check and nothing to
// write, where it runs something of the project. argv is nil where it runs as it stands.
func (r *Run) Notice(line string) (argv, env []string, done func(), err error) {
	top := r.Root
	if r.Repo != nil {
		top = r.Repo.Root()
	}
	here, err := os.Getwd()
	if err != nil || !shell.RunsBelow(top, here, line) {
		return nil, nil, nil, nil
	}
	own := r.Box.Config
	own.Role, own.Reads, own.Slot, own.Cache = sandbox.Verify, true, sandbox.Slot{}, ""
	box, err := sandbox.New(own)
	if err != nil || !box.Wraps() {
		return nil, nil, nil, err
	}
	tmp, err := sandbox.MakeTemp(os.TempDir())
	if err != nil {
		return nil, nil, nil, err
	}
	parted := Part(*r.Config, r.Backends[0], os.Environ())
	if env = parted.Base; verifyInherits(*r.Config) {
		env = slices.Concat(parted.Base, parted.Agent, parted.Left)
	}
	env = slices.DeleteFunc(slices.Clone(env), process.Loads)
	of := box.Limits(tmp)
	return slices.Concat(of.Wrap, of.Inside, []string{"sh", "-c", line}), env, func() { _ = plainfile.RemoveAll(tmp) }, nil
}
