package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"gopkg.in/yaml.v3"

	"descartes/internal/plainfile"
	"descartes/loop"
)

// fileSettings is descartes.yaml. Its keys are the state file's field names.
type fileSettings struct {
	Command           string      `yaml:"command"`
	Args              []string    `yaml:"args"`
	CompletionPromise string      `yaml:"completion_promise"`
	TimeoutSecs       int         `yaml:"iteration_timeout_secs"`
	IdleTimeoutSecs   int         `yaml:"idle_timeout_secs"`
	StartTimeoutSecs  int         `yaml:"start_timeout_secs"`
	ExitGraceSecs     int         `yaml:"exit_grace_secs"`
	SpinLimit         int         `yaml:"spin_limit"`
	VerifyTimeoutSecs int         `yaml:"verify_timeout_secs"`
	VerifyIdleSecs    int         `yaml:"verify_idle_timeout_secs"`
	Baseline          string      `yaml:"baseline"`
	Breaker           fileBreaker `yaml:"breaker"`
	MaxCostUSD        float64     `yaml:"max_cost_usd"`
	MaxCostPerTask    float64     `yaml:"max_cost_per_task"`
	OnLimit           string      `yaml:"on_limit"`
	AllowDirty        bool        `yaml:"allow_dirty"`
	Backend           fileBackend `yaml:"backend"`
	Git               fileGit     `yaml:"git"`
	Scud              fileScud    `yaml:"scud"`

	Prices filePrices `yaml:"prices"`
	Mask   fileMask   `yaml:"mask"`

	fileSafety `yaml:",inline"`

	Backends map[string]fileRow `yaml:"backends"`

	filePrompt    `yaml:",inline"`
	fileProviders `yaml:",inline"`
}

// fileMask is a list of names, or the word off.
type fileMask []string

// UnmarshalYAML reads either.
func (m *fileMask) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode && (n.Value == "off" || n.Value == "false") {
		*m = fileMask{"off"}
		return nil
	}
	var names []string
	if err := n.Decode(&names); err != nil {
		return errors.New("mask: a list of variables is wanted, [MY_PIN, \"!NOT_SECRET\"], or off")
	}
	*m = names
	return nil
}

// fileBreaker is a number of tasks, or the word off.
type fileBreaker int

// UnmarshalYAML reads either.
func (b *fileBreaker) UnmarshalYAML(n *yaml.Node) error {
	if err := (breaker{(*int)(b)}).Set(n.Value); err != nil {
		return fmt.Errorf("breaker: %w", err)
	}
	return nil
}

type fileBackend struct {
	Type        string            `yaml:"backend_type"`
	PromptMode  string            `yaml:"prompt_mode"`
	Format      string            `yaml:"output_format"`
	Environment map[string]string `yaml:"environment"`
	Model       string            `yaml:"model"`
}

type fileGit struct {
	AutoCommit     *bool  `yaml:"auto_commit"`
	CommitTemplate string `yaml:"commit_template"`
	CreateBranch   bool   `yaml:"create_branch"`
	BranchTemplate string `yaml:"branch_template"`

	Hooks       string `yaml:"hooks"`
	HookTimeout string `yaml:"hook_timeout"`
	Branch      string `yaml:"branch"`
	CostTrailer bool   `yaml:"cost_trailer"`
}

type fileScud struct {
	Tag          string   `yaml:"tag"`
	TasksFile    string   `yaml:"tasks_file"`
	OpenInDone   bool     `yaml:"open_in_done"`
	Plan         string   `yaml:"plan_path"`
	Handoff      string   `yaml:"handoff_path"`
	MaxPerTask   int      `yaml:"max_iterations_per_task"`
	MaxTotal     int      `yaml:"max_total_iterations"`
	UseSubAgents bool     `yaml:"use_sub_agents"`
	AutoTune     bool     `yaml:"auto_tune"`
	Verification string   `yaml:"verification_command"`
	AutoCommit   *bool    `yaml:"auto_commit_waves"`
	RetryBlocked bool     `yaml:"retry_blocked"`
	Spec         fileSpec `yaml:"spec"`
}

type fileSpec struct {
	IncludeTask bool     `yaml:"include_task"`
	IncludePlan bool     `yaml:"include_plan_section"`
	Additional  []string `yaml:"additional_specs"`
	MaxTokens   int      `yaml:"max_spec_tokens"`
	Cut         bool     `yaml:"cut"`
	Template    string   `yaml:"spec_template"`
}

// readFile is readSettings for who needs the Config alone.
func readFile(path string, must bool, c *loop.Config) error {
	_, err := readSettings(path, must, c)
	return err
}

