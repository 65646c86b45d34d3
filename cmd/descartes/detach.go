package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"descartes/internal/proc"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/journal"
)

// detachedVar marks the run that works in the background for who called it with --detach.
const detachedVar = "DESCARTES_DETACHED"

// background starts the same command once more, in a session of its own, where --detach asks for that. Everything up
// to the first attempt is still seen by the caller, and ends with the exit code that it has in the foreground. away
// says that this process has nothing more to do.
func (s *settings) background(cmd *cobra.Command, root string) (away bool, err error) {
	switch {
	case !s.Detach || s.DryRun:
		return false, nil
	case os.Getenv(detachedVar) != "":
		os.Unsetenv(detachedVar)
		s.ready = proc.NewReady()
		return false, nil
	case s.JSON:
		return true, badInput("descartes loop attach --json prints the events of a loop in the background", "--detach and --json: a run in the background has no stdout")
	}
	self, err := os.Executable()
	if err != nil {
		return true, fmt.Errorf("find our own program: %w", err)
	}
	var stdin *os.File
	if f, ok := cmd.InOrStdin().(*os.File); ok && !terminal.IsTerminal(f) {
		stdin = f
	}
	// Ctrl-C reaches only us: the other has no terminal.
	ch := make(chan os.Signal, 4)
	signal.Notify(ch, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(ch)
	b, err := proc.StartBackground(append([]string{self}, os.Args[1:]...), append(os.Environ(), detachedVar+"=1"), stdin, cmd.OutOrStdout(), cmd.ErrOrStderr())
	if err != nil {
		return true, err
	}
	go func() {
		for s := range ch {
			_ = b.Signal(s) // one that has ended hears nothing
		}
	}()
	id, code, err := b.Await()
	switch {
	case err != nil:
		return true, err
	case id == "" && code != exitDone:
		return true, quiet(code)
	case id == "":
		return true, nil
	}
	return true, write(cmd.OutOrStdout(), detachedText(root, id, b.PID))
}

// detachedText says how a loop in the background is followed.
func detachedText(root, id string, pid int) string {
	var s strings.Builder
	there := fromHere(root)
	fmt.Fprintf(&s, "\nloop %s runs in the background (pid %d); closing this terminal does not end it\n", id, pid)
	for _, l := range [][2]string{
		{"attach", "descartes loop attach " + id + there + "   (Ctrl-C there stops it, " + leaveKey + " leaves it running)"},
		{"output", "descartes loop logs -f --name " + id + there},
		{"status", "descartes loop status " + id + there},
		{"stop", "descartes loop cancel " + id + there},
	} {
		fmt.Fprintf(&s, "%s: %s\n", l[0], l[1])
	}
	return s.String()
}

// letGo is observe, and lets the caller of a run in the background go when its first attempt begins.
func (s *settings) letGo(root string, p *printer, observe func(journal.Event)) func(journal.Event) {
	if s.ready == nil {
		return observe
	}
	gone := false
	return func(e journal.Event) {
		switch e.Type {
		case journal.TaskStarted, journal.AttemptStarted, journal.IterationStarted, journal.LimitWaiting:
			if gone {
				break
			}
			gone = true
			p.text.Flush()
			if err := s.ready.Say(e.Loop, filepath.Join(loop.NewHome(root).Run(e.Loop), "console.log")); err != nil {
				p.warn(err.Error())
			}
		}
		observe(e)
	}
}
