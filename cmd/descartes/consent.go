package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/config"
	"descartes/internal/redact"
	"descartes/internal/report"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/grant"
)

// byPerson refuses, inside an attempt, what only a person may do.
func byPerson(what string) error {
	if os.Getenv("DESCARTES_LOOP_ID") != "" {
		return badInput("do it in a terminal of your own", "an agent cannot %s: this runs inside an attempt", what)
	}
	return nil
}

func newGrantCmd() *cobra.Command {
	var g grant.Grant
	var expires, revoke string
	var list, asJSON bool
	cmd := &cobra.Command{
		Use:   "grant --gate G2 [--uses 3] [--expires 12h] [--loop ID]",
		Short: "Let loops with the criteria gate pass a gate a number of times without asking",
		Long: `Let loops with the criteria gate pass a gate a number of times, until a given time, without asking.

  descartes grant --gate G2 --uses 3 --expires 12h
  descartes grant --gate G1 --loop nightly            once, within a day, only by that loop
  descartes grant --list                              what is granted, and what it was used for
  descartes grant --revoke g-1a2b3c                   or --revoke all

Each use is recorded before the gate is passed. A grant that is used up, expired or revoked no longer counts: the loop
asks as usual, and without a terminal it waits (exit 7). --no-confirm passes every gate.
`,
		Args: takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := findRoot(".")
			if err != nil {
				return err
			}
			book := loop.NewHome(root).Grants(atomicfile.OS())
			given := cmd.Flags().Changed("gate")
			switch {
			case list && (given || revoke != "") || given && revoke != "":
				return badInput("descartes grant --help", "--gate, --list and --revoke are different commands")
			case revoke != "":
				return revokeGrants(cmd, root, book, revoke)
			case list || !given && cmd.Flags().NFlag() == 0 || asJSON && !given:
				return listGrants(cmd, book, asJSON)
			case !given:
				return badInput("descartes grant --gate G2 --uses 3 --expires 12h", "which gate? --gate names one of %s", grant.Gates)
			}
			return giveGrant(cmd, root, book, g, expires)
		},
	}
	f := cmd.Flags()
	f.StringVar(&g.Gate, "gate", "", "the `gate` that may be passed: "+grant.Gates)
	f.IntVar(&g.Uses, "uses", 1, "how often")
	f.StringVar(&expires, "expires", "24h", "until `when`: a duration like 12h or 7d, HH:MM, or RFC 3339")
	f.StringVar(&g.Loop, "loop", "", "only by the loop of this `ID`")
	f.BoolVar(&list, "list", false, "list the grants and their uses")
	f.StringVar(&revoke, "revoke", "", "end the grant of this `name`, or all")
	f.BoolVar(&asJSON, "json", false, "list the grants as JSON")
	return cmd
}

