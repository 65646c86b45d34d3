package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"descartes/internal/plainfile"
	"descartes/internal/proc"
	"descartes/internal/redact"
	"descartes/loop"
	"descartes/loop/journal"
)

// outputs say what a run prints and writes, and how it is called.
type outputs struct {
	name, stateFile string
	json, dryRun    bool
	junit, summary  string
	parallel        int
	detach          bool
	ready           *proc.Ready // where a run in the background says that it has begun
}

func (o *outputs) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.name, "name", "", "name of the loop: a-z, 0-9 and - (default: drawn)")
	f.StringVar(&o.stateFile, "state-file", "", "`file` of the loop's state (default: .descartes/loop-state.json)")
	f.BoolVar(&o.dryRun, "dry-run", false, "check everything, print what would be done, and touch nothing")
	f.IntVarP(&o.parallel, "parallel", "j", 1, "tasks at the same time; only 1 is built yet")
	o.registerReports(cmd)
	o.registerDetach(f)
}

func (o *outputs) registerDetach(f *pflag.FlagSet) {
	f.BoolVar(&o.detach, "detach", false, "run in the background once the first attempt begins, and print how to follow it")
}

func (o *outputs) registerReports(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.json, "json", false, "print the events as JSON lines on stdout, people's text on stderr")
	f.StringVar(&o.junit, "junit", "", "write a JUnit report to this `file` at the end")
	f.StringVar(&o.summary, "summary", "", "write a summary in Markdown to this `file` at the end")
}

func (o *outputs) check() error {
	if o.parallel != 1 {
		return badInput("leave -j out", "-j %d: only one task at a time is built yet", o.parallel)
	}
	if o.name != "" {
		if err := loop.ValidID(o.name); err != nil {
			return badInput("", "%w", err)
		}
	}
	return nil
}

// files are the reports that were asked for, typed in dir.
func (o *outputs) files(dir string) []string {
	var out []string
	for _, p := range []string{o.junit, o.summary} {
		if p == "" {
			continue
		}
		p = absolute(dir, p)
		if real, err := realDir(filepath.Dir(p)); err == nil { // as git sees it
			p = filepath.Join(real, filepath.Base(p))
		}
		out = append(out, p)
	}
	return out
}

// write makes the files that were asked for.
func (o *outputs) write(s *settings, sum *summary, m *redact.Redactor) error {
	if o.junit == "" && o.summary == "" {
		return nil
	}
	h := journal.NewState()
	if sum.run.id != "" {
		events, err := journal.ReadEvents(loop.NewHome(sum.root).Events(sum.run.id))
		if err != nil {
			return err
		}
		h = journal.Fold(events)
	}
	var errs []error
	if o.junit != "" {
		errs = append(errs, writeReport(sum.root, absolute(s.dirPath(), o.junit), m.Bytes(junit(sum, h))))
	}
	if o.summary != "" {
		errs = append(errs, writeReport(sum.root, absolute(s.dirPath(), o.summary), m.Bytes(markdown(sum, h))))
	}
	return errors.Join(errs...)
}

func writeReport(root, path string, data []byte) error {
	if err := plainfile.Settle(root, path); err != nil {
		return fmt.Errorf("report %w", err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
