package sandbox

import (
	"slices"
	"strings"
	"testing"

	"descartes/agent/process"
)

func names(list []string) (out []string) {
	for _, kv := range list {
		name, _, _ := strings.Cut(kv, "=")
		out = append(out, name)
	}
	return out
}

func TestPart(t *testing.T) {
	env := strings.Fields(`PATH=p HOME=h LC_ALL=C XDG_DATA_HOME=x DESCARTES_TASK_ID=1 HTTPS_PROXY=p SSL_CERT_FILE=c GOCACHE=g CARGO_HOME=c JAVA_HOME=j
		VIRTUAL_ENV=v PYENV_ROOT=p CI=1 GIT_AUTHOR_NAME=n GIT_CONFIG_GLOBAL=g ANTHROPIC_API_KEY=k CLAUDE_CODE_USE_BEDROCK=0 CLAUDE_CODE_OAUTH_TOKEN=o OPENAI_API_KEY=k
		GEMINI_API_KEY=k GOOGLE_CLOUD_PROJECT=g GH_TOKEN=t DATABASE_URL=d MYAPP_MODE=m MYAPP_PORT=2 GIT_DIR=x GIT_INDEX_FILE=x SSH_AUTH_SOCK=s GIT_ASKPASS=a SUDO_ASKPASS=a LD_PRELOAD=l
		BASH_ENV=b NODE_OPTIONS=n CLAUDECODE=1 CLAUDE_CODE_SESSION_ID=s CLAUDE_CODE_ENTRYPOINT=e AWS_SECRET_ACCESS_KEY=a FOO=f IS_SANDBOX=1 PIP_INDEX_URL=u MISE_GITHUB_TOKEN=t UV_PUBLISH_PASSWORD=p broken`)
	base := strings.Fields(`PATH HOME LC_ALL XDG_DATA_HOME DESCARTES_TASK_ID HTTPS_PROXY SSL_CERT_FILE GOCACHE CARGO_HOME JAVA_HOME VIRTUAL_ENV PYENV_ROOT CI
		GIT_AUTHOR_NAME GIT_CONFIG_GLOBAL PIP_INDEX_URL`)
	for _, c := range []struct {
		p           Passing
		base, agent string // besides those above
	}{
		{Passing{Backend: "claude"}, "",
			"ANTHROPIC_API_KEY CLAUDE_CODE_USE_BEDROCK CLAUDE_CODE_OAUTH_TOKEN IS_SANDBOX"},
		{Passing{Backend: "codex"}, "", "OPENAI_API_KEY"},
		{Passing{Backend: "gemini"}, "", "GEMINI_API_KEY GOOGLE_CLOUD_PROJECT"},
		{Passing{Backend: "copilot"}, "", "GH_TOKEN"},
		{Passing{Backend: "generic"}, "",
			"ANTHROPIC_API_KEY CLAUDE_CODE_USE_BEDROCK CLAUDE_CODE_OAUTH_TOKEN OPENAI_API_KEY GEMINI_API_KEY GOOGLE_CLOUD_PROJECT IS_SANDBOX"},
		{Passing{Backend: "codex", Pass: []string{"MYAPP_*", "DATABASE_URL", "GIT_*", "SSH_AUTH_SOCK", "LD_*"},
			Own: []string{"FOO"}}, "DATABASE_URL MYAPP_MODE MYAPP_PORT", "OPENAI_API_KEY FOO"},
	} {
		c.p.Strict = true
		got := c.p.Part(env)
		want := slices.Sorted(slices.Values(append(slices.Clone(base), strings.Fields(c.base)...)))
		if have := slices.Sorted(slices.Values(names(got.Base))); !slices.Equal(have, want) {
			t.Errorf("%+v: base\n got %v\nwant %v", c.p, have, want)
		}
		if have := names(got.Agent); !slices.Equal(have, strings.Fields(c.agent)) {
			t.Errorf("%+v: agent\n got %v\nwant %v", c.p, have, c.agent)
		}
		for _, name := range names(slices.Concat(got.Base, got.Agent, got.Left)) {
			if process.Refused(name) {
				t.Errorf("%+v: %s is among the lists", c.p, name)
			}
		}
	}
}

// TestControls: what tells a CI system what to do, and our own settings, reach nobody, whatever a setting asks for.
func TestControls(t *testing.T) {
	names := strings.Fields(`GITHUB_ENV GITHUB_PATH GITHUB_OUTPUT GITHUB_STATE GITHUB_STEP_SUMMARY FORGEJO_ENV GITEA_PATH
		ACTIONS_RUNTIME_URL ACTIONS_ID_TOKEN_REQUEST_URL BUILDKITE_ENV_FILE BUILDKITE_AGENT_JOB_API_SOCKET DRONE_OUTPUT
		BITBUCKET_PIPELINES_VARIABLES_PATH DESCARTES_NOTIFY DESCARTES_FLEET_GIT_TOKEN DESCARTES_FLEET_KEY DESCARTES_TRUST`)
	var env []string
	for _, name := range names {
		env = append(env, name+"=x")
	}
	env = append(env, "GITHUB_ACTIONS=true", "GITHUB_SHA=1", "DESCARTES_TASK_ID=1")
	for _, p := range []Passing{{}, {Strict: true}, {Pass: names, Own: names}, {Strict: true, Pass: names}} {
		got := p.Part(env)
		if slices.Sort(names); !slices.Equal(slices.Sorted(slices.Values(got.Never)), names) {
			t.Errorf("%+v: never passed on are %v, want %v", p, got.Never, names)
		}
	}
}

