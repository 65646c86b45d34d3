package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"descartes/loop"
)

// TestInitSettings reads the settings that init writes with every comment that holds a setting taken
// for one: an example that is no setting any more would mislead.
func TestInitSettings(t *testing.T) {
	t.Parallel()
	text, err := initFiles.ReadFile("init/project/descartes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`(?m)^#([^ ]|  )`).ReplaceAll(text, []byte("$1"))
	path := filepath.Join(t.TempDir(), "descartes.yaml")
	if err := os.WriteFile(path, all, 0o600); err != nil {
		t.Fatal(err)
	}
	c := defaults()
	if err := readFile(path, true, &c); err != nil {
		t.Fatalf("%v in\n%s", err, all)
	}
	if c.Scud.Tag != "feature-x" || c.Backend.Model != "opus" || len(c.Backends) != 1 {
		t.Errorf("not all settings were read: %+v", c)
	}
}

// TestInitDefaults reads what init writes without its examples: that must be what holds without any file.
func TestInitDefaults(t *testing.T) {
	t.Parallel()
	text, err := initFiles.ReadFile("init/project/descartes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	example := -1 // how deep the example stands whose lines are left out
	for line := range strings.Lines(string(text)) {
		setting, ok := strings.CutPrefix(line, "#")
		depth := len(setting) - len(strings.TrimLeft(setting, " "))
		if !ok || depth == 1 {
			continue
		}
		if example >= 0 && depth > example {
			continue
		}
		example = -1
		if strings.Contains(setting, "example") {
			example = depth
			continue
		}
		kept = append(kept, setting)
	}
	path := filepath.Join(t.TempDir(), "descartes.yaml")
	if err := os.WriteFile(path, []byte(strings.Join(kept, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	want, got := settings{Config: defaults()}, settings{Config: defaults()}
	if err := readFile(path, true, &got.Config); err != nil {
		t.Fatalf("%v in\n%s", err, strings.Join(kept, ""))
	}
	want.fillDefaults()
	got.fillDefaults()
	shown := func(c *loop.Config) map[string]string {
		out := map[string]string{}
		flatten("", reflect.ValueOf(c).Elem(), func(key string, v reflect.Value) { out[key] = fmt.Sprint(v.Interface()) })
		return out
	}
	w := shown(&want.Config)
	for key, v := range shown(&got.Config) {
		if v != w[key] {
			t.Errorf("%s: the file says %s, the default is %s", key, v, w[key])
		}
	}
	if len(kept) < 15 {
		t.Errorf("only %d settings are no examples", len(kept))
	}
}
