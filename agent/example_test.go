package agent_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"descartes/agent"
	"descartes/agent/process"
)

// plain runs commands as they are. A real one ends all that a command starts, at its deadlines too.
type plain struct{}

func (plain) Run(ctx context.Context, c process.Command) (process.Exit, error) {
	e := process.Exit{Label: c.Label, Why: process.Exited, Start: time.Now()}
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Env = c.Dir, append(os.Environ(), c.Env...)
	log, err := os.OpenFile(c.Stdout, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return e, err
	}
	defer log.Close()
	cmd.Stdout = log
	if failed := (*exec.ExitError)(nil); !errors.As(cmd.Run(), &failed) {
		return e, nil
	}
	e.Code = cmd.ProcessState.ExitCode()
	return e, nil
}

func Example() {
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	b, _ := agent.Lookup("generic")
	b.Command = []string{"sh", "-c", `echo "I was asked: $0"; echo; echo TASK_COMPLETE`}
	res, err := agent.NewRunner(plain{}, b).Run(context.Background(),
		agent.Request{Prompt: "Add a parser.", Log: filepath.Join(dir, "log")})
	if err != nil {
		panic(err)
	}
	fmt.Println(res.End, res.Complete)
	// Output: finished true
}
