//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"
)

// errand is a command that an agent or a verify command wants run beside it: in the same folder, but in the user's own
// tree.
type errand struct {
	Dir  string
	Args []string
	Env  []string
}

// done is what came of an errand.
type done struct {
	Out  string
	Code int
}

// runErrands runs what the program "outside" sends, until the script ends.
func runErrands(env *testscript.Env) error {
	dir, err := os.MkdirTemp("", "outside-") // a socket's path is short
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "s")
	at, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	env.Setenv("OUTSIDE", path)
	env.Defer(func() { at.Close(); os.RemoveAll(dir) })
	go func() {
		for {
			c, err := at.Accept()
			if err != nil {
				return
			}
			go serveErrand(c)
		}
	}()
	return nil
}

func serveErrand(c net.Conn) {
	defer c.Close()
	var e errand
	if json.NewDecoder(c).Decode(&e) != nil {
		return
	}
	cmd := exec.Command("sh", append([]string{"-c", `exec "$@"`, "sh"}, e.Args...)...)
	cmd.Dir, cmd.Env = e.Dir, e.Env
	out, _ := cmd.CombinedOutput()
	_ = json.NewEncoder(c).Encode(done{string(out), cmd.ProcessState.ExitCode()})
}

// outside is "outside program args": what an agent in a slot does there as a person would in another terminal.
func outside() {
	dir, _ := os.Getwd()
	c, err := net.Dial("unix", os.Getenv("OUTSIDE"))
	var d done
	if err == nil {
		err = json.NewEncoder(c).Encode(errand{dir, os.Args[1:], os.Environ()})
	}
	if err == nil {
		err = json.NewDecoder(c).Decode(&d)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "outside:", err)
		os.Exit(99)
	}
	fmt.Print(d.Out)
	os.Exit(d.Code)
}
