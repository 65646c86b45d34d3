package main

import (
	"bytes"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"descartes/internal/redact"
	"descartes/internal/report"
	"descartes/internal/web"
	"descartes/loop"
)

func newReportCmd() *cobra.Command {
	var dir, format string
	cmd := &cobra.Command{
		Use:   "report [loop]",
		Short: "Print what a loop came to, as a page or for a program",
		Long: `Print what a loop came to: as Markdown, as one HTML file with the board and who
worked when, as JUnit, or as JSON. Of the loop that is running, or the last one.`,
		Args: takes(0, 1, "at most one loop"),
		RunE: func(cmd *cobra.Command, args []string) error {
			root, err := findRoot(dir)
			if err != nil {
				return err
			}
			s, err := lookUp(root, dir, strings.Join(args, ""), "")
			if err != nil {
				return err
			}
			text, err := reportOn(root, s, format)
			if err != nil {
				return err
			}
			return write(cmd.OutOrStdout(), text)
		},
	}
	registerDir(cmd, &dir)
	cmd.Flags().StringVar(&format, "format", "markdown", "junit, markdown, html or json")
	return cmd
}

// inJob reports whether we run in a job of a service that says so, as GitHub, GitLab and others do: whoever reads what we write is elsewhere.
func inJob() bool { return os.Getenv("CI") == "true" }

// reportOn is a loop in one of the formats, without secrets.
func reportOn(root string, s *loop.Saved, format string) (string, error) {
	st, err := report.NewStatus(root, *s)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	lost := st.Board == nil && s.State.Kind == loop.KindTag
	sum := st.Summary(fromHere(root))
	sum.Away = inJob()
	switch format {
	case "json":
		err = writeJSON(&b, st.Report(true))
	case "html":
		next := ""
		if !st.View.Live && !lost {
			next = sum.Next()
		}
		err = web.Report(&b, st, next)
	case "junit", "markdown":
		switch {
		case lost:
			err = badInput("--format html or json", "the task list of loop %s cannot be read any more", s.State.ID)
		case format == "junit":
			b.Write(report.JUnit(sum, st.View.History))
		default:
			b.Write(report.Markdown(sum, st.View.History))
		}
	default:
		err = badInput("", "--format %q is not one of junit, markdown, html, json", format)
	}
	if err != nil {
		return "", err
	}
	cfg, err := unhidden(root, s.State)
	if err != nil {
		cfg = s.State.Config // what it hides is not known here either
	}
	return redact.Of(cfg.Secrets(os.Environ())).Text(b.String()), nil
}
