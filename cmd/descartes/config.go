package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"descartes/internal/complete"
	"descartes/internal/config"
	"descartes/internal/redact"
	"descartes/internal/terminal"
)

func newConfigCmd() *cobra.Command {
	cmd := newGroup("config", "Show the settings")
	cmd.AddCommand(newConfigShowCmd())
	return cmd
}

func newConfigShowCmd() *cobra.Command {
	s := &settings{}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show [key]",
		Short: "Print each setting and where its value comes from",
		Long: `Print each setting and where its value comes from: a flag, DESCARTES_<FLAG> in the environment, descartes.yaml,
or the default; the first of these that has it counts. It takes the flags of loop start. A key, or the beginning of
one like "git.", prints only what it names.`,
		Args:              takes(0, 1, "at most one key"),
		ValidArgsFunction: complete.Settings(),
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := s.show()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				if list = named(list, args[0]); len(list) == 0 {
					return badInput("descartes config show lists them", "there is no setting %q", args[0])
				}
			}
			w := redact.Of(s.Secrets(os.Environ())).Writer(cmd.OutOrStdout())
			if asJSON {
				err = writeJSON(w, list)
			} else {
				err = write(w, settingTable(list))
			}
			return errors.Join(err, w.Flush())
		},
	}
	s.register(cmd, ofStart)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the settings as JSON")
	return cmd
}

// show lists all settings as a run would have them.
func (s *settings) show() ([]config.Value, error) {
	root, err := s.load()
	if err != nil {
		return nil, err
	}
	s.workIn(root)
	s.Git.AutoCommit = s.Git.AutoCommit && !s.NoCommit
	s.Scud.AutoCommitWaves = s.Scud.AutoCommitWaves && !s.NoCommit
	s.Fill()
	if _, backend, err := config.ResolveBackend(s.Config); err == nil {
		s.Backend = backend
	}
	return s.Show(), nil
}

// named are the settings of that key, or that begin so.
func named(list []config.Value, key string) (out []config.Value) {
	for _, one := range list {
		if one.Key == key || strings.HasPrefix(one.Key, strings.TrimSuffix(key, ".")+".") {
			out = append(out, one)
		}
	}
	return out
}

func settingTable(list []config.Value) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "SETTING\tVALUE\tSOURCE")
	for _, one := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\n", one.Key, terminal.Fit(terminal.Clean(one.Text()), 60), terminal.Clean(cmp.Or(one.From, one.Source)))
	}
	w.Flush() // into memory
	return b.String()
}
