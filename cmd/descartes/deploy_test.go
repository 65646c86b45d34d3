//go:build fleet

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.temporal.io/sdk/contrib/envconfig"
	"gopkg.in/yaml.v3"
)

var deploy = filepath.Join("..", "..", "deploy")

// documents reads a YAML file.
func documents(t *testing.T, name string) (all []map[string]any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(deploy, name))
	if err != nil {
		t.Fatal(err)
	}
	for d := yaml.NewDecoder(bytes.NewReader(b)); ; {
		var one map[string]any
		err := d.Decode(&one)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, one)
	}
}

// eachValue calls f for every value in a document that has the key.
func eachValue(v any, key string, f func(any)) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if k == key {
				f(x)
			}
			eachValue(x, key, f)
		}
	case []any:
		for _, x := range v {
			eachValue(x, key, f)
		}
	}
}

// takesFleetArgs checks a command line of descartes-fleet as the program would, without running it.
func takesFleetArgs(t *testing.T, file string, args []string) {
	t.Helper()
	root := newFleetCmd()
	cmd, rest, err := root.Find(args)
	if err == nil && cmd == root {
		err = errors.New("no such command")
	}
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err != nil {
		t.Errorf("%s: descartes-fleet %v: %v", file, args, err)
	}
}

// TestFleetUsage: a word too many is a mistake of whoever typed it, with the exit code for that.
func TestFleetUsage(t *testing.T) {
	for _, args := range [][]string{{"bogus"}, {"worker", "bogus"}, {"status", "bogus"}, {"dev", "bogus"},
		{"worker", "--bogus"}, {"worker"}} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), fleetArgs(args), strings.NewReader(""), &out, &errs); code != exitInput ||
			!strings.Contains(errs.String(), "error: ") {
			t.Errorf("%v: exit %d, %s", args, code, &errs)
		}
	}
}

// TestDeployCommands: whatever the files of deploy have descartes-fleet do, it can do.
func TestDeployCommands(t *testing.T) {
	found := 0
	for file, key := range map[string]string{"compose.yaml": "command", "kubernetes.yaml": "args"} {
		for _, d := range documents(t, file) {
			eachValue(d, key, func(v any) {
				list, _ := v.([]any)
				args := make([]string, len(list))
				for i := range list {
					args[i] = fmt.Sprint(list[i])
				}
				takesFleetArgs(t, file, args)
				found++
			})
		}
	}
	unit, err := os.ReadFile(filepath.Join(deploy, "descartes-worker.service"))
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/descartes-fleet (.*)$`).FindSubmatch(unit)
	if line == nil {
		t.Fatal("the unit starts no descartes-fleet")
	}
	env, err := os.ReadFile(filepath.Join(deploy, "worker.env"))
	if err != nil {
		t.Fatal(err)
	}
	args := os.Expand(string(line[1]), func(name string) string {
		value := regexp.MustCompile(`(?m)^` + name + `=(.+)$`).FindSubmatch(env)
		if value == nil {
			t.Fatalf("worker.env has no %s", name)
		}
		return string(value[1])
	})
	if takesFleetArgs(t, "descartes-worker.service", strings.Fields(args)); found != 2 {
		t.Errorf("%d command lines were found in YAML, not 2", found)
	}
}

// TestDeployVariables: each variable that the files name is one that something reads.
func TestDeployVariables(t *testing.T) {
	asked := lookups{}
	if _, err := envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{DisableFile: true,
		EnvLookup: asked}); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool(asked)
	name := regexp.MustCompile(`\b(?:DESCARTES_FLEET|TEMPORAL)_[A-Z_]+\b`)
	for _, dir := range []string{".", "../../fleet", "../../fleet/temporal"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil || strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, m := range name.FindAll(b, -1) {
				known[string(m)] = true
			}
		}
	}
	files, err := os.ReadDir(deploy)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(deploy, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range name.FindAll(b, -1) {
			if seen[string(m)] = true; !known[string(m)] {
				t.Errorf("%s: nothing reads %s", f.Name(), m)
			}
		}
	}
	if len(seen) < 5 {
		t.Errorf("only %v are named", seen)
	}
}

// lookups remembers which variables Temporal's library asks for.
type lookups map[string]bool

func (l lookups) LookupEnv(name string) (string, bool) {
	l[name] = true
	return "", false
}

func (l lookups) Environ() []string { return nil }

// TestDeployImages: every image has a version, ours among them, and the compiler's is at least what the module asks
// for.
func TestDeployImages(t *testing.T) {
	var images []string
	for _, file := range []string{"compose.yaml", "kubernetes.yaml"} {
		for _, d := range documents(t, file) {
			eachValue(d, "image", func(v any) { images = append(images, fmt.Sprint(v)) })
		}
	}
	docker, err := os.ReadFile(filepath.Join(deploy, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllSubmatch(docker, -1) {
		images = append(images, string(m[1]))
	}
	pinned := regexp.MustCompile(`:v?[0-9][0-9a-z.]*(-[a-z0-9.]+)*\}?$`)
	for _, i := range images {
		if !pinned.MatchString(i) {
			t.Errorf("%s has no version", i)
		}
	}
	if len(images) != 10 {
		t.Errorf("images: %v", images)
	}
	mod, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	wants := regexp.MustCompile(`(?m)^go (\S+)`).FindSubmatch(mod)[1]
	if !slices.Contains(images, "golang:"+string(wants)+"-alpine3.22") {
		t.Errorf("go.mod says Go %s: %v", wants, images)
	}
}

// TestDeployServer: the server of a team has the settings of the one for trying.
func TestDeployServer(t *testing.T) {
	want := serverSettings()
	var got []string
	for key, v := range documents(t, "dynamicconfig.yaml")[0] {
		for _, one := range v.([]any) {
			got = append(got, fmt.Sprintf("%s=%v", key, one.(map[string]any)["value"]))
		}
	}
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
