//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// fakeAgent is a coding agent that does what the file $AGENT says. Each of its lines is
//
//	TASK: action        TASK/ATTEMPT: action        *: action
//
// where a prompt loop's iteration is its task, and those that fit the task and attempt at hand are done in order. Each
// run adds a line "task/attempt" to $AGENT.calls.
func fakeAgent() {
	if err := actAsTold(); err != nil {
		fmt.Fprintln(os.Stderr, "fakeagent:", err)
		os.Exit(99)
	}
}

func actAsTold() error {
	file := os.Getenv("AGENT")
	task, attempt := os.Getenv("DESCARTES_TASK_ID"), os.Getenv("DESCARTES_ATTEMPT")
	if task == "" {
		task = os.Getenv("DESCARTES_ITERATION")
	}
	if err := addTo(file+".calls", task+"/"+attempt+"\n"); err != nil {
		return err
	}
	script, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(script)) {
		who, action, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok || who != "*" && who != task && who != task+"/"+attempt {
			continue
		}
		if err := act(action); err != nil {
			return fmt.Errorf("%s: %w", action, err)
		}
	}
	return looksAgain()
}

// looksAgain names what shows that nothing had to be done, where that is asked: the first of the project's files.
func looksAgain() error {
	prompt, err := os.ReadFile(os.Getenv("DESCARTES_PROMPT_FILE"))
	if err != nil || !strings.Contains(string(prompt), "\n## A second look\n") {
		return nil
	}
	return filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == ".git" || d.Name() == ".descartes") {
			return filepath.SkipDir
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		fmt.Printf("As %s shows.\nTASK_COMPLETE\n", path)
		return filepath.SkipAll
	})
}

func act(action string) error {
	verb, rest, _ := strings.Cut(action, " ")
	name, text, _ := strings.Cut(rest, " ")
	name = strings.Replace(name, "$WORK", os.Getenv("WORK"), 1) // beside the project, wherever its copies are
	switch verb {
	case "write":
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			return err
		}
		return os.WriteFile(name, []byte(text+"\n"), 0o666)
	case "append":
		return addTo(name, text+"\n")
	case "rm":
		return os.RemoveAll(name)
	case "say":
		fmt.Println(rest)
	case "bytes": // of NUL-free noise in one line
		n, err := strconv.ParseInt(rest, 10, 64)
		if err != nil {
			return err
		}
		_, err = io.CopyN(os.Stdout, letters{}, n)
		return err
	case "burst": // many bytes of lines and a claim, by a client that does not wait until they are taken
		n, err := strconv.Atoi(rest)
		if err != nil {
			return err
		}
		return burst(n)
	case "prompt": // keep what was given
		return keepPrompt(name)
	case "sh":
		cmd := exec.Command("sh", "-c", rest)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		return cmd.Run()
	case "interrupt": // the loop, once
		return interruptLoop()
	case "signal": // the loop itself
		_, err := signalLoop(rest)
		return err
	case "insist": // signals that come too close together are one
		for ; ; time.Sleep(20 * time.Millisecond) {
			if _, err := signalLoop(rest); err != nil {
				return err
			}
		}
	case "await":
		return await(name)
	case "hang":
		for {
			time.Sleep(time.Hour)
		}
	case "exit":
		n, err := strconv.Atoi(rest)
		if err != nil {
			return err
		}
		os.Exit(n)
	default:
		return errors.New("no such action")
	}
	return nil
}

// burst prints without waiting, as node does, and exits with what nobody has taken.
func burst(n int) error {
	if err := syscall.SetNonblock(1, true); err != nil {
		return err
	}
	text := append(bytes.Repeat([]byte("some line of output\n"), n/20), "TASK_COMPLETE\n"...)
	for len(text) > 0 {
		n, err := syscall.Write(1, text)
		if err != nil {
			os.Exit(0)
		}
		text = text[n:]
	}
	return nil
}

type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func keepPrompt(name string) error {
	if file := os.Getenv("DESCARTES_PROMPT_FILE"); file != "" {
		if b, err := os.ReadFile(file); err == nil {
			return os.WriteFile(name, b, 0o666)
		}
	}
	return os.WriteFile(name, []byte(os.Args[len(os.Args)-1]), 0o666)
}

func addTo(name, text string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// signalLoop sends a signal to the loop that runs this agent, in a project beside its plan, and returns the loop's
// journal.
func signalLoop(name string) (events string, err error) {
	runs, err := filepath.Glob(filepath.Join(filepath.Dir(os.Getenv("AGENT")), "*", ".descartes", "runs",
		os.Getenv("DESCARTES_LOOP_ID")))
	if err != nil || len(runs) == 0 {
		return "", fmt.Errorf("the loop's folder is not found: %v", err)
	}
	home := filepath.Dir(filepath.Dir(runs[0]))
	lock, err := os.ReadFile(filepath.Join(home, "loops", os.Getenv("DESCARTES_LOOP_ID")+".json.lock"))
	if err != nil {
		lock, err = os.ReadFile(filepath.Join(home, "loop-state.json.lock"))
	}
	if err != nil {
		return "", err
	}
	var who struct{ PID int }
	if err := json.Unmarshal(lock, &who); err != nil {
		return "", err
	}
	sig := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP,
		"KILL": syscall.SIGKILL}[name]
	return filepath.Join(home, "runs", os.Getenv("DESCARTES_LOOP_ID"), "events.ndjson"), syscall.Kill(who.PID, sig)
}

// interruptLoop is Ctrl-C, and waits until the loop has taken note of it: it is to end after this agent.
func interruptLoop() error {
	noted := func(events string) (int, error) {
		b, err := os.ReadFile(events)
		return bytes.Count(b, []byte(`"loop_stopping"`)), err
	}
	events, err := signalLoop("")
	if err != nil {
		return err
	}
	before, err := noted(events)
	if err != nil {
		return err
	}
	if _, err := signalLoop("INT"); err != nil {
		return err
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if now, err := noted(events); err != nil || now > before {
			return err
		}
	}
	return errors.New("the loop does not note the interrupt")
}