// maxSettings bounds descartes.yaml, in bytes.
const maxSettings = 1 << 20

// readSettings puts what the settings file says into c. A missing file says nothing, unless it must be there.
func readSettings(path string, must bool, c *loop.Config) (more fileMore, err error) {
	data, err := plainfile.Read(filepath.Dir(path), path, maxSettings)
	if errors.Is(err, fs.ErrNotExist) && !must {
		return more, nil
	}
	if err != nil {
		return more, badInput("", "settings: %w", err)
	}
	if err := bearable(data); err != nil {
		return more, badInput("", "settings %s: %w", path, err)
	}
	f := fileFrom(c)
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return more, badInput("", "settings %s: %s", path, yamlReason(err))
	}
	if err := f.check(); err != nil {
		return more, badInput("", "settings %s: %w", path, err)
	}
	f.into(c)
	f.fileSafety.into(&c.SafetyConfig)
	if c.Prices, err = f.Prices.table("prices"); err != nil {
		return more, badInput("", "settings %s: %w", path, err)
	}
	if c.Backends, err = backendRows(f.Backends); err != nil {
		return more, badInput("", "settings %s: %w", path, err)
	}
	return fileMore{f.Git.AutoCommit != nil && *f.Git.AutoCommit, f.WorkingDirectory, f.StateFile}, nil
}

// bearable refuses settings with more keys in one place than the decoder takes in bearable time: it compares each with each.
func bearable(data []byte) error {
	const most = 2000
	var doc yaml.Node
	if yaml.Unmarshal(data, &doc) != nil {
		return nil // the decoder says why
	}
	for nodes := []*yaml.Node{&doc}; len(nodes) > 0; {
		n := nodes[len(nodes)-1]
		if n.Kind == yaml.MappingNode && len(n.Content)/2 > most {
			return fmt.Errorf("line %d: %d keys in one place, at most %d can be read", n.Line, len(n.Content)/2, most)
		}
		nodes = append(nodes[:len(nodes)-1], n.Content...)
	}
	return nil
}

// yamlReason says what the decoder met in the words of the file, not in those of our types.
func yamlReason(err error) string {
	var te *yaml.TypeError
	if !errors.As(err, &te) {
		return strings.TrimPrefix(err.Error(), "yaml: ")
	}
	out := make([]string, 0, len(te.Errors))
	for _, e := range te.Errors {
		if before, _, ok := strings.Cut(e, " not found in type "); ok {
			e = strings.Replace(before, "field ", "unknown setting ", 1)
		}
		if before, ours, ok := strings.Cut(e, " into "); ok { // the name of a type of ours says nothing to a person
			switch {
			case strings.HasPrefix(ours, "map["), strings.HasPrefix(ours, "main."):
				e = before + ", where settings by name are wanted"
			case strings.HasPrefix(ours, "[]"):
				e = before + ", where a list is wanted"
			case strings.HasPrefix(ours, "int"):
				e = before + ", where a whole number is wanted"
			case strings.HasPrefix(ours, "float"):
				e = before + ", where a number is wanted"
			case strings.HasPrefix(ours, "bool"), strings.HasPrefix(ours, "*bool"):
				e = before + ", where true or false is wanted"
			case strings.HasPrefix(ours, "string"):
				e = before + ", where a text is wanted"
			}
			e = strings.NewReplacer("cannot unmarshal !!seq", "there is a list", "cannot unmarshal !!map", "there are settings by name",
				"cannot unmarshal !!str", "there is", "cannot unmarshal !!int", "there is", "cannot unmarshal !!float", "there is",
				"cannot unmarshal !!bool", "there is", "cannot unmarshal !!null", "there is nothing").Replace(e)
		}
		out = append(out, e)
	}
	return strings.Join(out, "; ")
}

func fileFrom(c *loop.Config) fileSettings {
	s := c.Scud
	return fileSettings{fileSafety: safetyFrom(c.SafetyConfig), CompletionPromise: c.CompletionPromise, filePrompt: filePrompt{IterationContext: c.IterationContext},
		IdleTimeoutSecs: c.IdleTimeoutSecs, VerifyTimeoutSecs: c.VerifyTimeoutSecs, VerifyIdleSecs: c.VerifyIdleSecs,
		StartTimeoutSecs: c.StartTimeoutSecs, ExitGraceSecs: c.ExitGraceSecs, SpinLimit: c.SpinLimit, OnLimit: c.OnLimit, Git: fileGit{Hooks: c.Git.Hooks},
		Scud: fileScud{MaxPerTask: s.MaxIterationsPerTask, UseSubAgents: s.UseSubAgents,
			Spec: fileSpec{IncludeTask: s.Spec.IncludeTask, IncludePlan: s.Spec.IncludePlanSection, MaxTokens: s.Spec.MaxSpecTokens}}}
}

