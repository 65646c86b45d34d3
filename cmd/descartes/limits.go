package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"descartes/agent/quota"
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
			return show(cmd.OutOrStdout(), asJSON, append([]quota.Record{}, list...), limitTable(list))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the accounts as JSON")
	cmd.AddCommand(&cobra.Command{
		Use:   "clear [account]",
		Short: "Forget what is remembered of an account, or of all",
		Args:  takes(0, 1, "at most one account"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return forget(cmd.OutOrStdout(), strings.Join(args, ""))
		},
	})
	return cmd
}

// forget forgets what is remembered of an account's quota, or of all.
func forget(w io.Writer, account string) error {
	cleared, err := accounts(nil, "", os.Getenv).Clear(account)
	if err != nil {
		return err
	}
	if account != "" && len(cleared) == 0 {
		return badInput("descartes doctor lists them", "nothing is remembered of an account %q", account)
	}
	return write(w, fmt.Sprintf("forgotten: %s\n", cmp.Or(terminal.Clean(strings.Join(cleared, ", ")), "nothing was remembered")))
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
	s.WriteString("\ndescartes limits clear forgets them: the next loop asks the provider\n")
	return s.String()
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
