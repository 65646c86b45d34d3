package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"descartes/config"
	"descartes/gitops"
	"descartes/internal/redact"
	"descartes/internal/terminal"
	"descartes/launch"
	"descartes/loop/mode"
	"descartes/loop/source"
	"descartes/loop/store"
)

// byPerson refuses, inside an attempt, what only a person may do.
func byPerson(what string) error {
	if os.Getenv("DESCARTES_LOOP_ID") != "" {
		return badInput("do it in a terminal of your own", "an agent cannot %s: this runs inside an attempt", what)
	}
	return nil
}

func newTrustCmd() *cobra.Command {
	var a app
	var show, digest, forget bool
	cmd := &cobra.Command{
		Use:   "trust",
		Short: "Trust what descartes.yaml runs, reaches and reads",
		Long: `Trust what descartes.yaml runs, reaches and reads.

A repository brings its descartes.yaml, which may name another agent program, variables, a wider sandbox, whom notify calls,
a fleet, and with sandbox: off every command, those of the tasks of a list too. A start at a terminal asks once; without one
it refuses (exit 2) until you have run this command. Trust is saved as a digest in your own state directory: when the file
asks for more, you are asked again. Flags that you type need no trust. docs/sandbox-and-secrets.md lists the settings.

  descartes trust --show       what it asks for, and whether that is trusted
  descartes trust              trust it
  descartes trust --digest     for CI: DESCARTES_TRUST=<digest>
  descartes trust --forget     trust nothing of this project any more
`,
		Args: takes(0, 0, ""),
		RunE: a.does(func([]string) error {
			if _, err := a.read(); err != nil {
				return err
			}
			_ = a.fromPlan(a.root) // a start says what is wrong with the plan
			name, demands := a.file.Name, a.demands(a.root)
			t, err := trustOf(a.root, redact.Of(a.Secrets(os.Environ())))
			switch {
			case err != nil:
				return err
			case digest && len(demands) == 0:
				return badInput("", "%s has nothing that needs trust", name)
			case digest:
				return a.print(config.TrustDigest(demands) + "\n")
			case forget:
				if _, err := t.Forget(); err != nil {
					return err
				}
				return a.print("nothing of this project is trusted any more\n")
			case len(demands) == 0:
				return a.print(name + " has nothing that needs trust\n")
			}
			wider, err := t.Wider(demands)
			if err != nil {
				return err
			}
			state := "trusted"
			switch {
			case show && len(wider) > 0:
				state = "not trusted; descartes trust does"
			case len(wider) > 0:
				if err := byPerson("trust"); err != nil {
					return err
				}
				if err := t.Add(demands, time.Now().UTC().Truncate(time.Second)); err != nil {
					return err
				}
				state = "trusted from now on, until it asks for more"
			}
			text := name + " asks for this:\n"
			for _, d := range demands {
				text += fmt.Sprintf("  %s: %s\n", terminal.Clean(d.Key), terminal.Clean(t.Redact.Text(d.Text)))
			}
			return a.print(text + state + "\n")
		}),
	}
	a.settings.register(cmd, func(one *config.Setting) bool {
		return slices.Contains([]string{"config", "tag", "tasks-file", "plan"}, one.Flag)
	})
	f := cmd.Flags()
	f.BoolVar(&show, "show", false, "print what it asks for, and trust nothing")
	f.BoolVar(&digest, "digest", false, "print the digest, and trust nothing")
	f.BoolVar(&forget, "forget", false, "trust nothing of this project any more")
	oneOf(cmd, "show", "digest", "forget")
	return cmd
}

// demands are what needs the user's trust: what the settings file asks for and, without a sandbox, the commands that
// the plan and the tasks bring.
func (s *settings) demands(root string) []config.Ask {
	all := s.file.Demands(root)
	if s.Sandbox != "off" {
		return all
	}
	c := s.Scud
	if s.building {
		c = config.ScudConfig{TasksFile: mode.Open(root).Plan}
	}
	if strings.HasPrefix(s.verifyFrom, "front matter") {
		all = append(all, config.Ask{Key: c.PlanPath + ": verify", Text: c.VerificationCommand,
			Names: []string{"sandbox"}})
	}
	if c.Tag == "" && c.PlanPath != "" {
		c.Tag, _ = tagOfPlan(c.PlanPath)
	}
	if chooseSource(io.Discard, root, &c) != nil { // a run will say why
		return all
	}
	if job, _ := source.LoadOrImport(root, config.Config{Scud: c}); job != nil {
		all = append(all, config.TaskChecks(store.Relative(root, job.File.Path()), job.Tasks())...)
	}
	return all
}

