package main

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"descartes/internal/redact"
	"descartes/loop"
)

// secret is a value that is shown nowhere, and the variable that has it.
type secret struct{ name, value string }

// secrets are those of our environment, handed on to agents or not, and of the settings' own variables. What looks
// like a credential is one, unless the settings say otherwise.
func secrets(environ []string, cfg loop.Config) []secret {
	if slices.Contains(cfg.Mask, "off") {
		return nil
	}
	vars := map[string][]string{}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		vars[name] = append(vars[name], value)
	}
	for _, env := range append([]map[string]string{cfg.Backend.Environment}, rowVars(cfg)...) {
		for name, value := range env {
			vars[name] = append(vars[name], value)
		}
	}
	var out []secret
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		for _, value := range vars[name] {
			for _, v := range secretsOf(name, value, cfg.Mask) {
				if s := (secret{name, v}); !slices.Contains(out, s) {
					out = append(out, s)
				}
			}
		}
	}
	return out
}

func rowVars(cfg loop.Config) (list []map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(cfg.Backends)) {
		list = append(list, cfg.Backends[name].Env)
	}
	return list
}

// masking is the mask of secrets; nil if there are none.
func masking(list []secret) *redact.Redactor {
	values := make([]string, len(list))
	for i, s := range list {
		values[i] = s.value
	}
	return redact.New(values)
}

// ownMask is the mask of what our environment alone has, for a message of a command that read no settings.
func ownMask() *redact.Redactor { return masking(secrets(os.Environ(), loop.Config{})) }

// secretsOf are the parts of a variable's value that are secret.
func secretsOf(name, value string, words []string) []string {
	value = strings.TrimSpace(value)
	if slices.Contains(words, "!"+name) || len(value) < redact.MinLength {
		return nil
	}
	if slices.Contains(words, name) {
		return []string{value}
	}
	if u, err := url.Parse(value); err == nil && u.Scheme != "" && u.User != nil {
		if word, ok := u.User.Password(); ok && len(word) >= redact.MinLength {
			return []string{word, rawPassword(value)}
		}
	}
	if !credential(name) || !guarded(name, value) {
		return nil
	}
	out := []string{value}
	if kind, rest, ok := strings.Cut(value, " "); ok && slices.Contains([]string{"bearer", "basic", "token"}, strings.ToLower(kind)) {
		out = append(out, strings.TrimSpace(rest))
	}
	return append(out, members(value)...)
}

// rawPassword is a URL's password as it stands there.
func rawPassword(value string) string {
	_, rest, _ := strings.Cut(value, "://")
	rest, _, _ = strings.Cut(rest, "/")
	user := rest[:max(0, strings.LastIndexByte(rest, '@'))]
	_, word, _ := strings.Cut(user, ":")
	return word
}

// members are the secrets inside a value that is a JSON object, as a service account's key is.
func members(value string) (out []string) {
	var object map[string]any
	if value[0] != '{' || json.Unmarshal([]byte(value), &object) != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if text, ok := object[name].(string); ok && len(text) >= redact.MinLength && credential(name) && guarded(name, text) {
			out = append(out, text)
		}
	}
	return out
}

// credential reports whether a variable of that name holds a credential, and not something about one.
func credential(name string) bool {
	name = strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
	parts := strings.Split(name, "_")
	switch parts[len(parts)-1] {
	case "URL", "URI", "ENDPOINT", "HOST", "PORT", "FILE", "PATH", "DIR", "HOME", "SOCK", "SOCKET", "TYPE", "METHOD", "NAME", "USER", "USERNAME", "TTL", "EXPIRY",
		"EXPIRES", "LENGTH", "SIZE", "LIMIT", "COUNT", "MODE", "ENABLED", "SCOPE", "SCOPES", "REGION", "VERSION", "COMMAND", "PROVIDER", "HELPER":
		return false
	}
	for _, word := range []string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "API_KEY", "APIKEY", "CREDENTIAL", "PRIVATE_KEY"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return slices.ContainsFunc(parts[min(1, len(parts)-1):], func(p string) bool { return p == "KEY" || p == "KEYS" || p == "PASS" || p == "AUTHORIZATION" }) ||
		slices.ContainsFunc(parts, func(p string) bool { return strings.HasSuffix(p, "AUTH") })
}

