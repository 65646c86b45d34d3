package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"descartes/internal/terminal"
)

// person is whoever sits at the terminal; nil is nobody.
type person struct {
	out     io.Writer
	p       *printer      // of the run that asks; nil outside of one
	want    chan struct{} // asks for a line
	lines   chan string
	reading bool            // one was asked for, and has not come
	soft    <-chan struct{} // closed by Ctrl-C, which is no answer
}

// newPerson is who types on in and reads out, nil where one of these is no terminal. The goroutine that reads ends
// with the program: a read of a terminal cannot be ended. It only reads when asked: everything else typed belongs to a
// view.
func newPerson(in io.Reader, out io.Writer) *person {
	if !terminal.IsTerminal(out) {
		return nil
	}
	f, ok := in.(*os.File)
	if !ok || !terminal.IsTerminal(f) {
		return nil
	}
	h := &person{out: out, want: make(chan struct{}, 1), lines: make(chan string)}
	go func() {
		defer close(h.lines)
		s := bufio.NewScanner(f)
		for range h.want {
			if !s.Scan() {
				return
			}
			h.lines <- s.Text()
		}
	}()
	return h
}

// asks is the person whom a command asks on stderr; nil in CI, and where a program reads the output.
func (s *settings) asks(cmd *cobra.Command) *person {
	if s.CI || s.JSON {
		return nil
	}
	return newPerson(cmd.InOrStdin(), cmd.ErrOrStderr())
}

// atTerminal is the person whom a run asks.
func atTerminal(cmd *cobra.Command, p *printer, ci bool) *person {
	if ci || p.lines != nil {
		return nil
	}
	h := newPerson(cmd.InOrStdin(), cmd.OutOrStdout())
	if h != nil {
		h.out, h.p = p.text, p
	}
	return h
}

// ask asks a question whose default is yes, in the view if there is one.
func (h *person) ask(ctx context.Context, question string) (yes, answered bool) {
	if yes, answered, asked := h.p.view.ask(ctx, question, h.soft); asked {
		return yes, answered
	}
	return h.yes(ctx, question, true)
}

// yes asks in lines; usual is the answer of an empty line.
func (h *person) yes(ctx context.Context, question string, usual bool) (yes, answered bool) {
	choice := map[bool]string{true: " [Y/n]", false: " [y/N]"}[usual]
	for range 5 {
		line, ok := h.line(ctx, question+choice)
		switch strings.ToLower(line) {
		case "":
			return usual && ok, ok
		case "y", "yes":
			return true, true
		case "n", "no":
			return false, true
		}
	}
	return false, false
}

// line asks for a line; ok is false where none comes.
func (h *person) line(ctx context.Context, question string) (line string, ok bool) {
	if h == nil {
		return "", false
	}
	fmt.Fprintf(h.out, "%s ", terminal.CleanLines(question))
	if h.p != nil {
		h.p.text.Flush()
	}
	if !h.reading {
		h.reading = true
		h.want <- struct{}{}
	}
	select {
	case line, ok = <-h.lines:
		h.reading = false
	case <-h.soft:
	case <-ctx.Done():
	}
	if !ok {
		fmt.Fprintln(h.out)
	}
	return strings.TrimSpace(line), ok
}
