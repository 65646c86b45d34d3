package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"

	"descartes/internal/plainfile"
	"descartes/loop"
	"descartes/loop/gate"
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
		Args: takes(0, 1, "at most one key"),
		RunE: func(cmd *cobra.Command, args []string) error {
			list, cfg, err := s.show(cmd.Flags())
			if err != nil {
				return err
			}
			if len(args) == 1 {
				if list = named(list, args[0]); len(list) == 0 {
					return badInput("descartes config show lists them", "there is no setting %q", args[0])
				}
			}
			w := masking(secrets(os.Environ(), cfg)).Writer(cmd.OutOrStdout())
			if asJSON {
				err = writeJSON(w, list)
			} else {
				err = write(w, settingTable(list))
			}
			return errors.Join(err, w.Flush())
		},
	}
	s.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the settings as JSON")
	return cmd
}

// setting is one value and where it comes from.
type setting struct {
	Key    string `json:"key"`
	Value  any    `json:"value"`
	Source string `json:"source"`         // flag, environment, file or default
	From   string `json:"from,omitempty"` // the flag, the variable, or the file and its line
}

// show lists all settings as a run would have them.
func (s *settings) show(f *pflag.FlagSet) ([]setting, loop.Config, error) {
	typed := map[string]bool{}
	f.Visit(func(fl *pflag.Flag) { typed[fl.Name] = true })
	root, err := s.load(f)
	if err != nil {
		return nil, s.Config, err
	}
	file, lines, err := s.fileLines(root)
	if err != nil {
		return nil, s.Config, err
	}
	s.workIn(f, root)
	s.fillDefaults()
	var list []setting
	flags, keys := flagsOf(f), map[string]bool{}
	fileKeys("", reflect.TypeFor[fileSettings](), keys)
	flatten("", reflect.ValueOf(&s.Config).Elem(), func(key string, v reflect.Value) {
		one := setting{Key: key, Value: v.Interface(), Source: "default"}
		flag := cmp.Or(flags[v.Addr().Pointer()], otherFlag(key))
		if !keys[key] && flag == "" {
			return // what a run finds out, and keeps with its settings
		}
		line, inFile := lines[key]
		switch name := "DESCARTES_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_")); {
		case flag != "" && typed[flag]:
			one.Source, one.From = "flag", "--"+flag
		case flag != "" && f.Changed(flag):
			one.Source, one.From = "environment", name
		case inFile:
			one.Source, one.From = "file", file+":"+itoa(line)
		}
		list = append(list, one)
	})
	return list, s.Config, nil
}

// fillDefaults puts in what a run takes where a setting is left open.
func (s *settings) fillDefaults() {
	c := &s.Config
	c.Git.AutoCommit = s.commits
	c.Git.CommitTemplate = cmp.Or(c.Git.CommitTemplate, loop.DefaultCommitTemplate)
	c.Git.BranchTemplate = cmp.Or(c.Git.BranchTemplate, loop.DefaultBranchTemplate)
	c.MaxIterations = cmp.Or(c.MaxIterations, defaultIterations)
	c.Scud.MaxTotalIterations = cmp.Or(c.Scud.MaxTotalIterations, loop.DefaultTotalIterations(0))
	c.StateFile = cmp.Or(c.StateFile, ".descartes/loop-state.json")
	c.Baseline = cmp.Or(c.Baseline, loop.BaselineRequire)
	if strictEnv(*c) {
		c.Env = envStrict
	}
	c.Env = cmp.Or(c.Env, envOpen)
	c.Breaker = cmp.Or(c.Breaker, loop.DefaultBreaker)
	c.OnLimit = cmp.Or(c.OnLimit, "wait")
	c.Gate = cmp.Or(c.Gate, "promise")
	c.CooldownSecs = cmp.Or(c.CooldownSecs, int(gate.DefaultCooldown.Seconds()))
	if _, backend, err := resolveBackend(*c); err == nil {
		c.Backend = backend
	}
}

// flagsOf finds the flag of each setting: the one that writes to it, told by its address.
func flagsOf(f *pflag.FlagSet) map[uintptr]string {
	out := map[uintptr]string{}
	f.VisitAll(func(fl *pflag.Flag) {
		v := reflect.ValueOf(fl.Value)
		if v.Kind() == reflect.Pointer {
			out[v.Pointer()] = fl.Name
			v = v.Elem()
		}
		for i := range fieldsOf(v) { // a value that holds the address
			if p := v.Field(i); p.Kind() == reflect.Pointer && !p.IsNil() {
				out[p.Pointer()] = fl.Name
			}
		}
	})
	return out
}

