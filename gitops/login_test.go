package gitops

import "testing"

// A login in a URL is found in every way of writing one, and a user's name for ssh, or a path with an @, is none.
func TestWithoutLogin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		url, want string
		had       bool
	}{
		{"https://me:secret@host/x.git", "https://host/x.git", true},
		{"https://token@host:8443/x.git", "https://host:8443/x.git", true},
		{"http://me:p@ss@host/a@b.git", "http://host/a@b.git", true},
		{"https://me:secret@host", "https://host", true},
		{"ssh://git:secret@host:22/x.git", "ssh://git@host:22/x.git", true},
		{"ssh://git@host/x.git", "ssh://git@host/x.git", false},
		{"git@host:team/x.git", "git@host:team/x.git", false},
		{"https://host/a@b.git", "https://host/a@b.git", false},
		{"/srv/git/x.git", "/srv/git/x.git", false},
		{"origin", "origin", false},
	} {
		if got, had := WithoutLogin(c.url); got != c.want || had != c.had {
			t.Errorf("%s: got %s, %v", c.url, got, had)
		}
	}
}