// trustOf returns what the user trusts in a project.
func trustOf(root string, m *redact.Redactor) (*config.Trust, error) {
	dir := launch.StateDir()
	if dir == "" {
		return nil, badInput("set HOME or XDG_STATE_HOME", "there is no folder to save trust in")
	}
	return &config.Trust{Dir: filepath.Join(dir, "trust"), Root: root, Redact: m}, nil
}

// trustWritten trusts a settings file that init has just written, of what a person typed.
func trustWritten(root string) error {
	s := settings{Settings: config.New()}
	s.Dir = root
	_, err := s.read()
	if err != nil {
		return err
	}
	t, err := trustOf(root, redact.Of(s.Secrets(os.Environ())))
	if err != nil {
		return err
	}
	return t.Add(s.file.Demands(root), time.Now().UTC().Truncate(time.Second))
}

// untrusted returns what the settings file wants that nobody has trusted, or nil. What the user's flags or variables
// decide needs no trust.
func (s *settings) untrusted(root string, more ...config.Ask) (refused *untrustedError, err error) {
	all := s.demands(root)
	for _, one := range more {
		known := slices.ContainsFunc(all, func(a config.Ask) bool { return a.Key == one.Key && a.Text == one.Text })
		if s.Sandbox != "off" || known {
			continue
		}
		all = append(all, one)
	}
	needed := slices.DeleteFunc(slices.Clone(all), func(a config.Ask) bool {
		return slices.ContainsFunc(a.Names, s.Given)
	})
	digest := config.TrustDigest(all)
	if given := strings.TrimPrefix(strings.TrimSpace(s.Trust), "sha256:"); len(needed) == 0 || given == digest {
		return nil, nil
	}
	refused = &untrustedError{file: s.file.Name, digest: digest, given: s.Trust, all: all}
	if s.SettingsFile != "" {
		refused.flags = " --config " + terminal.Quote(s.File)
	}
	file := s.Scud.TasksFile
	if s.building {
		file = mode.Open(root).Plan
	}
	for _, f := range [][2]string{{"--tag ", s.Scud.Tag}, {"--tasks-file ", file}, {"--plan ", s.Scud.PlanPath}} {
		if f[1] != "" && len(all) > len(s.file.Demands(root)) {
			refused.flags += " " + f[0] + terminal.Quote(terminal.Clean(f[1]))
		}
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

func settingsPath(root string, c config.Config) string {
	return cmp.Or(c.SettingsFile, filepath.Join(root, config.SettingsFile))
}

// trusted asks the person at the terminal to trust what the settings file wants; without a terminal it refuses. Every
// command that acts on the settings calls it first; those that only look do not. Without a sandbox more are what a
// list brings besides.
func (s *settings) trusted(cmd *cobra.Command, root string, more ...config.Ask) error {
	if err := brought(cmd.Context(), root); err != nil {
		return err
	}
	refused, err := s.untrusted(root, more...)
	if err != nil || refused == nil {
		return err
	}
	yes, answered := s.asks(cmd).yes(cmd.Context(), refused.Error()+"\nTrust it?", false)
	switch {
	case yes:
		return refused.trust.Add(refused.all, time.Now().UTC().Truncate(time.Second))
	case answered:
		return badInput("correct it, or give what you want by flags", "%s is not trusted, and nothing was started",
			refused.file)
	}
	return badInput(refused.hint(), "%w", refused)
}

// brought refuses a .descartes that came with the repository: the states in it would decide what runs, and with which
// rights. The receipts decide nothing.
func brought(ctx context.Context, root string) error {
	held, err := gitops.Held(ctx, root, os.Environ(), ".descartes")
	if err != nil {
		return err
	}
	for _, file := range held {
		if file != ".descartes/.gitignore" && !strings.HasPrefix(file, ".descartes/receipts/") {
			return badInput("git rm -r .descartes, where you did not make it; git rm -r --cached .descartes, where you did",
				"git has %s, so it came with the repository; what it says of runs would need no trust",
				terminal.Quote(file))
		}
	}
	return nil
}

// untrustedError lists what a settings file wants and nobody has trusted.
type untrustedError struct {
	file   string
	flags  string // those that name it and the list
	digest string // of all that it wants
	given  string // a digest, of something else
	wider  []string
	all    []config.Ask
	trust  *config.Trust
}

func (e *untrustedError) hint() string {
	return "look at it, then: descartes trust" + e.flags + "; in CI: DESCARTES_TRUST=" + e.digest
}

func (e *untrustedError) Error() string {
	text := e.file + " asks for this, and you have not trusted it:\n  " + strings.Join(e.wider, "\n  ")
	if e.given != "" {
		text += "\n(--trust, or DESCARTES_TRUST, is the digest of something else)"
	}
	return text
}
