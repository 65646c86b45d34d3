package redact

import (
	"encoding/json"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"descartes/internal/lazyregexp"
)

// Secret is a value that is shown nowhere, and the variable that has it.
type Secret struct{ Name, Value string }

// Of is the redactor of those secrets; nil if there are none.
func Of(list []Secret) *Redactor {
	values := make([]string, len(list))
	for i, s := range list {
		values[i] = s.Value
	}
	return New(values)
}

// Parts are the parts of a variable's value that are secret: what looks like a credential, and what the words name. A
// word is the name of a variable, with ! in front of one that holds no secret.
func Parts(name, value string, words []string) []string {
	value = strings.TrimSpace(value)
	if slices.Contains(words, "!"+name) || len(value) < MinLength {
		return nil
	}
	if slices.Contains(words, name) {
		return []string{value}
	}
	if u, err := url.Parse(value); err == nil && u.Scheme != "" && u.User != nil {
		if word, ok := u.User.Password(); ok && len(word) >= MinLength {
			return []string{word, rawPassword(value)}
		}
	}
	var out []string
	for _, token := range known.FindAllString(value, -1) {
		if len(token) >= MinLength {
			out = append(out, token)
		}
	}
	if !credential(name) || !guarded(name, value) {
		return out
	}
	out = append(out, value)
	if kind, rest, ok := strings.Cut(value, " "); ok && slices.Contains([]string{"bearer", "basic", "token"},
		strings.ToLower(kind)) {
		out = append(out, strings.TrimSpace(rest))
	}
	return append(out, members(value)...)
}

// known finds tokens by the beginnings that their makers give them, and addresses that are secrets themselves.
var known = lazyregexp.New(`\b(?:` + strings.Join([]string{
	`sk-[\w-]{16,}`, `[sr]k_live_\w{10,}`, `whsec_\w{10,}`, `AIza[\w-]{24,}`, `ya29\.[\w-]{16,}`,
	`gh[pousr]_\w{10,}`, `github_pat_\w{16,}`, `gl[a-z]{2,5}-[\w-]{16,}`, `npm_\w{20,}`, `pypi-[\w-]{16,}`,
	`xox[a-z]-[\w-]{10,}`, `xapp-[\w-]{10,}`, `SG\.[\w-]{16,}\.[\w-]{16,}`, `hf_\w{16,}`, `dop_v1_\w{16,}`,
	`A(?:KIA|SIA)[A-Z0-9]{16}\b`, `eyJ[\w-]{8,}\.eyJ[\w-]{4,}\.[\w-]{8,}`,
	`https://hooks\.slack\.com/[\w/-]{10,}`, `https://(?:\w+\.)?discord(?:app)?\.com/api/webhooks/[\w/-]{6,}`,
	`https://[\w.-]+\.webhook\.office\.com/[^\s"']{10,}`,
}, "|") + `)`)

// rawPassword is a URL's password as written.
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
		if text, ok := object[name].(string); ok && len(text) >= MinLength && credential(name) && guarded(name, text) {
			out = append(out, text)
		}
	}
	return out
}

// credential reports whether a variable of that name holds a credential, and not something about one.
func credential(name string) bool {
	name = strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
	parts := strings.Split(name, "_")
	if slices.Contains(parts, "WEBHOOK") || strings.Contains(name, "CONNECTION_STRING") || bundlerHost(name) {
		return true
	}
	switch parts[len(parts)-1] {
	case "URL", "URI", "ENDPOINT", "HOST", "PORT", "FILE", "PATH", "DIR", "HOME", "SOCK", "SOCKET", "TYPE", "METHOD",
		"NAME", "USER", "USERNAME", "TTL", "EXPIRY",
		"EXPIRES", "LENGTH", "SIZE", "LIMIT", "COUNT", "MODE", "ENABLED", "SCOPE", "SCOPES", "REGION", "VERSION",
		"COMMAND", "PROVIDER", "HELPER":
		return false
	}
	if last := parts[len(parts)-1]; last == "PAT" || len(parts) > 1 && last == "PWD" ||
		slices.Contains(parts, "JWT") || strings.HasPrefix(name, "OP_SESSION_") {
		return true
	}
	for _, word := range []string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "API_KEY", "APIKEY",
		"CREDENTIAL", "PRIVATE_KEY"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return slices.ContainsFunc(parts[min(1, len(parts)-1):],
		func(p string) bool { return p == "KEY" || p == "KEYS" || p == "PASS" || p == "AUTHORIZATION" }) ||
		slices.ContainsFunc(parts, func(p string) bool { return strings.HasSuffix(p, "AUTH") })
}

// bundlerHost reports whether a variable is Bundler's login at a host: two underscores stand for each dot.
func bundlerHost(name string) bool {
	rest, ok := strings.CutPrefix(name, "BUNDLE_")
	if !ok || !strings.Contains(rest, "__") {
		return false
	}
	kind, _, _ := strings.Cut(rest, "__")
	return !slices.Contains([]string{"BUILD", "LOCAL", "MIRROR"}, kind)
}

// guarded reports whether a value is one that could be guessed only by knowing it: no path, no address, no word,
// no number.
func guarded(name, value string) bool {
	name = strings.ToUpper(name)
	// whose value may be a word that somebody thought of
	strong := strings.Contains(name, "PASS") || strings.Contains(name, "SECRET") || strings.HasSuffix(name, "_PWD")
	distinct := map[rune]bool{}
	for _, r := range value {
		distinct[r] = true
	}
	switch {
	case len(distinct) < 4, isPath(value):
		return false
	case strings.Contains(name, "WEBHOOK"): // who knows the address may use it
		return strings.Contains(value, "://")
	case regexp.MustCompile(`^[a-z][a-z0-9+.-]*://[^@?#]*$`).MatchString(value):
		return false
	case slices.Contains([]string{"disabled", "enabled", "required", "optional", "anonymous", "password",
		"keyboard-interactive", "publickey", "default", "keychain",
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
	if !strings.HasPrefix(value, "/") && !strings.HasPrefix(value, "~/") && !strings.HasPrefix(value, "./") &&
		!strings.HasPrefix(value, "../") {
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
