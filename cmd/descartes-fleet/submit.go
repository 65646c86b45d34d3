package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"descartes/fleet"
	"descartes/fleet/wire"
	"descartes/internal/proc"
)

// exit is the exit status of a run that was followed.
type exit int

func (e exit) Error() string { return "exit status " + strconv.Itoa(int(e)) }

// decided are the flags of descartes run that submit decides, or that make no sense there.
var decided = []string{"--name", "--working-dir", "-C", "--state-file", "--detach", "--fleet", "--dry-run", "--scud-tag", "--tag", "--json", "--junit", "--summary", "--push",
	"--branch", "--no-commit", "--no-confirm", "--plain"}

func newSubmitCmd(at *fleet.Server) *cobra.Command {
	return &cobra.Command{
		Use:   "submit TAG [flags of descartes run]",
		Short: "Have a worker run a tag: the run goes on without this machine",
		Long: `submit has a worker coordinate a run of a tag, from HEAD of the branch that is
checked out. The wave commits come to that branch on the remote; where somebody
pushed to it meanwhile, to descartes/ID. Where the worker is lost, another one
resumes the run.

  descartes-fleet submit tally -j 16 --review claude
  descartes-fleet follow ID     prints what the run prints
  descartes-fleet cancel ID`,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			args, help, err := ours(at, args)
			if err != nil {
				return err
			}
			if help {
				return cmd.Help()
			}
			if len(args) == 0 || strings.HasPrefix(args[0], "-") {
				return &usageError{"submit needs a tag", "descartes-fleet submit TAG; descartes tasks list shows tags"}
			}
			for _, arg := range args[1:] {
				if name, _, _ := strings.Cut(arg, "="); slices.Contains(decided, name) {
					return &usageError{"a submitted run has no " + name, "descartes-fleet submit --help"}
				}
			}
			return submit(cmd.Context(), at, args[0], args[1:], cmd.OutOrStdout())
		},
	}
}

// ours takes this program's own flags out of arguments of which most are another one's.
func ours(at *fleet.Server, args []string) (rest []string, help bool, err error) {
	for i := 0; i < len(args); i++ {
		name, value, given := strings.Cut(args[i], "=")
		to := map[string]*string{"--address": &at.Address, "--namespace": &at.Namespace, "--key-file": &at.KeyFile}[name]
		switch {
		case name == "--help" || name == "-h":
			help = true
		case to == nil:
			rest = append(rest, args[i])
		case given:
			*to = value
		case i+1 == len(args):
			return nil, false, &usageError{name + " needs a value", "descartes-fleet submit --help"}
		default:
			i++
			*to = args[i]
		}
	}
	return rest, help, nil
}

func submit(ctx context.Context, at *fleet.Server, tag string, flags []string, out io.Writer) (err error) {
	p, err := wire.OpenProject(ctx, ".")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	if err := p.Ready(ctx); err != nil {
		return err
	}
	list, err := listOf(p.Root(), tag)
	if err != nil {
		return err
	}
	d, err := fleet.NewDispatcher(ctx, *at, io.Discard)
	if err != nil {
		return err
	}
	defer d.Client.Close()
	if d.Silent, err = silent(); err != nil {
		return err
	}
	err = d.Free(ctx, p.URL, tag)
	if taken, ok := errors.AsType[*fleet.TakenError](err); ok {
		return &usageError{taken.Error(), "descartes-fleet follow " + wire.LoopName(taken.Loop) + " prints what it says, if it was submitted"}
	}
	if err != nil {
		return err
	}
	s, err := p.Give(ctx, tag, list, flags)
	if err == nil {
		err = d.Submit(ctx, s)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "submitted: %s, tag %s, branch %s\nnext: descartes-fleet follow %[1]s   prints what it prints\n      descartes-fleet cancel %[1]s\n", s.Loop, s.Tag, s.Branch)
	return err
}

// listOf finds the file of a tag's tasks, as descartes does.
func listOf(root, tag string) (string, error) {
	program, err := proc.LookBeside("descartes", root, os.Environ())
	if err != nil {
		return "", fmt.Errorf("%w; submit needs descartes beside descartes-fleet, or on the PATH", err)
	}
	var said bytes.Buffer
	p, err := proc.StartCompanion([]string{program, "waves", "--working-dir", root, "--scud-tag", tag, "--json"}, os.Environ(), &said)
	if err != nil {
		return "", err
	}
	var waves struct{ Source string }
	derr := json.NewDecoder(p.Out).Decode(&waves)
	if code, err := p.End(time.Minute); err != nil || code != 0 || derr != nil || waves.Source == "" {
		message, hint, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(said.String()), "error: "), "\nhint: ")
		return "", &usageError{message, hint}
	}
	if filepath.IsAbs(waves.Source) {
		if waves.Source, err = filepath.Rel(root, waves.Source); err != nil {
			return "", err
		}
	}
	if !filepath.IsLocal(waves.Source) {
		return "", &usageError{"the list of tag " + tag + " is outside of the repository: " + waves.Source, "a worker has what is committed"}
	}
	return waves.Source, nil
}

// underway opens what commands about a submitted run need.
func underway(ctx context.Context, at *fleet.Server) (*wire.Project, *fleet.Dispatcher, error) {
	p, err := wire.OpenProject(ctx, ".")
	if err != nil {
		return nil, nil, err
	}
	d, err := fleet.NewDispatcher(ctx, *at, io.Discard)
	if err != nil {
		return nil, nil, errors.Join(err, p.Close())
	}
	return p, d, nil
}

func newFollowCmd(at *fleet.Server) *cobra.Command {
	return &cobra.Command{
		Use:   "follow ID",
		Short: "Print what a submitted run prints, and exit as it does",
		Args:  one,
		RunE: func(cmd *cobra.Command, args []string) error {
			p, d, err := underway(cmd.Context(), at)
			if err != nil {
				return err
			}
			defer p.Close()
			defer d.Client.Close()
			out := cmd.OutOrStdout()
			over, err := d.Follow(cmd.Context(), p, args[0], out)
			switch {
			case errors.Is(err, context.Canceled):
				fmt.Fprintf(os.Stderr, "the run goes on; descartes-fleet cancel %s ends it\n", args[0])
				return exit(130)
			case err != nil:
				return err
			case over.Aside:
				fmt.Fprintf(out, "somebody pushed to the branch meanwhile: the commits are on %s\nnext: git fetch && git merge %s\n", over.Branch, over.Commit)
			case over.Commit != "":
				fmt.Fprintf(out, "branch %s on the remote is at %.7s\nnext: git pull\n", over.Branch, over.Commit)
			}
			if over.Code != 0 {
				return exit(over.Code)
			}
			return nil
		},
	}
}

func newCancelCmd(at *fleet.Server) *cobra.Command {
	return &cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel a submitted run; what is committed stays",
		Args:  one,
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := fleet.NewDispatcher(cmd.Context(), *at, io.Discard)
			if err != nil {
				return err
			}
			defer d.Client.Close()
			if err := d.CancelRun(cmd.Context(), args[0]); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "run %s is cancelled now: its agents are interrupted\n", args[0])
			return err
		},
	}
}

// one takes the id of a run.
func one(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return &usageError{cmd.Name() + " needs the id of a run", "descartes-fleet submit printed it"}
	}
	return nil
}