func fieldsOf(v reflect.Value) int {
	if v.Kind() != reflect.Struct {
		return 0
	}
	return v.NumField()
}

// otherFlag is the flag of a setting that is not written to by it alone.
func otherFlag(key string) string {
	switch key {
	case "working_directory":
		return "working-dir"
	case "verification_command":
		return "verify"
	case "scud.auto_commit_waves":
		return "auto-commit"
	case "scud.spec.spec_template":
		return "spec-template"
	case "prompt_handoff", "handoff_path":
		return "handoff"
	case "auto_tune":
		return "auto-tune"
	case "criteria":
		return "criterion"
	}
	return ""
}

// flatten tells of each setting below v under its key in descartes.yaml.
func flatten(prefix string, v reflect.Value, tell func(key string, v reflect.Value)) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch key := fileKey(prefix + name); {
		case field.Anonymous:
			flatten(prefix, v.Field(i), tell)
		case key == "replan" || key == "plan_prompt": // a mode's own
		case field.Type.Kind() == reflect.Struct:
			flatten(key+".", v.Field(i), tell)
		default:
			tell(key, v.Field(i))
		}
	}
}

// fileKey is a state file's key as descartes.yaml spells it.
func fileKey(key string) string {
	switch key {
	case "max_cost_per_task_usd":
		return "max_cost_per_task"
	case "max_wait_secs":
		return "max_wait"
	case "git.hook_timeout_secs":
		return "git.hook_timeout"
	case "must_not":
		return "mustNot"
	}
	return key
}

// fileLines tells on which line of the settings file each key stands.
func (s *settings) fileLines(root string) (name string, lines map[string]int, err error) {
	path := filepath.Join(root, "descartes.yaml")
	if s.file != "" {
		path = absolute(s.dir, s.file)
	}
	data, err := plainfile.Read(root, path, maxSettings)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return "", nil, fmt.Errorf("settings %s: %w", path, err)
	}
	lines = map[string]int{}
	if len(doc.Content) > 0 {
		keysOf("", doc.Content[0], lines)
	}
	return shown(root, path), lines, nil
}

// fileKeys are the keys that descartes.yaml may have.
func fileKeys(prefix string, t reflect.Type, keys map[string]bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		switch name, option, _ := strings.Cut(f.Tag.Get("yaml"), ","); {
		case option == "inline":
			fileKeys(prefix, f.Type, keys)
		case f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[yaml.Node]():
			fileKeys(prefix+name+".", f.Type, keys)
		default:
			keys[prefix+name] = true
		}
	}
}

func keysOf(prefix string, n *yaml.Node, lines map[string]int) {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		key := prefix + n.Content[i].Value
		lines[key] = n.Content[i].Line
		keysOf(key+".", n.Content[i+1], lines)
	}
}

// named are the settings of that key, or that begin so.
func named(list []setting, key string) (out []setting) {
	for _, one := range list {
		if one.Key == key || strings.HasPrefix(one.Key, strings.TrimSuffix(key, ".")+".") {
			out = append(out, one)
		}
	}
	return out
}

func settingTable(list []setting) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "SETTING\tVALUE\tSOURCE")
	for _, one := range list {
		source := one.Source
		if one.From != "" {
			source = one.From
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", one.Key, fit(clean(one.text()), 60), clean(source))
	}
	w.Flush() // into memory
	return b.String()
}

// text is a value as a person writes it.
func (one setting) text() string {
	switch v := reflect.ValueOf(one.Value); {
	case !v.IsValid(), (v.Kind() == reflect.Map || v.Kind() == reflect.Slice) && v.Len() == 0, v.Kind() == reflect.Pointer && v.IsNil():
		return "-"
	case v.Kind() == reflect.String && v.Len() == 0:
		return "-"
	case v.Kind() == reflect.String:
		return v.String()
	}
	j, err := json.Marshal(one.Value)
	if err != nil {
		return fmt.Sprint(one.Value)
	}
	return string(j)
}
