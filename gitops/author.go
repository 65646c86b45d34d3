package gitops

import (
	"context"
	"fmt"
	"strings"
)

// person is who a commit names.
type person struct{ name, email string }

// Author is who the commits will name. Where git's configuration names nobody that is a RefusedError.
func (r *Repo) Author(ctx context.Context) (name, email string, err error) {
	p, err := identity(r.cfg, r.opt.Env, "author")
	return p.name, p.email, err
}

const identityHint = `git config --global user.name "Your Name" && git config --global user.email you@example.com`

// identity is who git would name as "author" or "committer": the environment, then that role's own settings,
// then user.*. Unlike git it never makes one up from the login and host names.
func identity(c *gitConfig, env []string, role string) (person, error) {
	upper := "GIT_" + strings.ToUpper(role)
	name, named := firstSet(
		setting(lookupEnv(env, upper+"_NAME")), nonEmpty(c.get(role+".name")), setting(c.get("user.name")))
	email, mailed := firstSet(
		setting(lookupEnv(env, upper+"_EMAIL")), nonEmpty(c.get(role+".email")), setting(c.get("user.email")))
	if !mailed && !c.boolean("user.useconfigonly", false) {
		email = envValue(env, "EMAIL") // git asks this variable too
		mailed = email != ""
	}
	p := person{name, email}
	switch {
	case !named || name == "":
		return person{}, &RefusedError{Reason: fmt.Sprintf("git knows no name for the %s of a commit", role), Hint: identityHint}
	case !mailed: // an empty one that is set is one
		return person{}, &RefusedError{Reason: fmt.Sprintf("git knows no email for the %s of a commit", role), Hint: identityHint}
	}
	clean := person{withoutCrud(p.name), withoutCrud(p.email)}
	if clean.name == "" {
		return person{}, &RefusedError{Reason: fmt.Sprintf("the %s name %q has no character that git keeps", role, p.name), Hint: identityHint}
	}
	return clean, nil
}

// optional is a setting that may be absent.
type optional struct {
	text string
	set  bool
}

func setting(text string, set bool) optional  { return optional{text, set} }
func nonEmpty(text string, set bool) optional { return optional{text, set && text != ""} }

func firstSet(values ...optional) (string, bool) {
	for _, v := range values {
		if v.set {
			return v.text, true
		}
	}
	return "", false
}

// withoutCrud strips what git strips from a name: punctuation and spaces at both ends, angle brackets and
// newlines everywhere. Bytes, not runes: a name need not be UTF-8.
func withoutCrud(s string) string {
	crud := func(c byte) bool { return c <= ' ' || strings.IndexByte(".,:;<>\"\\'", c) >= 0 }
	for s != "" && crud(s[0]) {
		s = s[1:]
	}
	for s != "" && crud(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	b := make([]byte, 0, len(s))
	for i := range len(s) {
		if c := s[i]; c != '\n' && c != '<' && c != '>' {
			b = append(b, c)
		}
	}
	return string(b)
}
