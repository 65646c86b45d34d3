package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"descartes/agent/render"
	"descartes/internal/proc"
	"descartes/loop/store"
	"descartes/view/web"
)

func newServeCmd() *cobra.Command {
	var a app
	var addr string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Show the runs of the project in a browser",
		Long: `Show the runs of the project in a browser, live, until Ctrl-C.

The first line printed is the address to open. It contains a key, without which nothing is shown: whoever reads this
terminal can look at the page and press its buttons, which run the same commands as a person would. Only this
machine can reach the page, unless --addr says otherwise; then the key and the page cross the network unencrypted.`,
		Args: takes(0, 0, ""),
		RunE: a.does(func([]string) error { return a.serve(addr) }),
	}
	a.flags(cmd, "")
	cmd.Flags().StringVar(&addr, "addr", "127.0.0.1:0", "`host:port` to listen on; port 0 picks a free one")
	return cmd
}

func (a *app) serve(addr string) error {
	ctx, stop := signal.NotifyContext(a.ctx(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return badInput("choose another --addr, such as 127.0.0.1:8080", "listen on %s: %w", addr, err)
	}
	at := l.Addr().(*net.TCPAddr)
	host, _, _ := net.SplitHostPort(addr)
	opt := web.Options{Root: a.root, Host: host, Open: !at.IP.IsLoopback(),
		Run: func(ctx context.Context, stdin string, args ...string) (string, error) {
			return runSelf(ctx, a.root, stdin, args...)
		},
		Read: func(st *store.State, backend string, show func(render.Item)) (io.WriteCloser, error) {
			r, err := newLogReader(a.root, st)
			if err != nil {
				return nil, err
			}
			return r.read(backend, show), nil
		}}
	if opt.Repo, err = a.repo(); err != nil {
		opt.Repo = nil // without it the page has no diffs
	}
	shown := at.String()
	if at.IP.IsUnspecified() { // nobody can open that
		if opt.Host, err = os.Hostname(); err != nil {
			return fmt.Errorf("find this machine's name: %w", err)
		}
		shown = net.JoinHostPort(opt.Host, strconv.Itoa(at.Port))
	}
	s, err := web.New(opt)
	if err != nil {
		return err
	}
	if err := a.print("http://" + shown + s.Path() + "\n"); err != nil {
		return err
	}
	return s.Serve(ctx, l)
}

// runSelf runs this program with other arguments. Its refusal is the error.
func runSelf(ctx context.Context, root, stdin string, args ...string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find our own program: %w", err)
	}
	r, err := proc.Output(ctx, proc.Call{Argv: append([]string{self}, args...), Dir: root, Env: os.Environ(),
		Stdin: []byte(stdin)})
	if err == nil && r.Code != exitDone {
		err = errors.New(strings.TrimPrefix(strings.TrimSpace(string(r.Stderr)), "error: "))
	}
	return string(r.Stdout), err
}
