package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"gopkg.in/yaml.v3"
)

// jobStep is a step of a job or an action of GitHub's.
type jobStep struct {
	Uses, Run, Shell string
	If               string
	With, Env        map[string]string
}

// jobCmd is "job github|action|gitlab NAME=VALUE...": do in the current directory, which is a fresh clone, what the
// job for GitHub in docs/ci.md, action.yml or the job for GitLab there does, with those inputs or variables. What its
// steps print is the output, and "job passed" or "job failed" the last line of it.
func jobCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: job github|action|gitlab NAME=VALUE...")
	}
	j := &nightJob{ts: ts, inputs: map[string]string{}}
	given := map[string]string{}
	for _, a := range args[1:] {
		name, value, _ := strings.Cut(a, "=")
		given[name] = value
	}
	top, err := filepath.Abs(filepath.Join("..", ".."))
	ts.Check(err)
	j.top = top
	switch args[0] {
	case "github":
		var flow struct {
			On, Permissions, Concurrency map[string]any
			Jobs                         map[string]struct {
				RunsOn  string `yaml:"runs-on"`
				Minutes int    `yaml:"timeout-minutes"`
				Steps   []jobStep
			}
		}
		j.read(snippet(ts, top, "on:\n"), &flow)
		if flow.Permissions["contents"] != "write" || flow.On["schedule"] == nil || len(flow.Jobs) != 1 {
			ts.Fatalf("the workflow of docs/ci.md cannot push at night: %+v", flow)
		}
		j.steps(flow.Jobs["descartes"].Steps)
	case "action":
		text, err := os.ReadFile(filepath.Join(top, "action.yml"))
		ts.Check(err)
		var action struct {
			Name, Description string
			Inputs            map[string]struct {
				Description, Default string
				Required             bool
			}
			Runs struct {
				Using string
				Steps []jobStep
			}
		}
		j.read(string(text), &action)
		for name, in := range action.Inputs {
			value, ok := given[name]
			if delete(given, name); !ok {
				value = in.Default
			}
			if in.Required && !ok {
				ts.Fatalf("the input %s is required", name)
			}
			j.inputs[name] = value
		}
		if len(given) > 0 || action.Runs.Using != "composite" {
			ts.Fatalf("no such inputs: %v", given)
		}
		j.steps(action.Runs.Steps)
	case "gitlab":
		var file map[string]struct {
			Rules     []map[string]string
			Group     string `yaml:"resource_group"`
			Timeout   string
			Variables map[string]string
			Script    []string
			After     []string `yaml:"after_script"`
			Artifacts struct {
				When    string
				Reports map[string]string
				Paths   []string
			}
		}
		j.read(snippet(ts, top, "descartes:\n"), &file)
		one := file["descartes"]
		for name, value := range one.Variables {
			given[name] = value
		}
		j.run(strings.Join(one.Script, "\n"), given, "-eo", "pipefail")
		failed := j.failed
		j.run(strings.Join(one.After, "\n"), given, "-eo", "pipefail")
		j.failed = failed // what runs afterwards changes nothing
		j.collect(append(one.Artifacts.Paths, one.Artifacts.Reports["junit"])...)
	default:
		ts.Fatalf("no job %s", args[0])
	}
	how := "passed"
	if j.failed {
		how = "failed"
	}
	fmt.Fprintf(ts.Stdout(), "%sjob %s\n", j.said.String(), how)
}

// nightJob is one that is under way.
type nightJob struct {
	ts     *testscript.TestScript
	top    string // of our own sources
	inputs map[string]string
	failed bool
	said   strings.Builder
}

// read takes YAML in that has no member which is not known.
func (j *nightJob) read(text string, into any) {
	d := yaml.NewDecoder(strings.NewReader(text))
	d.KnownFields(true)
	j.ts.Check(d.Decode(into))
}

// snippet is the block of YAML in docs/ci.md that begins so.
func snippet(ts *testscript.TestScript, top, begin string) string {
	text, err := os.ReadFile(filepath.Join(top, "docs", "ci.md"))
	ts.Check(err)
	_, text2, ok := strings.Cut(string(text), "```yaml\n"+begin)
	text3, _, closed := strings.Cut(text2, "\n```\n")
	if !ok || !closed {
		ts.Fatalf("docs/ci.md has no block that begins with %q", begin)
	}
	return begin + text3 + "\n"
}

