package verify_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"descartes/agent/process"
	"descartes/verify"
)

// plain runs commands as they are. A real one ends all that a command starts, at its deadlines too.
type plain struct{}

func (plain) Run(ctx context.Context, c process.Command) (process.Exit, error) {
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Env = c.Dir, append(os.Environ(), c.Env...)
	err := cmd.Run()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		return process.Exit{}, err
	}
	return process.Exit{Why: process.Exited, Code: cmd.ProcessState.ExitCode()}, nil
}

func Example() {
	res, err := verify.NewRunner(plain{}).Run(context.Background(), verify.Request{Command: "test -d /no/such/folder"})
	if err != nil {
		panic(err)
	}
	fmt.Println(res.Passed, res.Reason())
	// Output: false verify failed with exit status 1
}
