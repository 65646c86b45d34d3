package gitops

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// gitConfig is every setting that git sees in this working tree, as git itself lists it: where its files are,
// what they include and under which condition, and how they are written is git's to know. Settings of the command
// line and of GIT_CONFIG_COUNT are left out: they belong to whoever typed them.
type gitConfig struct {
	values map[string][]configValue
	order  []string          // keys in order of first appearance
	paths  map[string]string // settings that name a file or folder, expanded
	bools  map[string]bool   // those of boolSettings that are set, as git reads them
}

type configValue struct {
	text  string
	given bool // false: a key without "=", which means true
}

// pathSettings are those that we follow; "~" in them is expanded by git.
var pathSettings = []string{"core.hookspath", "user.signingkey"}

var boolSettings = []string{"commit.gpgsign", "core.filemode", "user.useconfigonly"}

// readConfig asks git once; nothing later in the run reads settings again.
func readConfig(ctx context.Context, git *cli) (*gitConfig, error) {
	b, err := git.run(ctx, gitCall{args: []string{"config", "--list", "-z", "--show-scope"}})
	if err != nil {
		return nil, fmt.Errorf("read git configuration: %w", err)
	}
	c := &gitConfig{values: map[string][]configValue{}, paths: map[string]string{}, bools: map[string]bool{}}
	for fields := nulSplit(b); len(fields) >= 2; fields = fields[2:] {
		if fields[0] == "command" {
			continue
		}
		key, value, given := strings.Cut(fields[1], "\n")
		if _, ok := c.values[key]; !ok {
			c.order = append(c.order, key)
		}
		c.values[key] = append(c.values[key], configValue{value, given})
	}
	for _, key := range pathSettings {
		p, ok := c.get(key)
		if ok && (strings.HasPrefix(p, "~") || strings.HasPrefix(p, "%(prefix)")) {
			// With hooks, because without them core.hooksPath is one of ours.
			b, err := git.run(ctx, gitCall{args: []string{"config", "--type=path", "--get", key}, hooks: true})
			if err != nil {
				return nil, fmt.Errorf("read git configuration: %s: %w", key, err)
			}
			p = strings.TrimSpace(string(b))
		}
		if ok {
			c.paths[key] = p
		}
	}
	for _, key := range boolSettings {
		is, ok := c.get(key)
		if ok && is != "true" && is != "false" { // git knows other words
			if is, err = git.word(ctx, "", "config", "--type=bool", "--get", key); err != nil {
				return nil, fmt.Errorf("read git configuration: %s: %w", key, err)
			}
		}
		if ok {
			c.bools[key] = is == "true"
		}
	}
	return c, nil
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

// boolean is the last word on one of boolSettings; def where there is none.
func (c *gitConfig) boolean(key string, def bool) bool {
	if is, ok := c.bools[key]; ok {
		return is
	}
	return def
}

// pathname is the last word on one of pathSettings.
func (c *gitConfig) pathname(key string) (string, bool) {
	p, ok := c.paths[key]
	return p, ok
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

// envValue is the last setting of key, as a process would see it.
func envValue(env []string, key string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], key+"="); ok {
			return v
		}
	}
	return ""
}

// person is who a commit names.
type person struct{ name, email string }

// fallbackPerson signs what is kept where git knows nobody: nothing an agent made is lost for want of a name.
var fallbackPerson = person{"descartes", "descartes@localhost"}

// Author returns whom the commits will name. Where git's configuration names nobody, it returns a RefusedError. The
// answer is kept for the run, whatever an agent does to the settings.
func (r *Repo) Author(ctx context.Context) (name, email string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, err := r.people.author(ctx)
	if err == nil {
		_, err = r.people.committer(ctx)
	}
	return p.name, p.email, err
}

const identityHint = `git config --global user.name "Your Name" && git config --global user.email you@example.com`

// identities are the author and committer that git names, each asked for once per run.
type identities struct {
	git   *cli
	cfg   *gitConfig
	known map[string]person
}

func (i *identities) author(ctx context.Context) (person, error)    { return i.ask(ctx, "AUTHOR") }
func (i *identities) committer(ctx context.Context) (person, error) { return i.ask(ctx, "COMMITTER") }

// keeper is the committer, or ourselves.
func (i *identities) keeper(ctx context.Context) person {
	if p, err := i.committer(ctx); err == nil {
		return p
	}
	return fallbackPerson
}

// asKeeper are options for commands that write a reflog, where git knows nobody.
func (i *identities) asKeeper(ctx context.Context) []string {
	if p := i.keeper(ctx); p == fallbackPerson {
		return []string{"-c", "user.name=" + p.name, "-c", "user.email=" + p.email}
	}
	return nil
}

// ask never lets git make a name up from the login and the host's name. The variable EMAIL is no such guess, but
// user.useConfigOnly excludes it as one, so it is passed on as a setting.
func (i *identities) ask(ctx context.Context, role string) (person, error) {
	if p, ok := i.known[role]; ok {
		return p, nil
	}
	call := gitCall{options: []string{"-c", "user.useConfigOnly=true"}, args: []string{"var", "GIT_" + role + "_IDENT"}}
	_, mailed := i.cfg.get("user.email")
	if mail := envValue(i.git.env, "EMAIL"); mail != "" && !mailed && !i.cfg.boolean("user.useconfigonly", false) {
		call.options = append(call.options, "-c", "user.email="+mail)
	}
	b, err := i.git.run(ctx, call)
	var said *gitError
	switch {
	case errors.As(err, &said):
		return person{}, &RefusedError{Reason: "git knows no " + strings.ToLower(role) + " for commits: " + fatal(said.said), Hint: identityHint}
	case err != nil:
		return person{}, err
	}
	name, rest, _ := strings.Cut(string(b), " <")
	email, _, _ := strings.Cut(rest, "> ")
	p := person{name, email}
	if i.known == nil {
		i.known = map[string]person{}
	}
	i.known[role] = p
	return p, nil
}

// fatal is what git gives as the reason of its end, in one line.
func fatal(said string) string {
	if _, why, ok := strings.Cut("\n"+said, "\nfatal: "); ok {
		said = why
	}
	return strings.Join(strings.Fields(said), " ")
}

// SigningKey is the key that git signs commits with: the format openpgp or ssh, the key, and the program that signs, "" where git's
// configuration does not say.
func (r *Repo) SigningKey() (key struct{ Format, ID, Program string }) {
	key.Format, _ = r.cfg.get("gpg.format")
	key.ID, _ = r.cfg.pathname("user.signingkey")
	if key.Format == "ssh" {
		if _, err := os.Stat(filepath.Join(r.l.root, key.ID)); err == nil && !filepath.IsAbs(key.ID) {
			key.ID = filepath.Join(r.l.root, key.ID)
		}
		key.Program, _ = r.cfg.get("gpg.ssh.program")
		return key
	}
	if key.Program, _ = r.cfg.get("gpg.openpgp.program"); key.Program == "" {
		key.Program, _ = r.cfg.get("gpg.program")
	}
	return key
}
