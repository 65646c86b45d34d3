package sandbox

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"

	"descartes/internal/proc"
)

// Netforward is the hidden command NetCommand, inside a strict sandbox: it listens
// on a port of the loopback that only the sandbox has, leads what comes there
// to the proxy's socket, and runs a program with variables that say so until
// that ends. args are the socket, the hosts that need no proxy, "--" and the program's command line.
func Netforward(args []string, stderr io.Writer) int {
	if len(args) < 4 || args[2] != "--" {
		fmt.Fprintln(stderr, "descartes: this command is for use inside a sandbox only")
		return 2
	}
	// The supervisor takes our end for the program's.
	if err := proc.Untraceable(); err != nil {
		fmt.Fprintln(stderr, "descartes: the way to the proxy:", err)
		return 126
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(stderr, "descartes: the way to the proxy:", err)
		return 126
	}
	defer l.Close()
	go lead(l, args[0])
	url := "http://" + l.Addr().String()
	env := os.Environ()
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		env = append(env, name+"="+url)
	}
	env = append(env, "NO_PROXY="+args[1], "no_proxy="+args[1], "NODE_USE_ENV_PROXY=1")
	code, err := proc.Attend(context.Background(), args[3:], "", env)
	if err != nil {
		fmt.Fprintln(stderr, "descartes:", err)
	}
	return code
}

// direct are the hosts that a program inside reaches without the proxy: the
// sandbox's own loopback. What the list of hosts holds of it is the machine's,
// so that a model that is served there can be reached.
func direct(hosts []string) string {
	own := slices.DeleteFunc([]string{"localhost", "127.0.0.1", "::1"}, func(name string) bool {
		return slices.ContainsFunc(hosts, func(word string) bool {
			host, _ := splitPort(strings.ToLower(word))
			return host == name
		})
	})
	return strings.Join(own, ",")
}

// lead joins every connection to one of its own to the socket. It ends with
// the process.
func lead(l net.Listener, socket string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			out, err := net.Dial("unix", socket)
			if err != nil {
				return
			}
			defer out.Close()
			join(c, out, c)
		}()
	}
}
