package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"descartes/internal/docs"
)

// TestDocs checks that the pages have the commands, their flags, the exit codes and the packages as they are.
func TestDocs(t *testing.T) {
	t.Parallel()
	docs.Page(t, "docs/commands.md", commandsPage())
	docs.Block(t, "docs/reference.md", "exit codes", exitCodesTable())
	docs.Block(t, "CONTRIBUTING.md", "house", house(t))
}

// commandTree is every command that a person can see, parents first, in the order of the help: the program's own, and
// what cobra adds when it runs.
func commandTree() (list []*cobra.Command) {
	root := newRootCmd()
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd() // which is then known as no command of its own
	var add func(c *cobra.Command)
	add = func(c *cobra.Command) {
		if !c.IsAvailableCommand() {
			return
		}
		c.InitDefaultHelpFlag()
		list = append(list, c)
		for _, below := range offered(c) {
			add(below)
		}
	}
	add(root)
	return list
}

// commandsPage is what --help says, command by command. What a command has in common with an earlier one is a link to
// that.
func commandsPage() string {
	var list, b strings.Builder
	link := func(path string) string { return "[`" + path + "`](#" + strings.ReplaceAll(path, " ", "-") + ")" }
	described := map[string]string{}
	var many *cobra.Command // the first with a long list of flags
	for _, c := range commandTree() {
		path := c.CommandPath()
		fmt.Fprintf(&list, "%s- %s: %s\n", strings.Repeat("  ", strings.Count(path, " ")), link(path), c.Short)
		fmt.Fprintf(&b, "\n## %s\n\n", path)
		var text, flags bytes.Buffer
		c.SetOut(&text)
		if f := c.Flags().Lookup("all"); f != nil && f.Hidden {
			_ = f.Value.Set("true")
		}
		help(c, nil)
		helpFlags(&flags, c)
		anywhere := strings.ReplaceAll(text.String(), path, "")
		if first := described[anywhere]; first != "" {
			fmt.Fprintf(&b, "The same as %s.\n", link(first))
			continue
		}
		described[anywhere] = path
		about, _, _ := strings.Cut(text.String(), "\n"+exitTable)
		if known := strings.Count(flags.String(), " --"); known <= fewFlags || many == nil {
			if known > fewFlags {
				many = c
			}
			fmt.Fprintf(&b, "```\n%s\n```\n", strings.TrimRight(about, "\n"))
			continue
		}
		about, _, _ = strings.Cut(about, flags.String())
		common := []string{}
		flags.Reset()
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			same := many.LocalFlags().Lookup(f.Name)
			switch {
			case f.Hidden || f.Deprecated != "" || f.Name == "help":
			case same != nil && same.Usage == f.Usage && same.DefValue == f.DefValue:
				common = append(common, "`--"+f.Name+"`")
			default:
				helpFlag(&flags, f, false)
			}
		})
		about, _, _ = strings.Cut(about, "\nWhat to run:")
		fmt.Fprintf(&b, "```\n%s\n%s```\n\nIt also takes these flags of %s: %s.\n", about, flags.String(),
			link(many.CommandPath()), strings.Join(common, ", "))
	}
	return "# Commands and flags\n\nWhat `descartes COMMAND --help` prints. A flag can also be given in the environment, as the\n[settings](settings.md) say, " +
		"and every command ends with one of the [exit codes](reference.md#exit-codes).\n\n" + list.String() +
		b.String()
}

// exitCodesTable is exitTable in Markdown.
func exitCodesTable() string {
	rows, begins := []string{}, regexp.MustCompile(`^  (\d+) +(.*)$`)
	for line := range strings.SplitSeq(strings.TrimSuffix(strings.TrimPrefix(exitTable, "Exit codes:\n"), "\n"),
		"\n") {
		if m := begins.FindStringSubmatch(line); m != nil {
			rows = append(rows, "| "+m[1]+" | "+m[2])
		} else {
			rows[len(rows)-1] += " " + strings.TrimSpace(line)
		}
	}
	return "| code | meaning |\n|---|---|\n" + strings.Join(rows, " |\n") + " |\n"
}

// varies is what one session shows otherwise than the next.
var varies = regexp.MustCompile(
	`["']?sh .*/agent\.sh["']*|(?m:^\d\d:\d\d:\d\d)|loop-[0-9a-f]{4}|\b[0-9a-f]{7}\b|\b[0-9][0-9.m]*s\b|\(cached\)`)

// fenced is the text of a page's blocks of one language.
func fenced(page, language string) (text string) {
	for _, part := range strings.Split(page, "\n```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(part, "\n```\n")
		text += block + "\n"
	}
	return text
}

// TestTutorial types what the tutorial says, and sees what the tutorial and README show.
func TestTutorial(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(docs.Root(t), name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	page, _, found := strings.Cut(read("docs/tutorial.md"), "\n## A longer session\n")
	if !found {
		t.Fatal("docs/tutorial.md has no longer session any more")
	}
	sh := exec.CommandContext(t.Context(), "sh", "-e")
	sh.Dir = t.TempDir()
	sh.Env = append(os.Environ(), "HOME="+sh.Dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=You",
		"GIT_AUTHOR_EMAIL=you@example.org",
		"GIT_COMMITTER_NAME=You", "GIT_COMMITTER_EMAIL=you@example.org", "DESCARTES_SANDBOX=off")
	sh.Stdin = strings.NewReader(strings.ReplaceAll(fenced(page, "sh"), "sleep 2\n", ""))
	out, err := sh.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	printed := strings.Split(varies.ReplaceAllString(string(out), "~"), "\n")
	for line := range strings.SplitSeq(varies.ReplaceAllString(fenced(page, "console")+
		fenced(read("README.md"), "console"), "~"), "\n") {
		if line != "..." && !strings.HasPrefix(line, "$ ") && !slices.Contains(printed, line) {
			t.Errorf("a page shows a line that is not printed:\n%s", line)
		}
	}
	if t.Failed() {
		t.Logf("what is printed:\n%s", out)
	}
}
