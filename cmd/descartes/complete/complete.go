// Package complete owns what a shell offers while a command is typed: for each argument and each flag, words of the
// project, names of files, or nothing.
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
	"descartes/config"
	"descartes/internal/terminal"
	"descartes/loop/journal"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/tasks"
	"descartes/view"
)

// Project finds what the flags typed so far mean. It prints nothing.
type Project struct {
	Root func(*pflag.FlagSet) (string, error)
	List func(*pflag.FlagSet) (root string, c config.ScudConfig, err error)
}

// offer is what may come next after those arguments. Whatever cannot be read offers nothing: a person who types wants
// no error.
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

// one offers that, as it stands.
func one(o offer) answer { return answer{then: asTheyStand, offers: []offer{o}} }

// words offers those, each with what it means after a tab.
func words(list ...string) answer {
	return answer{then: noFiles, offers: []offer{func(*pflag.FlagSet, []string) []string { return list }}}
}

// argument is cobra's function for the arguments of a command.
func (a answer) argument(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	switch {
	case len(args) < len(a.offers): // a shell need not be sent ten thousand
		list := slices.Clone(a.offers[len(args)](c.Flags(), args))
		return slices.DeleteFunc(list, func(one string) bool { return !strings.HasPrefix(one, begun) }), a.then
	case len(args) == 0:
		return nil, a.then
	}
	return nil, noFiles
}

// flag is cobra's function for a flag, whatever stands before it.
func (a answer) flag(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	return a.argument(c, nil, begun)
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
	task, any := one(p.tasks), one(p.loops(func(bool) bool { return true }))
	live := one(p.loops(func(live bool) bool { return live }))
	return map[string]answer{
		"run":  {then: files, offers: []offer{p.tags}},
		"step": {then: files, offers: []offer{p.tags}}, "doctor": {then: files, offers: []offer{p.tags}},
		"import": aFile, "prompt": aFile, "tasks plan": aFile,
		"cancel": live, "pause": live, "watch": any, "status": any, "report": any,
		"resume": one(p.loops(func(live bool) bool { return !live })),
		"logs":   one(p.parts), "answer": task, "spec": task, "why": task,
		"set": {then: asTheyStand, offers: []offer{p.tasks, statuses}},
	}
}

// flags are those whose values are words, by name, with their command's where it is another's too.
func (p Project) flags() map[string]answer {
	m := map[string]answer{
		"--tag":             one(p.tags),
		"--expand":          one(p.tasks),
		"--task":            one(p.tasks),
		"--backend":         one(p.backends),
		"--fallback":        one(p.backends),
		"--review":          one(p.backends),
		"--format":          words("markdown", "html", "junit", "json"),
		"--notify":          words("desktop", "bell", "ntfy:", "slack:", "discord:", "telegram:"),
		"--verify":          words("none\tthe agent's word is enough"),
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
	for _, s := range []tasks.Status{tasks.Pending, tasks.InProgress, tasks.Done, tasks.Review, tasks.Blocked,
		tasks.Deferred, tasks.Cancelled, tasks.Failed} {
		out = append(out, string(s))
	}
	return out
}

func (p Project) tags(f *pflag.FlagSet, _ []string) (out []string) {
	if root, err := p.Root(f); err == nil {
		out = tasks.Known(root)
	}
	return out
}

// tasks are those of the list that is meant, with their titles.
func (p Project) tasks(f *pflag.FlagSet, _ []string) (out []string) {
	if root, c, err := p.List(f); err == nil {
		out = titles(root, c)
	}
	return out
}

func titles(root string, c config.ScudConfig) (out []string) {
	if list, err := source.OpenTasks(root, c); err == nil {
		for _, t := range list.Tasks() {
			out = append(out, cobra.CompletionWithDesc(terminal.Clean(t.ID),
				terminal.Fit(terminal.Clean(t.Title), 60)))
		}
	}
	return out
}

// loops are those of the project, the last first, with what each is about and how it stands.
func (p Project) loops(which func(live bool) bool) offer {
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
			if s.State == nil || s.State.ID == "" || s.Archived || !which(home.IsLive(s)) {
				continue
			}
			state := journal.Ending(s.State.ExitReason.Type).Words()
			if home.IsLive(s) {
				state = "running"
			}
			out = append(out, cobra.CompletionWithDesc(s.State.ID,
				terminal.Clean(strings.TrimSpace(s.State.Kind+" "+s.State.Tag)+", "+state)))
		}
		return out
	}
}

// parts are the tasks of the loop that --name means, or its iterations.
func (p Project) parts(f *pflag.FlagSet, args []string) (out []string) {
	root, err := p.Root(f)
	home := store.NewHome(root)
	var s *store.Saved
	if name := Value(f, "name"); err == nil && name != "" {
		s, err = home.Find(name)
	} else if err == nil {
		s, err = home.Last()
	}
	if err != nil || s == nil {
		return nil
	}
	if s.State.Kind == store.KindTag {
		return titles(root, view.ListOf(s.State))
	}
	if v, err := home.View(*s, nil); err == nil {
		for n := range v.State.Iteration {
			out = append(out, strconv.Itoa(n+1))
		}
	}
	return out
}

// backends are ours, and those that the project's settings add.
func (p Project) backends(f *pflag.FlagSet, _ []string) []string {
	out := agent.Names()
	if root, err := p.Root(f); err == nil {
		if file, err := config.ReadFile(filepath.Join(root, config.SettingsFile), false); err == nil {
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
			list = append(list, cobra.CompletionWithDesc(s.Key+end,
				terminal.Fit(strings.ReplaceAll(s.Help, "`", ""), 70)))
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
