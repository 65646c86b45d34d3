package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// families are the places below a home in which the clients of one kind keep what
// they know: login, settings, sessions.
func families() map[string][]string {
	return map[string][]string{
		"claude":   {".claude", ".claude.json", ".config/claude", ".local/share/claude", ".local/state/claude"},
		"codex":    {".codex"},
		"gemini":   {".gemini"},
		"opencode": {".config/opencode", ".local/share/opencode", ".local/state/opencode", ".cache/opencode", ".opencode"},
		"qwen":     {".qwen"},
		"copilot":  {".copilot", ".config/github-copilot"},
		"cline":    {".cline", ".config/cline"},
		"amp":      {".config/amp", ".local/share/amp"},
		"cursor":   {".cursor", ".config/cursor"},
		"goose":    {".config/goose", ".local/share/goose", ".local/state/goose"},
		"aider":    {".aider", ".aider.conf.yml"},
		"crush":    {".config/crush", ".local/share/crush"},
		"kiro":     {".kiro", ".local/share/kiro-cli"},
		"pi":       {".pi"},
	}
}

// own are those of one agent; of one that nobody knows, all: it may be any.
func own(agent string) []string {
	table := families()
	if list, known := table[agent]; known {
		return list
	}
	var all []string
	for _, list := range table {
		all = append(all, list...)
	}
	return all
}

// made are those of own that are made where they are missing: a program that
// never ran before must be able to.
func made(agent string) []string {
	switch agent {
	case "claude", "codex", "gemini", "qwen", "copilot":
		return []string{"." + agent}
	case "opencode":
		return []string{".config/opencode", ".local/share/opencode", ".local/state/opencode", ".cache/opencode"}
	}
	return nil
}

// ownVars name such places by a variable.
func ownVars() map[string]string {
	return map[string]string{"CLAUDE_CONFIG_DIR": "claude", "CODEX_HOME": "codex", "GEMINI_CLI_HOME": "gemini", "QWEN_HOME": "qwen",
		"OPENCODE_CONFIG_DIR": "opencode", "COPILOT_HOME": "copilot", "CLINE_DIR": "cline"}
}

// elsewhere is where a place of the home lies for programs that are told by a
// variable.
func (b *Box) elsewhere(name string) (list []string) {
	for _, v := range [][2]string{
		{"XDG_CONFIG_HOME", ".config/"}, {"XDG_DATA_HOME", ".local/share/"}, {"XDG_STATE_HOME", ".local/state/"}, {"XDG_CACHE_HOME", ".cache/"},
		{"CARGO_HOME", ".cargo/"}, {"GRADLE_USER_HOME", ".gradle/"}, {"HF_HOME", ".cache/huggingface/"}, {"COMPOSER_HOME", ".composer/"},
		{"HEX_HOME", ".hex/"}, {"PUB_CACHE", ".pub-cache/"}, {"GEMINI_CLI_HOME", ""},
	} {
		rest, ok := strings.CutPrefix(name, v[1])
		if !ok || v[1] == "" && name != ".gemini" {
			continue
		}
		if dir := b.env(v[0]); dir != "" {
			list = append(list, filepath.Join(dir, rest))
		}
	}
	return list
}

// conceal hides a place, unless the tree or the home would go with it. A folder
// .env is no file of settings but programs.
func (b *Box) conceal(path string) {
	if _, err := os.Lstat(path); err != nil { // most are not there, and this is quick
		return
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil || real == b.c.Top || b.home != "" && within(b.home, real) {
		return
	}
	if info, err := os.Stat(real); err == nil && info.IsDir() && filepath.Base(path) == ".env" {
		return
	}
	b.add(real, emptied)
}

// login lets an agent have what it keeps in the home and hides what others do.
// The verify command, which anybody's tests are part of, sees none of it.
func (b *Box) login() {
	if b.c.Role == Verify && b.c.ShowLogin {
		for name := range ownVars() {
			b.add(b.env(name), readable)
		}
		for _, name := range own("") {
			b.below(name, readable)
		}
		return
	}
	var mine []string
	if b.c.Role == Agent {
		mine = own(b.c.Agent)
		b.makeOwn()
		for name, family := range ownVars() {
			if _, known := families()[b.c.Agent]; !known || family == b.c.Agent {
				b.add(b.env(name), writable)
			}
		}
		for _, name := range mine {
			b.below(name, writable)
		}
	}
	b.others(mine)
}

// below names a place of the home.
func (b *Box) below(name string, what how) {
	if b.home != "" {
		b.add(filepath.Join(b.home, name), what)
	}
}

// makeOwn makes the places that an agent needs.
func (b *Box) makeOwn() {
	if !b.c.Make || b.home == "" {
		return
	}
	for _, name := range made(b.c.Agent) {
		_ = os.MkdirAll(filepath.Join(b.home, name), 0o700)
	}
}

// others hides what agents of other kinds than ours keep, but where a link makes
// it the same place.
func (b *Box) others(mine []string) {
	var hidden, shown []string
	for _, name := range own("") {
		to := &hidden
		if slices.Contains(mine, name) {
			to = &shown
		}
		if b.home != "" {
			*to = append(*to, filepath.Join(b.home, name))
		}
		*to = append(*to, b.elsewhere(name)...)
	}
	for name, family := range ownVars() {
		if path := b.env(name); path != "" && family != "gemini" { // whose variable names a home
			to := &hidden
			if len(mine) > 0 && slices.Contains(mine, families()[family][0]) {
				to = &shown
			}
			*to = append(*to, path)
		}
	}
	for i, path := range shown {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			shown[i] = real
		}
	}
	for _, path := range hidden {
		real, err := filepath.EvalSymlinks(path)
		if err == nil && !slices.ContainsFunc(shown, func(s string) bool { return within(s, real) }) {
			b.conceal(real)
		}
	}
}
