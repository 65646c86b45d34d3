package breakdown

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"descartes/agent"
	"descartes/loop/attempt"
	"descartes/loop/slot"
)

// who the agents are run for, in messages and in the names of their logs.
const who = "planner"

// maxWords is how much of an agent's last message is read.
const maxWords = 1 << 20

// Workspace is where the agents run, one after the other.
type Workspace interface {
	attempt.Workspace
	Prepare(ctx context.Context, s slot.Start) (slot.Stand, error)
}

// Asker runs agents that are asked for tasks.
type Asker struct {
	Runner    *attempt.Runner
	Workspace Workspace
	Start     slot.Start // what they see
	Dir       string     // of their logs
	// what they may be run with: the next one takes over where one is out of quota or keeps failing
	Among []attempt.With
	Input attempt.Input // without a prompt and a log
	Note  func(line string)
	Ended func(with attempt.With, res agent.Result)
}

// EndedError says that an agent came to no answer.
type EndedError struct {
	Result agent.Result
	Log    string
}

func (e *EndedError) Error() string {
	reason := e.Result.Reason
	if e.Result.Blocked != "" {
		reason = "it says that it is blocked: " + e.Result.Blocked
	}
	return "the agent gave no answer: " + reason
}

// Log is where the agent that is asked for the nth time says what it says.
func (a *Asker) Log(n int) string { return filepath.Join(a.Dir, strconv.Itoa(n)+"."+who+".log") }

// Clear removes the logs of an earlier run.
func (a *Asker) Clear() error {
	old, err := filepath.Glob(filepath.Join(a.Dir, "*.log"))
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove an old log: %w", err)
		}
	}
	return err
}

// Ask is the last words of an agent that is asked for the nth time. One that comes to no end of its own is an
// *EndedError, a request to stop context.Canceled.
func (a *Asker) Ask(ctx context.Context, n int, prompt string) (string, error) {
	in := a.Input
	in.Name, in.Log, in.Words = fmt.Sprintf("%s %s %d", in.Name, who, n), filepath.Join(a.Dir, strconv.Itoa(n)+".log"),
		maxWords
	in.Env = append(slices.Clip(in.Env), "DESCARTES_ATTEMPT="+strconv.Itoa(n))
	for {
		with, start := a.Among[0], a.Start
		start.Aside = filepath.Join(a.Dir, strconv.Itoa(n))
		if _, err := a.Workspace.Prepare(ctx, start); err != nil {
			return "", err
		}
		res, notes, err := a.Runner.Ask(ctx, a.Workspace, in,
			attempt.Question{Who: who, Among: []attempt.With{with}, Prompt: prompt})
		for _, line := range append(notes, res.Notes...) {
			a.Note(line)
		}
		if err != nil {
			return "", err
		}
		a.Ended(with, res)
		switch {
		case res.End == agent.Finished && res.Blocked == "":
			return res.Final, nil
		case len(a.Among) > 1 && (res.End == agent.Limited || res.End == agent.Refused ||
			res.Cause == agent.Transient):
			a.Note(fmt.Sprintf("%s takes over: %s", a.Among[1].Backend, res.Reason))
			a.Among = a.Among[1:]
			continue
		}
		return "", &EndedError{res, a.Log(n)}
	}
}
