package main

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"descartes/agent/render"
	"descartes/internal/proc"
	"descartes/internal/terminal"
	"descartes/internal/web"
	"descartes/loop/store"
)

func newServeCmd() *cobra.Command {
	var a app
	var addr string
	var noBrowser bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Show the loops of the project in a browser",
		Long: `Show the loops of the project in a browser, live, until Ctrl-C.

The first line printed is the address to open. It contains a key, without which nothing is shown: whoever reads this
terminal can look at the page and press its buttons, which run the same commands as a person would. Only this
machine can reach the page, unless --addr says otherwise; then the key and the page cross the network unencrypted.`,
		Args: takes(0, 0, ""),
		RunE: a.does(func([]string) error { return a.serve(addr, !noBrowser) }),
	}
	a.flags(cmd, "")
	cmd.Flags().StringVar(&addr, "addr", "127.0.0.1:0", "`host:port` to listen on; port 0 picks a free one")
	cmd.Flags().BoolVar(&noBrowser, "no-browser", false, "do not open a browser")
	return cmd
}

func (a *app) serve(addr string, browse bool) error {
	ctx, stop := signal.NotifyContext(a.ctx(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return badInput("choose another --addr, such as 127.0.0.1:8080", "listen on %s: %w", addr, err)
	}
	at := l.Addr().(*net.TCPAddr)
	seen, opened := context.WithCancel(ctx)
	defer opened()
	host, _, _ := net.SplitHostPort(addr)
	opt := web.Options{Root: a.root, Host: host, Open: !at.IP.IsLoopback(), Seen: opened,
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
	defer s.Close()
	url := "http://" + shown + s.Path()
	if err := a.print(url + "\n"); err != nil {
		return err
	}
	var browser sync.WaitGroup
	if browse && terminal.IsTerminal(a.out()) {
		browser.Go(func() { openBrowser(ctx, url, seen) })
	}
	err = s.Serve(ctx, l)
	opened()
	browser.Wait()
	return err
}

// runSelf runs this program with other arguments. Its refusal is the error.
func runSelf(ctx context.Context, root, stdin string, args ...string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find our own program: %w", err)
	}
	r, err := proc.Output(ctx, proc.Call{Argv: append([]string{self}, args...), Dir: root, Env: os.Environ(), Stdin: []byte(stdin)})
	if err == nil && r.Code != exitDone {
		err = errors.New(strings.TrimPrefix(strings.TrimSpace(string(r.Stderr)), "error: "))
	}
	return string(r.Stdout), err
}

// openBrowser opens an address if the system can, and returns once the browser has seen it. If not, the address is on the screen. Its key
// would stand in the arguments of a program, which everybody on this machine can read; so it is in a file that only the user can read, in
// a folder that no agent sees in its sandbox.
func openBrowser(ctx context.Context, url string, seen context.Context) {
	dir, err := os.MkdirTemp(os.Getenv("XDG_RUNTIME_DIR"), "descartes-serve-")
	if err != nil {
		return
	}
	defer os.RemoveAll(dir)
	context.AfterFunc(seen, func() { os.RemoveAll(dir) }) // a program that opens browsers may run as long as they do
	path := filepath.Join(dir, "open.html")
	if err := os.WriteFile(path, []byte(`<!doctype html><meta http-equiv="refresh" content="0;url=`+html.EscapeString(url)+`">`), 0o600); err != nil {
		return
	}
	argv := []string{"xdg-open", path}
	switch runtime.GOOS {
	case "darwin":
		argv = []string{"open", path}
	case "windows":
		argv = []string{"rundll32", "url.dll,FileProtocolHandler", path}
	}
	if r, err := proc.Output(ctx, proc.Call{Argv: argv}); err == nil && r.Code == 0 {
		<-seen.Done()
	}
}
