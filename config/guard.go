package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"descartes/verify/judge"
)

// GuardConfig says what an attempt may do to the checks that judge it.
type GuardConfig struct {
	Protect []string               `json:"protect,omitempty" type:"patterns" trust:"no" help:"more paths that no attempt may change, besides the files of the checks, written as in .gitignore; !PATH excepts one"`
	Guard   map[string]judge.Level `json:"guard,omitempty" type:"guard" trust:"no" help:"what happens to an attempt that weakens the checks, by rule or group: off, warn, ask or fail; one word for all"`
}

// Guards reports whether the settings ask for the guard. A prompt loop that looks at nothing else an iteration
// changes runs it only then.
func (c *GuardConfig) Guards() bool {
	return len(c.Protect) > 0 || len(c.Guard) > 0 && !(len(c.Guard) == 1 && c.Guard[judge.All] == judge.Off)
}

// levels is guard as descartes.yaml has it: one word for all rules, or a level for each name.
type levels map[string]judge.Level

func (l *levels) UnmarshalYAML(n *yaml.Node) error {
	var each map[string]judge.Level
	if n.Kind == yaml.ScalarNode {
		each = map[string]judge.Level{judge.All: judge.Level(n.Value)}
	} else if err := n.Decode(&each); err != nil {
		return err
	}
	for name, level := range each {
		if level == "false" { // YAML's off
			each[name] = judge.Off
		}
	}
	*l = each
	return nil
}

// mostPatterns bounds the patterns of protected paths.
const mostPatterns = 1000

// checkPatterns refuses patterns that cannot match a file in the project.
func checkPatterns(list []string) error {
	if len(list) > mostPatterns {
		return fmt.Errorf("%d patterns: at most %d are allowed", len(list), mostPatterns)
	}
	for _, p := range list {
		if path := strings.TrimPrefix(p, "!"); strings.TrimSpace(path) == "" || strings.ContainsAny(path, "\n\x00") ||
			slices.Contains(strings.Split(path, "/"), "..") {
			return fmt.Errorf("%q is not a pattern for paths in the project, like schema/ or *.sql", p)
		}
	}
	return nil
}

// checkGuard refuses unknown names and levels.
func checkGuard(levels map[string]judge.Level) error {
	for _, name := range slices.Sorted(maps.Keys(levels)) {
		if !slices.Contains(judge.Names(), name) {
			return fmt.Errorf("unknown rule %q: it is none of the guard's, nor tests, checks, ci, secrets or all",
				name)
		}
		if known := []string{"off", "warn", "ask", "fail"}; !slices.Contains(known, string(levels[name])) {
			return fmt.Errorf("%s: %w", name, noneOf(string(levels[name]), known))
		}
	}
	return nil
}

// guardText describes the guard where it differs from the default.
func guardText(c *Config) string {
	text := "an attempt that weakens the checks fails"
	if len(c.Guard) > 0 {
		var words []string
		for _, name := range slices.Sorted(maps.Keys(c.Guard)) {
			words = append(words, name+": "+string(c.Guard[name]))
		}
		text += ", but " + strings.Join(words, ", ")
		if l, ok := c.Guard[judge.All]; ok && len(c.Guard) == 1 {
			text = map[judge.Level]string{judge.Off: "off", judge.Warn: "what weakens the checks is reported",
				judge.Ask:  "what weakens or changes the checks needs your consent",
				judge.Fail: "an attempt that weakens or changes the checks fails"}[l]
		}
	}
	if len(c.Protect) > 0 {
		text += "; also protected: " + strings.Join(c.Protect, " ")
	}
	return text
}
