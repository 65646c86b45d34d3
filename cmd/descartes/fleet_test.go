package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"descartes/fleet"
	"descartes/launch"
)

// directFleet is descartes-fleet without a server: each attempt is made at once.
func directFleet() {
	dial = func(context.Context, string, func(string)) (fleet.Carrier, error) { return direct{}, nil }
	main()
}

// direct makes attempts in this process, with repositories in $FLEET_CACHE. When the file $FLEET_LOSE appears, a
// worker is lost and another one takes its place. No account has quota for the backend $FLEET_QUOTA, and nobody has
// the label "rare". The script $FLEET_TAMPER makes another commit of a result on the remote, and prints it. Workers
// say that their reports are in $FLEET_REF.
type direct struct{}

var directMaker = fleet.Maker{Cache: os.Getenv("FLEET_CACHE"),
	Note: func(text string) { fmt.Fprintln(os.Stderr, text) }}

func (direct) Claim(context.Context, fleet.Hello, func(string), func(error)) (func(), error) {
	return func() {}, nil
}

func (direct) Carry(ctx context.Context, a fleet.Ask, hear func(fleet.Report) error) (kept fleet.Kept, err error) {
	wait := fleet.Wait{For: "a worker with " + strings.Join(a.Needs, " and ")}
	if os.Getenv("FLEET_QUOTA") == a.Backend {
		wait = fleet.Wait{For: "quota: account one has none until 2100",
			Until: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), Reason: "the weekly limit of account one"}
	} else if !slices.Contains(a.Needs, "rare") {
		wait = fleet.Wait{}
	}
	if wait.For != "" {
		if err := hear(fleet.Report{Wait: wait}); err != nil {
			return kept, err
		}
		<-ctx.Done()
		return kept, errors.New("it was cancelled")
	}
	for try := 1; ; try++ {
		// this one has an account of its own
		if err := os.RemoveAll(filepath.Join(launch.StateDir(), "limits")); err != nil {
			return kept, err
		}
		mctx, drop := context.WithCancelCause(ctx)
		said, done := make(chan fleet.Live, 64), make(chan error, 1)
		go func() {
			for at := os.Getenv("FLEET_LOSE"); at != "" && mctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
				if os.Remove(at) == nil {
					drop(fleet.ErrDropped)
				}
			}
		}()
		go func() {
			var err error
			kept, err = directMaker.Make(mctx, a, fmt.Sprintf("%d-direct", try), func(l fleet.Live) { said <- l })
			done <- err
		}()
		for over := false; !over; {
			select {
			case l := <-said:
				if ref := os.Getenv("FLEET_REF"); ref != "" {
					l.Run = ref
				}
				if err := hear(fleet.Report{Live: l}); err != nil {
					return kept, err
				}
			case err = <-done:
				over = true
			}
		}
		lost := errors.Is(context.Cause(mctx), fleet.ErrDropped)
		if drop(nil); lost {
			continue
		}
		if tamper := os.Getenv("FLEET_TAMPER"); err == nil && tamper != "" {
			id, mark, _ := strings.Cut(a.Loop, ".")
			b, err := exec.Command("sh", "-e", tamper, fmt.Sprintf("refs/descartes/%s/fleet/%s/tasks/%s/%d", id,
				mark, a.Task, a.Try), kept.Commit, a.Task).Output()
			if err != nil {
				panic(err)
			}
			kept.Commit = strings.TrimSpace(string(b))
		}
		return kept, err
	}
}
