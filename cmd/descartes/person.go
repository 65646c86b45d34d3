package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"descartes/internal/terminal"
)

// person is who sits at the terminal.
type person struct {
	p     *printer
	lines chan string
	soft  <-chan struct{} // closed by Ctrl-C, which is no answer
}

// atTerminal is the person at the terminal; nil where nobody is there. The goroutine that reads ends with the
// program: a read of a terminal cannot be ended.
func atTerminal(cmd *cobra.Command, p *printer, ci bool) *person {
	if ci || p.lines != nil || !terminal.IsTerminal(cmd.OutOrStdout()) {
		return nil
	}
	in, ok := cmd.InOrStdin().(*os.File)
	if !ok || !terminal.IsTerminal(in) {
		return nil
	}
	h := &person{p: p, lines: make(chan string)}
	go func() {
		defer close(h.lines)
		for s := bufio.NewScanner(in); s.Scan(); {
			h.lines <- s.Text()
		}
	}()
	return h
}

// ask asks a question whose usual answer is yes.
func (h *person) ask(ctx context.Context, question string) (yes, answered bool) {
	for range 5 {
		fmt.Fprintf(h.p.text, "%s [Y/n] ", terminal.Clean(question))
		h.p.text.Flush()
		var line string
		ok := false
		select {
		case line, ok = <-h.lines:
		case <-h.soft:
		case <-ctx.Done():
		}
		if !ok {
			h.p.say("")
			return false, false
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "", "y", "yes":
			return true, true
		case "n", "no":
			return false, true
		}
	}
	return false, false
}
