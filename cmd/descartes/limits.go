package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"descartes/agent"
	"descartes/agent/quota"
	"descartes/agent/stream"
	"descartes/internal/terminal"
)

func newLimitsCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "limits",
		Short: "List the accounts whose quota is remembered as used up: by which loop, and until when",
		Long: `List the accounts whose quota is remembered as used up: by which loop, and until when. Every loop of yours on this
machine waits for them without asking, or ends with 75. descartes limits clear [ACCOUNT] forgets them.`,
		Args: takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := accounts(nil, "", os.Getenv).List(time.Now())
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), append([]quota.Record{}, list...))
			}
			return write(cmd.OutOrStdout(), limitTable(list))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the accounts as JSON")
	cmd.AddCommand(&cobra.Command{
		Use:   "clear [account]",
		Short: "Forget what is remembered of an account, or of all",
		Args:  takes(0, 1, "at most one account"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cleared, err := accounts(nil, "", os.Getenv).Clear(strings.Join(args, ""))
			if err != nil {
				return err
			}
			if len(args) == 1 && len(cleared) == 0 {
				return badInput("descartes limits", "nothing is remembered of an account %q", args[0])
			}
			return write(cmd.OutOrStdout(), fmt.Sprintf("forgotten: %s\n", cmp.Or(terminal.Clean(strings.Join(cleared, ", ")), "nothing was remembered")))
		},
	})
	return cmd
}

func limitTable(list []quota.Record) string {
	if len(list) == 0 {
		return "no account is remembered as used up\n"
	}
	var s strings.Builder
	w := tabwriter.NewWriter(&s, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "ACCOUNT\tUSED UP UNTIL\tMET BY\tREASON")
	for _, l := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", terminal.Clean(l.Account), terminal.Moment(l.Until), terminal.Clean(l.By()), terminal.Clean(l.Reason))
	}
	w.Flush() // into memory
	s.WriteString("\ndescartes limits clear [ACCOUNT] forgets them: the next loop asks the provider\n")
	return s.String()
}

// warnLimits says of each backend whose account is remembered as used up until when, who met that, and how to forget
// it. A run that asks anew believes nothing of it.
func (p *printer) warnLimits(root string, backends []agent.Backend, anew bool) {
	if anew {
		return
	}
	a := accounts(backends, root, os.Getenv)
	for _, b := range backends {
		if l, ok := a.Known(b.Name, time.Now()); ok {
			p.warn(fmt.Sprintf("%s's quota is used up until %s: %s; %s", b.Name, terminal.Moment(l.Until), l.Reason, l.Forget()))
		}
	}
}

// limits are the accounts that no loop asks before a time.
func (d *doctor) limits() {
	list, err := accounts(nil, "", os.Getenv).List(time.Now())
	if err != nil {
		d.lacking("quota", err.Error(), "")
	}
	for _, l := range list {
		d.lacking("quota", fmt.Sprintf("%s is used up until %s: %s; remembered from %s", l.Account, terminal.Moment(l.Until), l.Reason, l.By()), "descartes limits clear "+l.Account+" forgets it")
	}
}

// accounts is what is known of the quotas of a run's backends, under the user's state directory; root is its project.
func accounts(backends []agent.Backend, root string, env func(string) string) *quota.Accounts {
	dir := env("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) {
		if !filepath.IsAbs(env("HOME")) {
			return nil
		}
		dir = filepath.Join(env("HOME"), ".local", "state")
	}
	ids := map[string]string{}
	for _, b := range backends {
		if b.Format != stream.FormatText { // whose limits nobody can tell
			ids[b.Name] = b.Account(env("HOME"), os.Environ())
		}
	}
	return &quota.Accounts{Dir: filepath.Join(dir, "descartes", "limits"), For: root, IDs: ids}
}