// steps does what GitHub's runner does.
func (j *nightJob) steps(steps []jobStep) {
	cloned := false
	for _, s := range steps {
		if !j.wanted(s.If) {
			continue
		}
		switch name, _, _ := strings.Cut(s.Uses, "@"); name {
		case "":
			env := map[string]string{}
			for name, value := range s.Env {
				env[name] = j.expand(value)
			}
			flags := []string{"-e"}
			if s.Shell == "bash" {
				flags = []string{"--noprofile", "--norc", "-eo", "pipefail"}
			}
			j.run(j.expand(s.Run), env, flags...)
		case "actions/checkout":
			if cloned = true; s.With["fetch-depth"] != "0" {
				j.ts.Fatalf("the clone would be shallow")
			}
		case "actions/setup-go":
			if _, err := os.Stat(j.expand(s.With["go-version-file"])); err != nil {
				j.ts.Fatalf("%v", err)
			}
		case "actions/upload-artifact":
			if s.With["include-hidden-files"] != "true" {
				j.ts.Fatalf("nothing below .descartes would be uploaded")
			}
			j.collect(strings.Fields(j.expand(s.With["path"]))...)
		default:
			j.ts.Fatalf("a step uses %s", s.Uses)
		}
	}
	if j.inputs["tag"] == "" && !cloned {
		j.ts.Fatalf("the job has no checkout")
	}
}

// wanted evaluates a step's condition.
func (j *nightJob) wanted(condition string) bool {
	always := false
	for part := range strings.SplitSeq(condition, "&&") {
		part = strings.TrimSpace(part)
		input, value, compares := strings.Cut(strings.TrimPrefix(part, "inputs."), " == ")
		switch {
		case part == "":
		case part == "always()":
			always = true
		case compares && strings.HasPrefix(part, "inputs."):
			if j.inputs[input] != strings.Trim(value, "'") {
				return false
			}
		default:
			j.ts.Fatalf("condition %s", condition)
		}
	}
	return always || !j.failed
}

// expand fills expressions in.
func (j *nightJob) expand(text string) string {
	return regexp.MustCompile(`\$\{\{ ([a-z]+)\.([A-Za-z_-]+) \}\}`).ReplaceAllStringFunc(text,
		func(found string) string {
			kind, name, _ := strings.Cut(strings.Trim(found, "${} "), ".")
			value, ok := j.inputs[name]
			switch {
			case kind == "inputs" && ok:
				return value
			case kind == "secrets", found == "${{ github.token }}":
				return "value-of-" + name
			case found == "${{ github.action_path }}":
				return j.top
			}
			j.ts.Fatalf("expression %s", found)
			return ""
		})
}

// run runs lines of bash with variables, and takes in what they add to the path.
func (j *nightJob) run(lines string, env map[string]string, flags ...string) {
	ts := j.ts
	dir := ts.MkAbs("../job")
	ts.Check(os.MkdirAll(dir, 0o777))
	file, path := filepath.Join(dir, "step.sh"), filepath.Join(dir, "path")
	ts.Check(os.WriteFile(file, []byte(lines), 0o666))
	ts.Check(os.WriteFile(path, nil, 0o666))
	words := []string{"CI=true", "GITHUB_ACTION_PATH=" + j.top, "RUNNER_TEMP=" + dir, "GITHUB_PATH=" + path}
	for name, value := range env {
		words = append(words, name+"="+value)
	}
	words = append(append(append(words, "bash"), flags...), file)
	if err := ts.Exec("env", words...); err != nil {
		j.failed = true
	}
	j.said.WriteString(ts.ReadFile("stdout") + ts.ReadFile("stderr"))
	for dir := range strings.FieldsSeq(ts.ReadFile(path)) {
		ts.Setenv("PATH", dir+string(os.PathListSeparator)+ts.Getenv("PATH"))
	}
}

// collect takes what a job keeps: something has to be there.
func (j *nightJob) collect(patterns ...string) {
	for _, p := range patterns {
		if found, err := filepath.Glob(j.ts.MkAbs(p)); err == nil && len(found) > 0 {
			return
		}
	}
	j.ts.Fatalf("nothing is at %s", strings.Join(patterns, ", "))
}
