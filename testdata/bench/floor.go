package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"descartes/internal/atomicfile"
)

// floorArg makes this program the floor: `bench floor TASKS AGENT-COMMAND`.
const floorArg = "floor"

// floor is the least that a durable run can do: two processes and one synced journal line per task,
// spawned as cheaply as os/exec can.
func floor(tasks, agent string) error {
	n, err := strconv.Atoi(tasks)
	if err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	journal, err := atomicfile.OS().OpenFile(".git/floor.ndjson", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		return err
	}
	env := append(os.Environ(), "DESCARTES_TASK_ID=")
	for id := 1; id <= n; id++ {
		env[len(env)-1] = "DESCARTES_TASK_ID=" + strconv.Itoa(id)
		for _, command := range []string{agent, "true"} {
			cmd := exec.Cmd{Path: sh, Args: []string{"sh", "-c", command}, Env: env, Stdin: null, Stdout: null,
				Stderr: null}
			if err := cmd.Run(); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintf(journal, "{\"seq\":%d,\"type\":\"task_done\",\"task\":\"%d\"}\n", id,
			id); err != nil {
			return err
		}
		if err := journal.Sync(); err != nil {
			return err
		}
	}
	return journal.Close()
}
