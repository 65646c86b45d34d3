package gitops

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
)

const maxIncludeDepth = 10 // git's own

type configScope int

const (
	systemScope configScope = iota
	globalScope
	localScope
	worktreeScope
)

type configValue struct {
	text  string
	given bool // false: a key without "="
	scope configScope
}

// gitConfig is every setting that git would see in this working tree, without those of the command line and
// of GIT_CONFIG_COUNT, which belong to whoever typed them.
type gitConfig struct {
	values  map[string][]configValue
	order   []string // keys in order of first appearance
	home    string
	unclear []string // settings that cannot be evaluated here
}

// configLoader is the state of one reading of all files.
type configLoader struct {
	l      layout
	c      *gitConfig
	urls   []string // remote.*.url of everything, for includeIf.hasconfig
	second bool     // urls is known
	asked  bool     // an includeIf.hasconfig was met
}

// loadConfig reads the system's, the user's, the repository's and the working tree's files and what they include.
func loadConfig(l layout, env []string) (*gitConfig, error) {
	ld := &configLoader{l: l}
	if err := ld.all(env); err != nil {
		return nil, err
	}
	if ld.asked {
		ld.urls = ld.c.matching("remote.", ".url")
		ld.second = true
		if err := ld.all(env); err != nil {
			return nil, err
		}
	}
	return ld.c, nil
}

func (ld *configLoader) all(env []string) error {
	ld.c = &gitConfig{values: map[string][]configValue{}, home: envValue(env, "HOME")}
	for _, f := range configFiles(env) {
		if err := ld.file(f.path, f.scope, 0); err != nil {
			return err
		}
	}
	if err := ld.file(filepath.Join(ld.l.commonDir, "config"), localScope, 0); err != nil {
		return err
	}
	if !ld.c.boolean("extensions.worktreeconfig", false) {
		return nil
	}
	return ld.file(filepath.Join(ld.l.gitDir, "config.worktree"), worktreeScope, 0)
}

type configFile struct {
	path  string
	scope configScope
}

// configFiles lists the files above the repository's.
func configFiles(env []string) []configFile {
	var out []configFile
	system := "/etc/gitconfig"
	if s, ok := lookupEnv(env, "GIT_CONFIG_SYSTEM"); ok {
		system = s
	}
	if !truth(envValue(env, "GIT_CONFIG_NOSYSTEM"), true, false) {
		out = append(out, configFile{system, systemScope})
	}
	if g, ok := lookupEnv(env, "GIT_CONFIG_GLOBAL"); ok {
		return append(out, configFile{g, globalScope})
	}
	if x := xdgPath(env, "config"); x != "" {
		out = append(out, configFile{x, globalScope})
	}
	if home := envValue(env, "HOME"); home != "" {
		out = append(out, configFile{filepath.Join(home, ".gitconfig"), globalScope})
	}
	return out
}

// xdgPath is git's file of that name under the XDG configuration directory; "" without a home.
func xdgPath(env []string, name string) string {
	if x := envValue(env, "XDG_CONFIG_HOME"); x != "" {
		return filepath.Join(x, "git", name)
	}
	if home := envValue(env, "HOME"); home != "" {
		return filepath.Join(home, ".config", "git", name)
	}
	return ""
}

// file reads one file; a missing one is empty, and so is an unreadable one of the user's, as git has it.
func (ld *configLoader) file(path string, scope configScope, depth int) error {
	if path == "" {
		return nil
	}
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return nil
	case errors.Is(err, os.ErrPermission) && scope < localScope && depth == 0:
		return nil
	case err != nil:
		return fmt.Errorf("read git configuration: %w", err)
	}
	var inner error
	err = parseConfig(b, func(key, value string, given bool) {
		if inner != nil {
			return
		}
		ld.c.add(key, configValue{value, given, scope})
		if ld.included(key, path) {
			inner = ld.include(value, path, scope, depth+1)
		}
	})
	if err != nil {
		return fmt.Errorf("read git configuration %s: %w", path, err)
	}
	return inner
}

func (ld *configLoader) include(value, from string, scope configScope, depth int) error {
	if depth > maxIncludeDepth {
		return fmt.Errorf("read git configuration: %s includes more than %d files deep", from, maxIncludeDepth)
	}
	p, ok := ld.c.expand(value)
	if !ok {
		ld.c.unclear = append(ld.c.unclear, fmt.Sprintf("include of %q in %s", value, from))
		return nil
	}
	if !filepath.IsAbs(p) {
		p = filepath.Join(filepath.Dir(from), p)
	}
	return ld.file(p, scope, depth)
}

func (c *gitConfig) add(key string, v configValue) {
	if _, ok := c.values[key]; !ok {
		c.order = append(c.order, key)
	}
	c.values[key] = append(c.values[key], v)
}

// get is the last word on key: section and key in lower case, a subsection as written.
func (c *gitConfig) get(key string) (string, bool) {
	v := c.values[key]
	if len(v) == 0 {
		return "", false
	}
	last := v[len(v)-1]
	if !last.given {
		return "true", true
	}
	return last.text, true
}

// boolean is the last word on key; def where there is none or git would refuse it.
func (c *gitConfig) boolean(key string, def bool) bool {
	v := c.values[key]
	if len(v) == 0 {
		return def
	}
	return truth(v[len(v)-1].text, v[len(v)-1].given, def)
}

// pathname is the last word on key with "~" expanded.
func (c *gitConfig) pathname(key string) (string, bool) {
	v, ok := c.get(key)
	if !ok {
		return "", false
	}
	return c.expand(v)
}

// matching lists the values of all keys with that beginning and end, in order.
func (c *gitConfig) matching(prefix, suffix string) []string {
	var out []string
	for _, k := range c.keys(prefix) {
		if strings.HasSuffix(k, suffix) {
			for _, v := range c.values[k] {
				out = append(out, v.text)
			}
		}
	}
	return out
}

func (c *gitConfig) keys(prefix string) []string {
	var out []string
	for _, k := range c.order {
		if strings.HasPrefix(k, prefix) {
			out = append(out, k)
		}
	}
	return out
}

// expand replaces "~/" and "~user/"; false for git's own prefix and for an unknown user, which only git can tell.
func (c *gitConfig) expand(p string) (string, bool) {
	if strings.HasPrefix(p, "%(prefix)/") {
		return "", false
	}
	if !strings.HasPrefix(p, "~") {
		return p, true
	}
	name, rest, _ := strings.Cut(p[1:], "/")
	if name == "" {
		return filepath.Join(c.home, rest), c.home != ""
	}
	u, err := user.Lookup(name)
	if err != nil {
		return "", false
	}
	return filepath.Join(u.HomeDir, rest), true
}

func envValue(env []string, key string) string {
	v, _ := lookupEnv(env, key)
	return v
}

// lookupEnv finds the last setting of key, as a process would.
func lookupEnv(env []string, key string) (string, bool) {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], key+"="); ok {
			return v, true
		}
	}
	return "", false
}