// TestSecretsStay plants forty secrets: no verify command gets one, and no agent that it is not for.
func TestSecretsStay(t *testing.T) {
	var env []string
	for _, name := range strings.Fields(`AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AZURE_CLIENT_SECRET GOOGLE_APPLICATION_CREDENTIALS GITHUB_TOKEN GH_TOKEN
		GITLAB_TOKEN CI_JOB_TOKEN ACTIONS_RUNTIME_TOKEN ACTIONS_ID_TOKEN_REQUEST_TOKEN NPM_TOKEN NODE_AUTH_TOKEN npm_config__authToken NPM_CONFIG_TOKEN PYPI_TOKEN TWINE_PASSWORD UV_PUBLISH_TOKEN POETRY_PYPI_TOKEN_PYPI
		PIP_PASSWORD CARGO_REGISTRY_TOKEN DOCKER_PASSWORD DOCKER_AUTH_CONFIG KUBECONFIG_DATA VAULT_TOKEN SLACK_BOT_TOKEN STRIPE_SECRET_KEY DATABASE_URL PGPASSWORD MYSQL_PWD REDIS_URL
		SENTRY_AUTH_TOKEN DATADOG_API_KEY SSH_PRIVATE_KEY GPG_PASSPHRASE ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN OPENAI_API_KEY GEMINI_API_KEY HF_TOKEN MISE_GITHUB_TOKEN
		CONDA_TOKEN NIX_ACCESS_TOKENS SCCACHE_AWS_SECRET_KEY SSH_AUTH_SOCK GIT_ASKPASS CMAKE_API_KEY`) {
		env = append(env, name+"=planted")
	}
	if len(env) < 40 {
		t.Fatalf("%d secrets only", len(env))
	}
	for _, c := range []struct{ backend, agent string }{
		{"claude", "ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN"},
		{"codex", "OPENAI_API_KEY"},
		{"gemini", "GOOGLE_APPLICATION_CREDENTIALS GEMINI_API_KEY"},
	} {
		got := Passing{Backend: c.backend, Strict: true}.Part(env)
		if len(got.Base) > 0 {
			t.Errorf("%s: everybody gets %v", c.backend, names(got.Base))
		}
		if have := names(got.Agent); !slices.Equal(have, strings.Fields(c.agent)) {
			t.Errorf("%s: got %v, want %v", c.backend, have, c.agent)
		}
	}
}

// TestPartOpen passes on everything but credentials, the keys of other providers, and what nobody gets.
func TestPartOpen(t *testing.T) {
	env := strings.Fields(`PATH=p MYAPP_MODE=m AWS_PROFILE=dev AWS_SECRET_ACCESS_KEY=x DATABASE_URL=plain STRIPE_KEY=secret ANTHROPIC_API_KEY=k ANTHROPIC_BASE_URL=u
		OPENAI_API_KEY=k OPENAI_ORG=o GIT_DIR=x NODE_OPTIONS=n SSH_AUTH_SOCK=s EMPTY_KEY= OWN_KEY=secret`)
	p := Passing{Backend: "claude", Own: []string{"OWN_*"}, Credential: func(_, value string) bool {
		return value == "secret"
	}}
	got := p.Part(env)
	for _, c := range []struct {
		what      string
		have      []string
		wantNames string
	}{
		{"base", names(got.Base), "PATH MYAPP_MODE AWS_PROFILE DATABASE_URL ANTHROPIC_BASE_URL OPENAI_ORG EMPTY_KEY"},
		{"agent", names(got.Agent), "ANTHROPIC_API_KEY OWN_KEY"},
		{"left", got.Names(), "AWS_SECRET_ACCESS_KEY OPENAI_API_KEY STRIPE_KEY"},
		{"never", got.Never, "GIT_DIR NODE_OPTIONS SSH_AUTH_SOCK"},
	} {
		if !slices.Equal(c.have, strings.Fields(c.wantNames)) {
			t.Errorf("%s: got %v, want %v", c.what, c.have, c.wantNames)
		}
	}
	p.Pass = []string{"STRIPE_*", "GIT_*"}
	if got := p.Part(env); !slices.Contains(names(got.Base), "STRIPE_KEY") ||
		slices.Contains(names(got.Base), "GIT_DIR") {
		t.Errorf("passed on besides: %v", names(got.Base))
	}
}

func TestHosts(t *testing.T) {
	list := []string{"api.example.org", "*.example.net", "10.0.0.7", "git.example.com:22", "[::1]:8080", "*.0.0.1"}
	for _, c := range []struct {
		host, port string
		want       bool
	}{
		{"api.example.org", "443", true}, {"api.example.org", "80", true}, {"api.example.org", "22", false},
		{"x.api.example.org", "443", false},
		{"a.example.net", "443", true}, {"a.b.example.net", "443", true}, {"example.net", "443", false},
		{"badexample.net", "443", false},
		{"10.0.0.7", "443", true}, {"10.0.0.8", "443", false}, {"git.example.com", "22", true},
		{"git.example.com", "443", false}, {"::1", "8080", true},
		{"127.0.0.1", "443", false},
	} {
		if got := allowed(list, c.host, c.port); got != c.want {
			t.Errorf("%s:%s: got %v", c.host, c.port, got)
		}
	}
	for word, want := range map[string]bool{"a.org": true, "*.a.org": true, "a.org:8443": true, "10.0.0.7": true,
		"[::1]:80": true, "": false, "http://x": false, "a b": false, "*": false, "a.org:x": false, "a/b": false} {
		if got := ValidHost(word); got != want {
			t.Errorf("ValidHost(%q) = %v", word, got)
		}
	}
}
