package gitops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// settings are what git sees in this working tree, as git itself lists it: the last word on each key, section and key in lower case, a subsection as
// written. Those of the command line are left out: they belong to whoever typed them.
type settings map[string]string

// readSettings asks git once; nothing later in the run reads settings again.
func readSettings(ctx context.Context, git *cli) (settings, error) {
	ask := func(args ...string) ([]byte, error) { // with hooks: without them core.hooksPath is ours
		return git.run(ctx, gitCall{args: append([]string{"config", "-z"}, args...), hooks: true})
	}
	b, err := ask("--list")
	if err != nil {
		return nil, fmt.Errorf("read git configuration: %w", err)
	}
	set := settings{}
	for _, entry := range nulSplit(b) {
		key, value, given := strings.Cut(entry, "\n")
		if !given { // a key without "=" means that
			value = "true"
		}
		set[key] = value
	}
	for _, key := range []string{"core.hookspath", "user.signingkey"} {
		if strings.HasPrefix(set[key], "~") {
			if b, err = ask("--type=path", "--get", key); err != nil {
				return nil, fmt.Errorf("read git configuration: %s: %w", key, err)
			}
			set[key] = strings.TrimSuffix(string(b), "\x00")
		}
	}
	return set, nil
}

// is reads a setting that is true or false.
func (s settings) is(key string, unset bool) bool {
	if s[key] == "" {
		return unset
	}
	return slices.Contains([]string{"true", "yes", "on", "1"}, strings.ToLower(s[key]))
}

// person is who a commit names.
type person struct{ name, email string }

// fallbackPerson signs what is kept where git knows nobody: nothing an agent made is lost for want of a name.
var fallbackPerson = person{"descartes", "descartes@localhost"}

// Author returns whom the commits will name. Where git's configuration names nobody, it returns a RefusedError. The
// answer is kept for the run, whatever an agent does to the settings.
func (r *Repo) Author(ctx context.Context) (name, email string, err error) {
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
	mu    sync.Mutex
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

// ask never lets git make a name up from the login and the host's name.
func (i *identities) ask(ctx context.Context, role string) (person, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if p, ok := i.known[role]; ok {
		return p, nil
	}
	b, err := i.git.run(ctx, gitCall{options: []string{"-c", "user.useConfigOnly=true"}, args: []string{"var", "GIT_" + role + "_IDENT"}})
	if said, ok := errors.AsType[*gitError](err); ok {
		return person{}, &RefusedError{Reason: "git knows no " + strings.ToLower(role) + " for commits: " + fatal(said.said), Hint: identityHint}
	}
	if err != nil {
		return person{}, err
	}
	name, rest, _ := strings.Cut(string(b), " <")
	email, _, _ := strings.Cut(rest, "> ")
	if i.known == nil {
		i.known = map[string]person{}
	}
	i.known[role] = person{name, email}
	return i.known[role], nil
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
	key.Format, key.ID, key.Program = r.set["gpg.format"], r.set["user.signingkey"], cmp.Or(r.set["gpg.openpgp.program"], r.set["gpg.program"])
	if key.Format == "ssh" {
		key.Program = r.set["gpg.ssh.program"]
		if at := filepath.Join(r.l.root, key.ID); !filepath.IsAbs(key.ID) && exists(at) {
			key.ID = at
		}
	}
	return key
}
