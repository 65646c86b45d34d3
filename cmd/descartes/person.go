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

// person is whoever sits at the terminal.
type person struct {
	p       *printer
	want    chan struct{} // asks for a line
	lines   chan string
	reading bool            // one was asked for, and has not come
	soft    <-chan struct{} // closed by Ctrl-C, which is no answer
}

// atTerminal returns the person at the terminal, or nil. The goroutine that reads ends with the program: a read of a terminal cannot be ended. It
// only reads when asked: everything else typed belongs to a view.
func atTerminal(cmd *cobra.Command, p *printer, ci bool) *person {
	if ci || p.lines != nil || !terminal.IsTerminal(cmd.OutOrStdout()) {
		return nil
	}
	in, ok := cmd.InOrStdin().(*os.File)
	if !ok || !terminal.IsTerminal(in) {
		return nil
	}
	h := &person{p: p, want: make(chan struct{}, 1), lines: make(chan string)}
	go func() {
		defer close(h.lines)
		s := bufio.NewScanner(in)
		for range h.want {
			if !s.Scan() {
				return
			}
			h.lines <- s.Text()
		}
	}()
	return h
}

// ask asks a question whose default is yes.
func (h *person) ask(ctx context.Context, question string) (yes, answered bool) {
	if yes, answered, asked := h.p.view.ask(ctx, question, h.soft); asked {
		return yes, answered
	}
	return h.question(ctx, question+" [Y/n]", true)
}

// question asks in lines; usual is the answer of an empty line.
func (h *person) question(ctx context.Context, question string, usual bool) (yes, answered bool) {
	for range 5 {
		fmt.Fprintf(h.p.text, "%s ", terminal.Clean(question))
		h.p.text.Flush()
		if !h.reading {
			h.reading = true
			h.want <- struct{}{}
		}
		var line string
		ok := false
		select {
		case line, ok = <-h.lines:
			h.reading = false
		case <-h.soft:
		case <-ctx.Done():
		}
		if !ok {
			h.p.say("")
			return false, false
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "":
			return usual, true
		case "y", "yes":
			return true, true
		case "n", "no":
			return false, true
		}
	}
	return false, false
}
