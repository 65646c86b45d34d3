package main

import (
	"bytes"

	"github.com/spf13/cobra"

	"descartes/loop/store"
	"descartes/view/print"
	"descartes/view/web"
)

func newReportCmd() *cobra.Command {
	var a app
	var format string
	cmd := &cobra.Command{
		Use:   "report [run]",
		Short: "Print the result of a run, as a page or for a program",
		Long: `Print the result of a run: as Markdown, as one HTML file with the board and who
worked when, as JUnit, or as JSON. The default is the run under way, or the last one.`,
		Args: takes(0, 1, "at most one run"),
		RunE: a.does(func(args []string) error {
			s, err := a.loop(oneArg(args, ""))
			if err != nil {
				return err
			}
			text, err := reportOn(a.root, s, format)
			if err != nil {
				return err
			}
			return a.print(text)
		}),
	}
	a.flags(cmd, "")
	cmd.Flags().StringVar(&format, "format", "markdown", "junit, markdown, html or json")
	return cmd
}

// reportOn formats a loop, without secrets.
func reportOn(root string, s *store.Saved, format string) (string, error) {
	l, err := accountOf(root, *s)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	l.Away = inJob()
	switch format {
	case "json":
		err = writeJSON(&b, l)
	case "html":
		err = web.Report(&b, l)
	case "junit":
		b.Write(print.JUnit(l))
	case "markdown":
		b.Write(print.Markdown(l))
	default:
		err = badInput("", "--format %q is not one of junit, markdown, html, json", format)
	}
	if err != nil {
		return "", err
	}
	_, m := shown(root, s.State)
	return m.Text(b.String()), nil
}
