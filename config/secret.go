package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"descartes/internal/lazyregexp"
	"descartes/internal/redact"
)

// Secrets are the secrets of our environment, passed on to agents or not, and of the settings' own variables. A value
// that looks like a credential is one, unless the settings say otherwise.
func (c *Config) Secrets(environ []string) []redact.Secret {
	if slices.Contains(c.Mask, "off") {
		return nil
	}
	vars := map[string][]string{}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		vars[name] = append(vars[name], value)
	}
	for _, env := range append([]map[string]string{c.Backend.Environment}, c.rowVars()...) {
		for name, value := range env {
			vars[name] = append(vars[name], value)
		}
	}
	var out []redact.Secret
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		for _, value := range vars[name] {
			for _, v := range redact.Parts(name, value, c.Mask) {
				if s := (redact.Secret{Name: name, Value: v}); !slices.Contains(out, s) {
					out = append(out, s)
				}
			}
		}
	}
	return out
}

func (c *Config) rowVars() (list []map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(c.Backends)) {
		list = append(list, c.Backends[name].Env)
	}
	return list
}

// placeholder replaces the value of a secret in a state file.
func placeholder(name string) string { return "{secret:" + name + "}" }

// Hide returns the settings as the state file has them: with the names of secrets, whose values resuming reads again.
func Hide(cfg Config, list []redact.Secret) Config {
	cfg.Notify = slices.Clone(cfg.Notify)
	for i, target := range cfg.Notify {
		cfg.Notify[i] = hideTarget(target)
	}
	if len(list) == 0 {
		return cfg
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b redact.Secret) int { return cmp.Compare(len(b.Value), len(a.Value)) })
	return eachText(cfg, func(text string) string {
		for _, s := range list {
			text = strings.ReplaceAll(text, s.Value, placeholder(s.Name))
		}
		return text
	})
}

// inTarget finds what a notify target holds that only its owner may know: who a webhook's URL calls as, a bot's token,
// and of the services that have no other key the path of the URL.
var inTarget = []*lazyregexp.Regexp{
	lazyregexp.New(`^((?:[a-z]+:)?(?://)?(?:https?://)?)([^/@\s]+)(@.+)$`),
	lazyregexp.New(`^((?:slack|discord):https?://[^/\s]+/)(\S+)()$`),
	lazyregexp.New(`^(https://(?:hooks\.slack\.com|discord\.com|discordapp\.com)/)(\S+)()$`),
	lazyregexp.New(`^(telegram:)([^@\s]+)(@.+)$`),
}

// hiddenTarget stands for it in a state file.
const hiddenTarget = "--notify"

// hideTarget is a notify target as the state file has it. A command is none of these, and a variable is no secret by
// itself.
func hideTarget(target string) string {
	for _, r := range inTarget {
		if m := r.FindStringSubmatch(target); m != nil && !strings.Contains(m[2], "$") && isTarget(target) {
			return m[1] + placeholder(hiddenTarget) + m[3]
		}
	}
	return target
}

// isTarget reports whether a notify target names whom to call, and is no command.
func isTarget(target string) bool {
	kind, _, ok := strings.Cut(target, ":")
	return ok && slices.Contains([]string{"http", "https", "ntfy", "slack", "discord", "telegram"}, kind)
}

// Reveal undoes Hide. missing names the secrets that no longer have a value.
func Reveal(cfg Config, environ []string, file Config) (_ Config, missing []string) {
	file.Mask = cfg.Mask
	list := file.Secrets(environ)
	cfg.Notify = slices.Clone(cfg.Notify)
	for i, target := range cfg.Notify {
		at := slices.IndexFunc(file.Notify, func(now string) bool { return hideTarget(now) == target })
		if at >= 0 {
			cfg.Notify[i] = file.Notify[at]
		} else if strings.Contains(target, placeholder(hiddenTarget)) {
			missing = append(missing, hiddenTarget)
		}
	}
	cfg.Backend.Environment = again(cfg.Backend.Environment, file.Backend.Environment)
	cfg.Backends = maps.Clone(cfg.Backends)
	for name, row := range cfg.Backends {
		row.Env = again(row.Env, file.Backends[name].Env)
		cfg.Backends[name] = row
	}
	cfg = eachText(cfg, func(text string) string {
		for _, s := range list {
			text = strings.ReplaceAll(text, placeholder(s.Name), s.Value)
		}
		for _, m := range regexp.MustCompile(`\{secret:([^{}\s]+)\}`).FindAllStringSubmatch(text, -1) {
			missing = append(missing, m[1])
		}
		return text
	})
	slices.Sort(missing)
	return cfg, slices.Compact(missing)
}

// again restores the hidden values of saved variables from the settings file.
func again(saved, file map[string]string) map[string]string {
	saved = maps.Clone(saved)
	for name, value := range saved {
		if now, ok := file[name]; ok && value == placeholder(name) {
			saved[name] = now
		}
	}
	return saved
}

// eachText returns the settings, as a state file has them, with change applied to each text.
func eachText(cfg Config, change func(string) string) (out Config) {
	var tree any
	data, err := json.Marshal(cfg)
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		err = d.Decode(&tree)
	}
	if err == nil {
		data, err = json.Marshal(changed(tree, change))
	}
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		panic(fmt.Sprintf("settings: %v", err)) // which every state file has
	}
	return out
}

func changed(v any, change func(string) string) any {
	switch v := v.(type) {
	case string:
		return change(v)
	case []any:
		for i := range v {
			v[i] = changed(v[i], change)
		}
	case map[string]any:
		for key := range v {
			v[key] = changed(v[key], change)
		}
	}
	return v
}
