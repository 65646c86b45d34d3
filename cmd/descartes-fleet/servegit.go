package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"descartes/fleet/gitserver"
	"descartes/fleet/wire"
)

func newServeGitCmd() *cobra.Command {
	addr, tokenFile, cert, key := "127.0.0.1:7280", "", "", ""
	cmd := &cobra.Command{
		Use:   "serve-git [DIR]",
		Short: "Keep what a fleet's machines send each other out of the project's remote",
		Long: `serve-git serves git repositories over HTTP: specs, results and logs of runs go
there instead of to the project's remote, where a run says so:

  descartes run TAG --fleet --set fleet_remote=http://127.0.0.1:7280/PROJECT.git

A repository is made when a run first sends something to it, in DIR. Only refs
below refs/descartes are served, and nothing without the token, on this machine
too: agents here reach it as well. Runs and workers find the token in the file
that DESCARTES_FLEET_GIT_TOKEN_FILE names, or by git's own credential helpers.
Other machines reach the server with --addr.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := filepath.Join(stateDir(), "git")
			if len(args) > 0 {
				dir = args[0]
			}
			return serveGit(cmd.Context(), addr, dir, tokenFile, cert, key, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&addr, "addr", addr, "`host:port` to listen on")
	f.StringVar(&tokenFile, "token-file", "", "`file` with the token that every request must have; required")
	f.StringVar(&cert, "cert", "", "`file` with the TLS certificate")
	f.StringVar(&key, "key", "", "`file` with the certificate's key")
	return cmd
}

func serveGit(ctx context.Context, addr, dir, tokenFile, cert, key string, out io.Writer) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return &usageError{"--addr: " + err.Error(), "--addr 127.0.0.1:7280, or --addr 0.0.0.0:7280 for other machines"}
	}
	if (cert == "") != (key == "") {
		return &usageError{"--cert and --key belong together", "descartes-fleet serve-git --help"}
	}
	if tokenFile == "" {
		return &usageError{"without --token-file whoever reaches " + addr + " could fetch and push, agents on this machine too", newToken + "; then --token-file ~/.ssh/fleet.token"}
	}
	token, err := readToken(tokenFile)
	if err == nil {
		tokenFile, err = filepath.Abs(tokenFile)
	}
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of the repositories: %w", err)
	}
	s, err := gitserver.New(dir, token, os.Environ(), out)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen on %s: %w; --addr chooses another place", addr, err)
	}
	if port == "0" {
		addr = l.Addr().String()
	}
	scheme := "http"
	if cert != "" {
		scheme = "https"
	}
	fmt.Fprintf(out, "git server: %s://%s, repositories in %s\n", scheme, addr, dir)
	if cert == "" && !l.Addr().(*net.TCPAddr).IP.IsLoopback() {
		fmt.Fprintln(out, "without --cert anybody on the way can read the token: put a proxy with TLS before it")
	}
	fmt.Fprintf(out, "next: export %s='%s'\n      descartes-fleet worker --repo '%[3]s://%[4]s/*'\n      descartes run TAG --fleet --set fleet_remote=%[3]s://%[4]s/PROJECT.git\nCtrl-C ends it\n",
		wire.GitTokenVar, strings.ReplaceAll(tokenFile, "'", `'\''`), scheme, addr)
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10, ErrorLog: log.New(out, "", 0)}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		wait, done := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second) // for requests under way
		defer done()
		stopped <- server.Shutdown(wait)
	})
	if cert != "" {
		err = server.ServeTLS(l, cert, key)
	} else {
		err = server.Serve(l)
	}
	if !stop() {
		err = errors.Join(<-stopped, server.Close())
	}
	return err
}

// newToken makes one where agents cannot read it.
const newToken = "(umask 077; openssl rand -hex 32 > ~/.ssh/fleet.token)"

// shortest is how few characters a token may have.
const shortest = 16

func readToken(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if len(token) < shortest || strings.ContainsAny(token, " \t\r\n") {
		return "", &usageError{fmt.Sprintf("%s holds no token: one line of at least %d characters", path, shortest), "(umask 077; openssl rand -hex 32 > " + path + ")"}
	}
	return token, nil
}
