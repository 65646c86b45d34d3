package gitops

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing/object"
)

// settings are what git sees in this working tree, as git itself lists it: the last word on each key, section and key
// in lower case, a subsection as written. Those of the command line are left out: they belong to whoever typed them.
type settings map[string]string

// setting is one of those that the repository's own files have, in their order.
type setting struct{ key, value string }

// readSettings asks git once; nothing later in the run reads settings again.
func readSettings(ctx context.Context, git *cli) (set settings, own []setting, err error) {
	ask := func(args ...string) ([]byte, error) { // with all that would else be set to ours
		return git.run(ctx, gitCall{args: append([]string{"config", "-z"}, args...), hooks: true, lfs: true})
	}
	b, err := ask("--show-scope", "--list")
	if err != nil {
		return nil, nil, fmt.Errorf("read git configuration: %w", err)
	}
	set = settings{}
	for entries := nulSplit(b); len(entries) > 1; entries = entries[2:] {
		key, value, given := strings.Cut(entries[1], "\n")
		if !given { // a key without "=" means that
			value = "true"
		}
		if set[key] = value; entries[0] == "local" {
			own = append(own, setting{key, value})
		}
	}
	for _, key := range []string{"core.hookspath", "user.signingkey"} {
		if strings.HasPrefix(set[key], "~") {
			if b, err = ask("--type=path", "--get", key); err != nil {
				return nil, nil, fmt.Errorf("read git configuration: %s: %w", key, err)
			}
			set[key] = strings.TrimSuffix(string(b), "\x00")
		}
	}
	return set, own, nil
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

func (p person) at(when time.Time) object.Signature {
	return object.Signature{Name: p.name, Email: p.email, When: when}
}

// fallbackPerson signs what is kept where git knows nobody: nothing an agent made is lost for want of a name.
var fallbackPerson = person{"descartes", "descartes@localhost"}

// Author is a RefusedError where git's configuration does not say whom commits will name. The answer is the same for
// all of a run, whatever an agent does to the settings.
func (r *Repo) Author() error {
	_, err := r.person("author")
	if err == nil {
		_, err = r.person("committer")
	}
	return err
}

// person is who is named in a role, by git's rules with user.useConfigOnly: no name is made up from the login and the
// host's name.
func (r *Repo) person(role string) (p person, err error) {
	of := func(what string) (string, error) {
		value := cmp.Or(r.set[role+"."+what], r.set["user."+what])
		for _, kv := range r.opt.Env {
			if given, ok := strings.CutPrefix(kv, "GIT_"+strings.ToUpper(role+"_"+what)+"="); ok {
				value = given
			}
		}
		value = strings.NewReplacer("<", "", ">", "", "\n", "").Replace(strings.Trim(value, " \t\n.,:;<>\"\\'"))
		if value == "" {
			return "", &RefusedError{Reason: "git knows no " + role + " for commits: no " + what + " is set",
				Hint: `git config --global user.name "Your Name" && git config --global user.email you@example.com`}
		}
		return value, nil
	}
	if p.name, err = of("name"); err == nil {
		p.email, err = of("email")
	}
	return p, err
}

// keeper is the committer, or ourselves.
func (r *Repo) keeper() person {
	if p, err := r.person("committer"); err == nil {
		return p
	}
	return fallbackPerson
}

// asKeeper are options for commands that write a reflog, where git knows nobody.
func (r *Repo) asKeeper() []string {
	if p := r.keeper(); p == fallbackPerson {
		return []string{"-c", "user.name=" + p.name, "-c", "user.email=" + p.email}
	}
	return nil
}

// fatal is what git gives as the reason of its end, in one line.
func fatal(said string) string {
	if _, why, ok := strings.Cut("\n"+said, "\nfatal: "); ok {
		said = why
	}
	return strings.Join(strings.Fields(said), " ")
}

// SigningKey is the key that git signs commits with: the format openpgp or ssh, the key, and the program that signs,
// "" where git's configuration does not say.
func (r *Repo) SigningKey() (key struct{ Format, ID, Program string }) {
	key.Format, key.ID, key.Program = r.set["gpg.format"], r.set["user.signingkey"],
		cmp.Or(r.set["gpg.openpgp.program"], r.set["gpg.program"])
	if key.Format == "ssh" {
		key.Program = r.set["gpg.ssh.program"]
		if at := filepath.Join(r.l.root, key.ID); !filepath.IsAbs(key.ID) && exists(at) {
			key.ID = at
		}
	}
	return key
}
