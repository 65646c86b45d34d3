package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"descartes/agent/quota"
	"descartes/internal/terminal"
	"descartes/launch"
)

func newLimitsCmd() *cobra.Command {
	var a app
	cmd := &cobra.Command{
		Use:   "limits",
		Short: "List the accounts whose quota is remembered as used up: by which loop, and until when",
		Long: `List the accounts whose quota is remembered as used up: by which loop, and until when. Every loop of yours on this
machine waits for them without asking, or ends with 75. limits clear [ACCOUNT] forgets them.`,
		Args: takes(0, 0, ""),
		RunE: a.does(func([]string) error {
			list, err := launch.Accounts(nil, "").List(time.Now())
			if err != nil {
				return err
			}
			text := "no account is remembered as used up\n"
			if len(list) > 0 {
				rows := [][]string{{"ACCOUNT", "USED UP UNTIL", "MET BY", "REASON"}}
				for _, l := range list {
					rows = append(rows, []string{l.Account, terminal.Moment(l.Until), l.By(), l.Reason})
				}
				text = table(rows) + "\ndescartes doctor --clear forgets them: the next loop asks the provider\n"
			}
			return a.show(append([]quota.Record{}, list...), text)
		}),
	}
	a.flags(cmd, "print the accounts as JSON")
	var of app
	cmd.AddCommand(&cobra.Command{
		Use:   "clear [account]",
		Short: "Forget what is remembered of an account, or of all",
		Args:  takes(0, 1, "at most one account"),
		RunE:  of.does(func(args []string) error { return forget(of.out(), oneArg(args, "")) }),
	})
	return cmd
}

// forget forgets what is remembered of an account's quota, or of all.
func forget(w io.Writer, account string) error {
	cleared, err := launch.Accounts(nil, "").Clear(account)
	if err != nil {
		return err
	}
	if account != "" && len(cleared) == 0 {
		return badInput("descartes doctor lists them", "nothing is remembered of an account %q", account)
	}
	return write(w, fmt.Sprintf("forgotten: %s\n", cmp.Or(terminal.Clean(strings.Join(cleared, ", ")), "nothing was remembered")))
}

// limits are the accounts that no loop asks before a time.
func (d *doctor) limits() {
	list, err := launch.Accounts(nil, "").List(time.Now())
	if err != nil {
		d.lacking("quota", err.Error(), "")
	}
	for _, l := range list {
		d.lacking("quota", fmt.Sprintf("%s is used up until %s: %s; remembered from %s", l.Account, terminal.Moment(l.Until), l.Reason, l.By()), "descartes doctor --clear forgets it")
	}
}