// giveGrant gives a grant, unless an agent without a sandbox could give it too.
func giveGrant(cmd *cobra.Command, root string, book grant.Book, g grant.Grant, expires string) error {
	if err := byPerson("grant"); err != nil {
		return err
	}
	g.Gate, g.At = strings.ToUpper(g.Gate), time.Now().UTC().Truncate(time.Second)
	until, err := expiry(expires, time.Now())
	if err != nil {
		return err
	}
	g.Expires = until
	if err := g.Valid(); err != nil {
		return badInput("descartes grant --help", "%w", err)
	}
	home := loop.NewHome(root)
	if g.Loop != "" {
		if err := loop.ValidID(g.Loop); err != nil {
			return badInput("", "%w", err)
		}
	}
	all, err := home.List()
	if err != nil {
		return err
	}
	for _, s := range all {
		if s.State != nil && home.IsLive(s) && !s.State.Config.Confined() {
			return badInput("grant it before the start, or when the loop waits for you (exit 7); with a sandbox, at any time",
				"loop %s runs without a sandbox: its agent could grant as well as you, so a grant given now would be undone", s.State.ID)
		}
	}
	if err := home.Make(atomicfile.OS()); err != nil {
		return err
	}
	if g, err = book.Add(cmd.Context(), g); err != nil {
		return err
	}
	who := "any loop of this project"
	if g.Loop != "" {
		who = "loop " + g.Loop
		if !slices.ContainsFunc(all, func(s loop.Saved) bool { return s.State != nil && s.State.ID == g.Loop }) {
			who += " (no loop has that name yet)"
		}
	}
	return write(cmd.OutOrStdout(), fmt.Sprintf("granted %s: %s may be passed %s by %s, until %s\n", g.ID, g.Gate, times(g.Uses), who, terminal.Moment(g.Expires)))
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// expiry is when a grant expires.
func expiry(text string, now time.Time) (time.Time, error) {
	if strings.HasSuffix(text, "d") {
		if d, err := days(text); err == nil && d > 0 {
			return now.Add(d).UTC().Truncate(time.Second), nil
		}
	}
	t, err := config.ParseDeadline(text, now)
	if err != nil || t == nil {
		return time.Time{}, badInput("for example --expires 12h, --expires 7d, --expires 06:00", "--expires %q is not a time", text)
	}
	return t.UTC().Truncate(time.Second), nil
}

func revokeGrants(cmd *cobra.Command, root string, book grant.Book, id string) error {
	if _, err := os.Stat(book.Path); errors.Is(err, os.ErrNotExist) {
		return badInput("", "nothing is granted in %s", root)
	}
	ended, err := book.Revoke(cmd.Context(), id, time.Now().UTC().Truncate(time.Second))
	if errors.Is(err, grant.ErrUnknown) {
		return badInput("descartes grant --list", "%w", err)
	}
	if err != nil {
		return err
	}
	if len(ended) == 0 {
		return write(cmd.OutOrStdout(), "nothing to revoke: it had already ended\n")
	}
	for _, g := range ended {
		if err := write(cmd.OutOrStdout(), fmt.Sprintf("revoked %s: %s, used %d of %d\n", g.ID, g.Gate, len(g.Used), g.Uses)); err != nil {
			return err
		}
	}
	return nil
}

// grantJSON is a grant with how it stands.
type grantJSON struct {
	grant.Grant
	State string `json:"state"`
}

func listGrants(cmd *cobra.Command, book grant.Book, asJSON bool) error {
	list, err := book.Read()
	if err != nil {
		return err
	}
	now := time.Now()
	if asJSON {
		out := []grantJSON{}
		for _, g := range list {
			out = append(out, grantJSON{g, g.State(now)})
		}
		return writeJSON(cmd.OutOrStdout(), out)
	}
	if len(list) == 0 {
		return write(cmd.OutOrStdout(), "nothing is granted; descartes grant --gate G2 --uses 3 --expires 12h\n")
	}
	var s strings.Builder
	w := tabwriter.NewWriter(&s, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tGATE\tUSED\tSTATE\tUNTIL\tLOOP")
	for _, g := range list {
		who := g.Loop
		if who == "" {
			who = "any"
		}
		fmt.Fprintf(w, "%s\t%s\t%d of %d\t%s\t%s\t%s\n", g.ID, g.Gate, len(g.Used), g.Uses, g.State(now), terminal.Moment(g.Expires), terminal.Clean(who))
		for _, u := range g.Used {
			fmt.Fprintf(w, "\t\t\t  by %s, %s, %s\n", terminal.Clean(u.Loop), terminal.Clean(u.For), terminal.Moment(u.At))
		}
	}
	w.Flush() // into memory
	return write(cmd.OutOrStdout(), s.String())
}

func newTrustCmd() *cobra.Command {
	var file string
	var show, digest, forget bool
	cmd := &cobra.Command{
		Use:   "trust",
		Short: "Trust what descartes.yaml runs, reaches and reads",
		Long: `Trust what descartes.yaml runs, reaches and reads beyond what a run does without it.

A repository brings its descartes.yaml: another agent program, variables, a wider sandbox, whom notify calls, a fleet, and
with sandbox: off every command. A start at a terminal asks once; without one it refuses (exit 2) until you have run this
command. Trust is saved as a digest in your own state directory: when the file asks for more, you are asked again. Flags
that you type need no trust. docs/sandbox-and-secrets.md lists the settings.

  descartes trust --show       what it asks for, and whether that is trusted
  descartes trust              trust it
  descartes trust --digest     for CI: DESCARTES_TRUST=<digest>, or loop start --trust <digest>
  descartes trust --forget     trust nothing of this project any more
`,
		Args: takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := findRoot(".")
			if err != nil {
				return err
			}
			path, must := filepath.Join(root, loop.SettingsFile), file != ""
			if must {
				if path, err = filepath.Abs(file); err != nil {
					return err
				}
			}
			f, err := config.ReadFile(path, must)
			if err != nil {
				return err
			}
			return trust(cmd, root, report.Relative(root, path), f, show, digest, forget)
		},
	}
	f := cmd.Flags()
	f.StringVar(&file, "config", "", "settings `file` (default: descartes.yaml in the project)")
	f.BoolVar(&show, "show", false, "print what it asks for, and trust nothing")
	f.BoolVar(&digest, "digest", false, "print the digest, and trust nothing")
	f.BoolVar(&forget, "forget", false, "trust nothing of this project any more")
	cmd.MarkFlagsMutuallyExclusive("show", "digest", "forget")
	return cmd
}

func trust(cmd *cobra.Command, root, name string, f *config.File, show, digest, forget bool) error {
	out := cmd.OutOrStdout()
	demands := f.Demands(root)
	if digest {
		if len(demands) == 0 {
			return badInput("", "%s has nothing that needs trust", name)
		}
		return write(out, config.TrustDigest(demands)+"\n")
	}
	t, err := trustOf(root, redact.Of(f.Secrets(os.Environ())))
	if err != nil {
		return err
	}
	if forget {
		had, err := t.Forget()
		switch {
		case err != nil:
			return err
		case !had:
			return write(out, "nothing of this project was trusted\n")
		}
		return write(out, "nothing of this project is trusted any more\n")
	}
	if len(demands) == 0 {
		return write(out, name+" has nothing that needs trust\n")
	}
	wider, err := t.Wider(demands)
	if err != nil {
		return err
	}
	var s strings.Builder
	fmt.Fprintf(&s, "%s asks for this:\n", name)
	for _, d := range demands {
		fmt.Fprintf(&s, "  %s: %s\n", d.Key, terminal.Clean(t.Redact.Text(d.Text)))
	}
	switch {
	case show && len(wider) > 0:
		s.WriteString("not trusted; descartes trust does\n")
	case show || len(wider) == 0:
		s.WriteString("trusted\n")
	default:
		if err := byPerson("trust"); err != nil {
			return err
		}
		if err := t.Add(demands, time.Now().UTC().Truncate(time.Second)); err != nil {
			return err
		}
		s.WriteString("trusted from now on, until it asks for more\n")
	}
	return write(out, s.String())
}

// trustOf returns what the user trusts in a project.
func trustOf(root string, m *redact.Redactor) (*config.Trust, error) {
	dir := stateDir(os.Getenv)
	if dir == "" {
		return nil, badInput("set HOME or XDG_STATE_HOME", "there is no folder to save trust in")
	}
	return &config.Trust{Dir: filepath.Join(dir, "trust"), Root: root, Redact: m}, nil
}

// untrusted returns what the settings file wants that nobody has trusted, or nil. What the user's flags or variables decide needs no trust.
func (s *settings) untrusted(root string) (refused *untrustedError, err error) {
	all := s.file.Demands(root)
	needed := slices.DeleteFunc(slices.Clone(all), func(d config.Demand) bool { return slices.ContainsFunc(d.Flags, s.given) })
	digest := config.TrustDigest(all)
	if given := strings.TrimPrefix(strings.TrimSpace(s.Trust), "sha256:"); len(needed) == 0 || given == digest {
		return nil, nil
	}
	refused = &untrustedError{file: s.fileName, digest: digest, given: s.Trust, all: all}
	if s.SettingsFile != "" {
		refused.config = " --config " + terminal.Quote(s.File)
	}
	if refused.trust, err = trustOf(root, redact.Of(s.Secrets(os.Environ()))); err != nil {
		return nil, err
	}
	wider, err := refused.trust.Wider(needed)
	if err != nil || len(wider) == 0 {
		return nil, err
	}
	for _, w := range wider { // one that spans lines could pass for others
		refused.wider = append(refused.wider, terminal.Clean(w))
	}
	return refused, nil
}

func settingsPath(root string, c loop.Config) string {
	return cmp.Or(c.SettingsFile, filepath.Join(root, loop.SettingsFile))
}

// trusted asks the person at the terminal to trust what the settings file wants; without a terminal it refuses. Every command that acts on
// the settings calls it first; those that only look do not.
func (s *settings) trusted(cmd *cobra.Command, root string) error {
	if err := brought(cmd.Context(), root); err != nil {
		return err
	}
	refused, err := s.untrusted(root)
	if err != nil || refused == nil {
		return err
	}
	if in, out, ok := s.atTerminal(cmd); ok {
		fmt.Fprintf(out, "%s\nTrust it? [y/N] ", terminal.CleanLines(refused.Error()))
		if line, _ := in.ReadString('\n'); strings.EqualFold(strings.TrimSpace(line), "y") {
			return refused.trust.Add(refused.all, time.Now().UTC().Truncate(time.Second))
		}
		return badInput("correct it, or give what you want by flags", "%s is not trusted, and nothing was started", refused.file)
	}
	return badInput(refused.hint(), "%w", refused)
}

// brought refuses a .descartes that came with the repository: the states and grants in it would decide what runs, and with which rights. The
// receipts decide nothing.
func brought(ctx context.Context, root string) error {
	held, err := gitops.Held(ctx, root, os.Environ(), ".descartes")
	if err != nil {
		return err
	}
	for _, file := range held {
		if file != ".descartes/.gitignore" && !strings.HasPrefix(file, ".descartes/receipts/") {
			return badInput("git rm -r .descartes, where you did not make it; git rm -r --cached .descartes, where you did",
				"git has %s, so it came with the repository; what it says of runs and grants would need no trust", terminal.Quote(file))
		}
	}
	return nil
}

// untrustedError lists what a settings file wants and nobody has trusted.
type untrustedError struct {
	file   string
	config string // the flag that names it, "" where it is the project's own
	digest string // of all that it wants
	given  string // a digest, of something else
	wider  []string
	all    []config.Demand
	trust  *config.Trust
}

func (e *untrustedError) hint() string {
	return "look at it, then: descartes trust" + e.config + "; in CI: DESCARTES_TRUST=" + e.digest
}

func (e *untrustedError) Error() string {
	text := e.file + " asks for this, and you have not trusted it:\n  " + strings.Join(e.wider, "\n  ")
	if e.given != "" {
		text += "\n(--trust, or DESCARTES_TRUST, is the digest of something else)"
	}
	return text
}
