package complete

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"descartes/config"
)

// offered is what a shell gets for a line whose last word is begun, of commands like ours in a project with two lists.
func offered(t *testing.T, p Project, line ...string) string {
	t.Helper()
	root := &cobra.Command{Use: "descartes"}
	for _, name := range []string{"why", "pause", "start", "waves", "resume"} {
		c := &cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}}
		c.Flags().String("tag", "", "")
		c.Flags().String("gate", "", "")
		c.Flags().String("plan", "", "a `file`")
		c.Flags().String("working-dir", "", "a `directory`")
		c.Flags().StringArray("set", nil, "")
		c.Flags().String("unheard-of", "", "")
		root.AddCommand(c)
	}
	tasks := &cobra.Command{Use: "tasks"}
	tasks.AddCommand(&cobra.Command{Use: "set", Run: func(*cobra.Command, []string) {}})
	root.AddCommand(tasks)
	p.Attach(root)
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&bytes.Buffer{})
	root.SetArgs(append([]string{cobra.ShellCompRequestCmd}, line...))
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out.String())
}

func project(t *testing.T) Project {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, ".scud", "tasks")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for tag, text := range map[string]string{
		"alpha": `{"tag":"alpha","tasks":[{"id":2,"title":"Two"},{"id":10,"title":"Ten"},{"id":1,"title":"\u001b[31mOne"}]}`,
		"beta":  `{"tag":"beta","tasks":[{"id":"b1","title":"Other"}]}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, tag+".json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Project{Root: func(*pflag.FlagSet) (string, error) { return root, nil },
		List: func(f *pflag.FlagSet) (string, config.ScudConfig, error) {
			tag := Value(f, "tag")
			if tag == "" {
				tag = "alpha"
			}
			return root, config.ScudConfig{Tag: tag}, nil
		}}
}

func TestOffers(t *testing.T) {
	t.Parallel()
	p := project(t)
	for _, one := range []struct{ line, want string }{
		{"why |", "2\tTwo\n10\tTen\n1\t\ufffd[31mOne\n:36"}, // in the list's order, and harmless to a terminal
		{"why |1", "10\tTen\n1\t\ufffd[31mOne\n:36"},
		{"why 1 |", ":4"}, // it takes one
		{"why --tag beta |", "b1\tOther\n:36"},
		{"why --tag |b", "beta\n:36"},
		{"tasks set 1 |d", "done\ndeferred\n:36"},
		{"start --gate |c", "criteria\n:4"},
		{"start --plan |", ":0"},
		{"start --working-dir |", ":16"},
		{"start --unheard-of |", ":4"},
		{"start --set |baseline=k", "baseline=known\n:6"},
		{"waves |", ":4"},
		{"pause |", ":36"}, // no run
	} {
		var words []string
		for w := range strings.SplitSeq(strings.ReplaceAll(one.line, "|", " | "), " ") {
			if w != "" && w != "|" {
				words = append(words, w)
			}
		}
		if strings.HasSuffix(one.line, "|") {
			words = append(words, "")
		}
		if got := offered(t, p, words...); got != one.want {
			t.Errorf("%s: got %q, want %q", one.line, got, one.want)
		}
	}
}

// TestOffersNothing: what cannot be read offers nothing, and no error.
func TestOffersNothing(t *testing.T) {
	t.Parallel()
	no := errors.New("unreadable")
	p := Project{Root: func(*pflag.FlagSet) (string, error) { return "", no },
		List: func(*pflag.FlagSet) (string, config.ScudConfig, error) { return "", config.ScudConfig{}, no }}
	for _, line := range [][]string{{"why", ""}, {"why", "--tag", ""}, {"pause", ""}, {"resume", ""}} {
		if got := offered(t, p, line...); got != ":36" {
			t.Errorf("%q: %q", line, got)
		}
	}
}
