// Package complete owns what a shell offers while a command is typed: for each argument and each flag, words of the project, names of files,
// or nothing.
package complete

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"descartes/agent"
	"descartes/internal/config"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/journal"
	"descartes/loop/store"
	"descartes/tasks"
	"descartes/view"
)

// Project finds what the flags typed so far mean. It prints nothing.
type Project struct {
	Root func(*pflag.FlagSet) (string, error)
	List func(*pflag.FlagSet) (root string, c loop.ScudConfig, err error)
}

// offer is what may come next after those arguments. Whatever cannot be read offers nothing: a person who types wants no error.
type offer func(f *pflag.FlagSet, args []string) []string

const (
	noFiles = cobra.ShellCompDirectiveNoFileComp
	files   = cobra.ShellCompDirectiveDefault
	folders = cobra.ShellCompDirectiveFilterDirs
	// asTheyStand keeps the shell from sorting: task 2 stands before task 10, and the last loop first.
	asTheyStand = noFiles | cobra.ShellCompDirectiveKeepOrder
)

// Attach says what is offered for the arguments and flags below root that the tables here name. For others nothing is.
func (p Project) Attach(root *cobra.Command) {
	root.CompletionOptions.SetDefaultShellCompDirective(noFiles)
	args, flags := p.arguments(), p.flags()
	flags["id"], flags["ID"] = args["status"], args["status"]
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		a, known := args[strings.TrimPrefix(c.CommandPath(), root.Name()+" ")]
		if !known {
			a, known = args[c.Name()]
		}
		if known && c.ValidArgsFunction == nil && !c.HasSubCommands() {
			c.ValidArgsFunction = a.argument
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			_, decided := c.GetFlagCompletionFunc(f.Name)
			a, known := flags["--"+f.Name]
			if placeholder, _ := pflag.UnquoteUsage(f); !known {
				a, known = flags[placeholder]
			}
			if !known || decided {
				return
			}
			if err := c.RegisterFlagCompletionFunc(f.Name, a.flag); err != nil {
				panic(err) // the flag is this command's
			}
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

// answer is what is offered in the places of a command, one after the other, or for a flag.
type answer struct {
	offers []offer
	then   cobra.ShellCompDirective // in these places; nothing comes after the last
}

var (
	aFile   = answer{then: files}
	aFolder = answer{then: folders}
)

// words offers those, each with what it means after a tab.
func words(list ...string) answer {
	return answer{then: noFiles, offers: []offer{func(*pflag.FlagSet, []string) []string { return list }}}
}

// argument is cobra's function for the arguments of a command.
func (a answer) argument(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	switch {
	case len(args) < len(a.offers):
		return beginning(a.offers[len(args)](c.Flags(), args), begun), a.then
	case len(args) == 0:
		return nil, a.then
	}
	return nil, noFiles
}

// flag is cobra's function for a flag.
func (a answer) flag(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(a.offers) == 0 {
		return nil, a.then
	}
	return beginning(a.offers[0](c.Flags(), args), begun), a.then
}

// beginning are those that begin so: a shell need not be sent ten thousand.
func beginning(list []string, begun string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(one string) bool { return !strings.HasPrefix(one, begun) })
}

// Value is what a flag was given so far, or its default; "" for one that there is not.
func Value(f *pflag.FlagSet, name string) string {
	if fl := f.Lookup(name); fl != nil {
		return fl.Value.String()
	}
	return ""
}

// arguments are those of the commands, by name.
func (p Project) arguments() map[string]answer {
	loops := func(which func(store.Home, store.Saved) bool) answer {
		return answer{then: asTheyStand, offers: []offer{p.loops(which)}}
	}
	task := answer{then: asTheyStand, offers: []offer{p.tasks}}
	any := loops(func(store.Home, store.Saved) bool { return true })
	live := loops(func(h store.Home, s store.Saved) bool { return h.IsLive(s) })
	m := map[string]answer{
		"run":    {then: files, offers: []offer{p.tags}},
		"step":   {then: files, offers: []offer{p.tags}},
		"import": aFile, "prompt": aFile, "tasks plan": aFile,
		"cancel": loops(func(_ store.Home, s store.Saved) bool { return !s.State.Completed }),
		"pause":  live, "watch": any, "status": any, "report": any,
		"resume": loops(func(h store.Home, s store.Saved) bool { return !h.IsLive(s) }),
		"logs":   {then: asTheyStand, offers: []offer{p.parts}},
		"set":    {then: asTheyStand, offers: []offer{p.tasks, statuses}},
	}
	for _, name := range []string{"answer", "spec", "why"} {
		m[name] = task
	}
	return m
}

// flags are those whose values are words, by name, with their command's where it is another's too.
func (p Project) flags() map[string]answer {
	one := func(o offer) answer { return answer{then: noFiles, offers: []offer{o}} }
	m := map[string]answer{
		"--tag":             one(p.tags),
		"--expand":          {then: asTheyStand, offers: []offer{p.tasks}},
		"--task":            {then: asTheyStand, offers: []offer{p.tasks}},
		"--backend":         one(p.backends),
		"--fallback":        one(p.backends),
		"--review":          one(func(f *pflag.FlagSet, args []string) []string { return append(p.backends(f, args), "off") }),
		"--gate":            words("promise", "status", "criteria"),
		"--format":          words("markdown", "html", "junit", "json"),
		"--notify":          words("desktop", "bell", "ntfy:", "slack:", "discord:", "telegram:"),
		"--ok-exit":         words("3\tblocked tasks", "4\tthe agent cannot be run", "6\ta limit with work left", "7\tit waits for a person", "75\tquota used up"),
		"--verify":          words("none\tthe agent's word is enough"),
		"--deadline":        words("8h"),
		"--older-than":      words("7d", "30d"),
		"--breaker":         words("off"),
		"--fleet":           words("127.0.0.1:7233\ta server that descartes-fleet dev started"),
		"--set":             set(),
		"file":              aFile, // the word that stands for the value in help
		"directory":         aFolder,
		"--dir":             aFolder,
		"--allowed-signers": aFile,
	}
	for _, s := range config.All() {
		if s.Flag != "" && s.Words != nil {
			m["--"+s.Flag] = words(s.Words...)
		}
	}
	return m
}

func statuses(*pflag.FlagSet, []string) (out []string) {
	for _, s := range []tasks.Status{tasks.Pending, tasks.InProgress, tasks.Done, tasks.Review, tasks.Blocked, tasks.Deferred, tasks.Cancelled, tasks.Failed} {
		out = append(out, string(s))
	}
	return out
}

func (p Project) tags(f *pflag.FlagSet, _ []string) []string {
	root, err := p.Root(f)
	if err != nil {
		return nil
	}
	return tasks.Known(root)
}

// tasks are those of the list that is meant, with their titles.
func (p Project) tasks(f *pflag.FlagSet, _ []string) (out []string) {
	root, c, err := p.List(f)
	if err != nil {
		return nil
	}
	return titles(root, c)
}

func titles(root string, c loop.ScudConfig) (out []string) {
	list, err := loop.OpenTasks(root, c)
	if err != nil {
		return nil
	}
	for _, t := range list.Tasks() {
		out = append(out, cobra.CompletionWithDesc(terminal.Clean(t.ID), terminal.Fit(terminal.Clean(t.Title), 60)))
	}
	return out
}

// loops are those of the project, the last first, with what each is about and how it stands.
func (p Project) loops(which func(store.Home, store.Saved) bool) offer {
	return func(f *pflag.FlagSet, _ []string) (out []string) {
		root, err := p.Root(f)
		if err != nil {
			return nil
		}
		home := store.NewHome(root)
		all, err := home.List()
		if err != nil {
			return nil
		}
		for _, s := range all {
			if s.State == nil || s.State.ID == "" || s.Archived || !which(home, s) {
				continue
			}
			about, state := s.State.Kind, journal.Ending(s.State.ExitReason.Type).Words()
			if s.State.Kind == store.KindTag {
				about = "tag " + s.State.Tag
			}
			if home.IsLive(s) {
				state = "running"
			}
			out = append(out, cobra.CompletionWithDesc(s.State.ID, terminal.Clean(about+", "+state)))
		}
		return out
	}
}

// parts are the tasks of the loop that --name means, or its iterations.
func (p Project) parts(f *pflag.FlagSet, args []string) (out []string) {
	root, err := p.Root(f)
	if err != nil {
		return nil
	}
	home := store.NewHome(root)
	s, err := home.Last()
	if name := Value(f, "name"); name != "" {
		s, err = home.Find(name)
	}
	switch {
	case err != nil || s == nil:
		return nil
	case s.State.Kind != store.KindTag:
		for n := range s.State.Iteration {
			out = append(out, strconv.Itoa(n+1))
		}
		return out
	}
	return titles(root, view.ListOf(s.State))
}

// backends are ours, and those that the project's settings add.
func (p Project) backends(f *pflag.FlagSet, _ []string) []string {
	out := agent.Names()
	if root, err := p.Root(f); err == nil {
		if file, err := config.ReadFile(filepath.Join(root, loop.SettingsFile), false); err == nil {
			out = append(slices.Collect(maps.Keys(file.Backends)), out...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Settings are the keys of all settings, with what they say.
func Settings() cobra.CompletionFunc { return words(keys("")...).argument }

func keys(end string) (list []string) {
	for _, s := range config.All() {
		if s.YAML {
			list = append(list, cobra.CompletionWithDesc(s.Key+end, terminal.Fit(strings.ReplaceAll(s.Help, "`", ""), 70)))
		}
	}
	return list
}

// set are the keys of --set, and after one its values.
func set() answer {
	out := keys("=")
	for _, s := range config.All() {
		for _, w := range s.Words {
			out = append(out, s.Key+"="+w)
		}
	}
	a := words(out...)
	a.then |= cobra.ShellCompDirectiveNoSpace
	return a
}
