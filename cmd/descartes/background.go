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
	"descartes/loop/journal"
	"descartes/loop/store"
)

// detachedVar marks a run in the background, for the process that started it with --detach.
const detachedVar = "DESCARTES_DETACHED"

// background starts the same command again in its own session if --detach asks for that. The caller still sees
// everything up to the first attempt, and ends with the exit code it would have in the foreground. away says that this
// process is finished.
func (s *settings) background(cmd *cobra.Command, root string) (away bool, err error) {
	switch {
	case !s.Detach || s.DryRun:
		return false, nil
	case os.Getenv(detachedVar) != "":
		os.Unsetenv(detachedVar)
		s.ready = proc.NewReady()
		return false, nil
	case s.JSON:
		return true, badInput("leave --json out here: descartes watch --json prints the events",
			"--detach and --json: a run in the background has no stdout")
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
	b, err := proc.StartBackground(append([]string{self}, os.Args[1:]...), append(os.Environ(), detachedVar+"=1"),
		stdin, cmd.OutOrStdout(), cmd.ErrOrStderr())
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
	return true, write(cmd.OutOrStdout(), detachedText(root, id, b.PID()))
}

// detachedText says how to follow a loop in the background.
func detachedText(root, id string, pid int) string {
	var s strings.Builder
	there := fromHere(root)
	fmt.Fprintf(&s, "\nrun %s continues in the background (pid %d); closing this terminal does not end it\n", id, pid)
	for _, l := range [][2]string{
		{"watch", "descartes watch " + id + there},
		{"output", "descartes logs -f --name " + id + there},
		{"status", "descartes status " + id + there},
		{"stop", "descartes cancel " + id + there},
	} {
		fmt.Fprintf(&s, "%s: %s\n", l[0], l[1])
	}
	return s.String()
}

// letGo returns observe, extended to release the caller of a background run when its first attempt begins.
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
			if err := s.ready.Say(e.Loop, filepath.Join(store.NewHome(root).Run(e.Loop), "console.log")); err != nil {
				p.warn(err.Error())
			}
		}
		observe(e)
	}
}