// guarded reports whether a value is one that could be guessed only by knowing it: no path, no address, no word,
// no number.
func guarded(name, value string) bool {
	name = strings.ToUpper(name)
	strong := strings.Contains(name, "PASS") || strings.Contains(name, "SECRET") // whose value may be a word that somebody thought of
	distinct := map[rune]bool{}
	for _, r := range value {
		distinct[r] = true
	}
	switch {
	case len(distinct) < 4, isPath(value):
		return false
	case regexp.MustCompile(`^[a-z][a-z0-9+.-]*://[^@?#]*$`).MatchString(value):
		return false
	case slices.Contains([]string{"disabled", "enabled", "required", "optional", "anonymous", "password", "keyboard-interactive", "publickey", "default", "keychain",
		"external", "internal", "automatic", "interactive", "undefined", "changeme"}, strings.ToLower(value)):
		return false
	case strong:
		return true
	}
	return !regexp.MustCompile(`^([a-z_.-]{1,16}|[A-Z_.-]{1,16}|[A-Z][a-z]{1,15}|[0-9., _:-]+)$`).MatchString(value)
}

// isPath reports whether a value names a file that is there, or might be made in a folder that is. A key may begin
// with a slash too.
func isPath(value string) bool {
	if !strings.HasPrefix(value, "/") && !strings.HasPrefix(value, "~/") && !strings.HasPrefix(value, "./") && !strings.HasPrefix(value, "../") {
		return false
	}
	if value[0] != '/' {
		return true
	}
	for _, list := range filepath.SplitList(value) {
		if _, err := os.Lstat(list); err == nil {
			return true
		}
		if dir := filepath.Dir(list); dir != "/" {
			if _, err := os.Lstat(dir); err == nil {
				return true
			}
		}
	}
	return false
}

// placeholder stands in a state file for the value of a secret.
func placeholder(name string) string { return "{secret:" + name + "}" }

// hidden is the settings as the state file has them: the names of secrets and not their values, which resuming
// reads again.
func hidden(cfg loop.Config, list []secret) loop.Config {
	if len(list) == 0 {
		return cfg
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b secret) int { return cmp.Compare(len(b.value), len(a.value)) })
	return eachText(cfg, func(text string) string {
		for _, s := range list {
			text = strings.ReplaceAll(text, s.value, placeholder(s.name))
		}
		return text
	})
}

// revealed is hidden's opposite. missing names the secrets that are not to be had any more.
func revealed(cfg loop.Config, environ []string, file loop.Config) (_ loop.Config, missing []string) {
	file.Mask = cfg.Mask
	list := secrets(environ, file)
	cfg.Backend.Environment = again(cfg.Backend.Environment, file.Backend.Environment)
	cfg.Backends = maps.Clone(cfg.Backends)
	for name, row := range cfg.Backends {
		row.Env = again(row.Env, file.Backends[name].Env)
		cfg.Backends[name] = row
	}
	cfg = eachText(cfg, func(text string) string {
		for _, s := range list {
			text = strings.ReplaceAll(text, placeholder(s.name), s.value)
		}
		for _, m := range regexp.MustCompile(`\{secret:([^{}\s]+)\}`).FindAllStringSubmatch(text, -1) {
			missing = append(missing, m[1])
		}
		return text
	})
	slices.Sort(missing)
	return cfg, slices.Compact(missing)
}

// again is saved variables, with the values of those that were hidden from the settings file.
func again(saved, file map[string]string) map[string]string {
	saved = maps.Clone(saved)
	for name, value := range saved {
		if now, ok := file[name]; ok && value == placeholder(name) {
			saved[name] = now
		}
	}
	return saved
}

// eachText is the settings with each text changed that may hold a secret: commands, variables and the prompt.
func eachText(cfg loop.Config, change func(string) string) loop.Config {
	values := func(vars map[string]string) map[string]string {
		vars = maps.Clone(vars)
		for name, value := range vars {
			vars[name] = change(value)
		}
		return vars
	}
	words := func(list []string) []string {
		list = slices.Clone(list)
		for i := range list {
			list[i] = change(list[i])
		}
		return list
	}
	cfg.Command, cfg.Args, cfg.Prompt, cfg.PlanPrompt = change(cfg.Command), words(cfg.Args), change(cfg.Prompt), change(cfg.PlanPrompt)
	cfg.VerificationCommand, cfg.Scud.VerificationCommand = change(cfg.VerificationCommand), change(cfg.Scud.VerificationCommand)
	cfg.Criteria, cfg.MustNot, cfg.Precheck = eachCriterion(cfg.Criteria, change), eachCriterion(cfg.MustNot, change), change(cfg.Precheck)
	cfg.Backend.Environment = values(cfg.Backend.Environment)
	cfg.Backends = maps.Clone(cfg.Backends)
	for name, row := range cfg.Backends {
		row.Command, row.Args, row.StdinArgs, row.Env = words(row.Command), words(row.Args), words(row.StdinArgs), values(row.Env)
		cfg.Backends[name] = row
	}
	return cfg
}
