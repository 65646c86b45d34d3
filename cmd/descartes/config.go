package main

import (
	"cmp"
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"descartes/cmd/descartes/complete"
	"descartes/config"
	"descartes/internal/redact"
	"descartes/internal/terminal"
)

func newConfigCmd() *cobra.Command {
	cmd := newGroup("config", "Show the settings")
	cmd.AddCommand(newConfigShowCmd())
	return cmd
}

func newConfigShowCmd() *cobra.Command {
	var a app
	cmd := &cobra.Command{
		Use:   "show [key]",
		Short: "Print each setting and where its value comes from",
		Long: `Print each setting and where its value comes from: a flag, DESCARTES_<FLAG> in the environment, descartes.yaml,
or the default; the first of these that has it counts. It takes the flags of start. A key, or the beginning of
one like "git.", prints only what it names.`,
		Args:              takes(0, 1, "at most one key"),
		ValidArgsFunction: complete.Settings(),
		RunE: a.does(func(args []string) error {
			list, err := a.settings.show()
			if err != nil {
				return err
			}
			if list = named(list, oneArg(args, "")); len(list) == 0 {
				return badInput("descartes config show lists them", "there is no setting %q", args[0])
			}
			rows := [][]string{{"SETTING", "VALUE", "SOURCE"}}
			for _, one := range list {
				rows = append(rows, []string{one.Key, terminal.Fit(terminal.Clean(one.Text()), 60),
					cmp.Or(one.From, one.Source)})
			}
			w := redact.Of(a.Secrets(os.Environ())).Writer(a.out())
			return errors.Join(show(w, a.json, list, table(rows)), w.Flush())
		}),
	}
	a.settings.register(cmd, ofStart)
	cmd.Flags().BoolVar(&a.json, "json", false, "print the settings as JSON")
	return cmd
}

// show lists all settings as a run would have them.
func (s *settings) show() ([]config.Value, error) {
	if _, err := s.load(); err != nil {
		return nil, err
	}
	s.Fill()
	if _, backend, err := config.ResolveBackend(s.Config); err == nil {
		s.Backend = backend
	}
	return s.Show(), nil
}

// named are the settings of that key, or that begin so; all for "".
func named(list []config.Value, key string) (out []config.Value) {
	for _, one := range list {
		if key == "" || one.Key == key || strings.HasPrefix(one.Key, strings.TrimSuffix(key, ".")+".") {
			out = append(out, one)
		}
	}
	return out
}
