package gitops

import (
	"context"
	"errors"
	"strings"
)

// person is who a commit names.
type person struct{ name, email string }

// fallbackPerson signs what is kept where git knows nobody: nothing an agent made is lost for want of a name.
var fallbackPerson = person{"descartes", "descartes@localhost"}

// Author is who the commits will name. Where git's configuration names nobody that is a RefusedError. What is found
// holds for the run, whatever an agent does to the settings.
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