func (f *fileSettings) check() error {
	word := ""
	if err := (choice{&word, onLimitWords}).Set(f.OnLimit); err != nil && f.OnLimit != "" {
		return fmt.Errorf("on_limit: %w", err)
	}
	if err := (choice{&word, baselineWords}).Set(f.Baseline); err != nil && f.Baseline != "" {
		return fmt.Errorf("baseline: %w", err)
	}
	if err := (choice{&word, "run|skip|fail"}).Set(f.Git.Hooks); err != nil {
		return fmt.Errorf("git.hooks: %w", err)
	}
	if err := new(secs).Set(f.Git.HookTimeout); err != nil {
		return fmt.Errorf("git.hook_timeout: %w", err)
	}
	if err := f.filePrompt.check(); err != nil {
		return err
	}
	if err := f.fileProviders.check(); err != nil {
		return err
	}
	for key, n := range map[string]int{"iteration_timeout_secs": f.TimeoutSecs, "idle_timeout_secs": f.IdleTimeoutSecs,
		"start_timeout_secs": f.StartTimeoutSecs, "exit_grace_secs": f.ExitGraceSecs, "spin_limit": f.SpinLimit, "verify_timeout_secs": f.VerifyTimeoutSecs, "verify_idle_timeout_secs": f.VerifyIdleSecs, "scud.max_total_iterations": f.Scud.MaxTotal, "scud.spec.max_spec_tokens": f.Scud.Spec.MaxTokens} {
		if n < 0 {
			return fmt.Errorf("%s: %d is negative", key, n)
		}
	}
	return nil
}

func (f *fileSettings) into(c *loop.Config) {
	c.Command, c.Args, c.CompletionPromise = f.Command, f.Args, f.CompletionPromise
	c.StartTimeoutSecs, c.ExitGraceSecs, c.SpinLimit = f.StartTimeoutSecs, f.ExitGraceSecs, f.SpinLimit
	f.filePrompt.into(c)
	f.fileProviders.into(c, f.Backends)
	c.TimeoutSecs, c.IdleTimeoutSecs, c.VerifyTimeoutSecs, c.VerifyIdleSecs = f.TimeoutSecs, f.IdleTimeoutSecs, f.VerifyTimeoutSecs, f.VerifyIdleSecs
	c.Mask, c.MaxCostPerTask, c.Git.CostTrailer = f.Mask, f.MaxCostPerTask, f.Git.CostTrailer
	c.Baseline, c.Breaker = f.Baseline, int(f.Breaker)
	c.MaxCostUSD, c.OnLimit, c.AllowDirty = f.MaxCostUSD, f.OnLimit, f.AllowDirty
	c.Backend = loop.BackendConfig{Type: f.Backend.Type, PromptMode: f.Backend.PromptMode, OutputFormat: f.Backend.Format,
		Environment: f.Backend.Environment, Model: f.Backend.Model}
	c.Git.Hooks, c.Git.Branch = f.Git.Hooks, f.Git.Branch
	if f.Git.HookTimeout != "" {
		_ = (*secs)(&c.Git.HookTimeout).Set(f.Git.HookTimeout) // check has looked
	}
	c.Git.CommitTemplate, c.Git.CreateBranch, c.Git.BranchTemplate = f.Git.CommitTemplate, f.Git.CreateBranch, f.Git.BranchTemplate
	s := &c.Scud
	s.Tag, s.PlanPath, s.HandoffPath = f.Scud.Tag, f.Scud.Plan, f.Scud.Handoff
	s.TasksFile, s.OpenInDone, s.AutoTune = f.Scud.TasksFile, f.Scud.OpenInDone, f.Scud.AutoTune
	s.MaxIterationsPerTask, s.MaxTotalIterations = f.Scud.MaxPerTask, f.Scud.MaxTotal
	s.UseSubAgents, s.VerificationCommand, s.RetryBlocked = f.Scud.UseSubAgents, f.Scud.Verification, f.Scud.RetryBlocked
	for _, commit := range []*bool{f.Git.AutoCommit, f.Scud.AutoCommit} {
		if commit != nil {
			s.AutoCommitWaves = *commit
		}
	}
	p := f.Scud.Spec
	s.Spec = loop.SpecConfig{IncludeTask: p.IncludeTask, IncludePlanSection: p.IncludePlan, AdditionalSpecs: p.Additional,
		MaxSpecTokens: p.MaxTokens, Cut: p.Cut, SpecTemplate: p.Template}
}
