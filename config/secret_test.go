package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"descartes/agent"
)

func TestSecretsGuessed(t *testing.T) {
	t.Parallel()
	const key = "sk-ant-api03-Zx9Q"
	for _, tt := range []struct {
		kv   string
		want string // joined by a blank; "" for none
	}{
		{"ANTHROPIC_API_KEY=" + key, key},
		{"OPENAI_APIKEY=" + key, key},
		{"GITHUB_TOKEN=ghp_0123456789", "ghp_0123456789"},
		{"npm_config__authToken=npm_0123456789", "npm_0123456789"},
		{"AWS_SECRET_ACCESS_KEY=/abc+def/0123456789ABCDEF", "/abc+def/0123456789ABCDEF"},
		{"DB_PASSWORD=correcthorse", "correcthorse"},
		{"DB_PASSWD=31415926", "31415926"},
		{"PROXY_AUTH=Basic dXNlcjpwYXNzd29yZA==", "Basic dXNlcjpwYXNzd29yZA== dXNlcjpwYXNzd29yZA=="},
		{"AWS_CREDENTIALS=  " + key + "\n", key},
		{"DATABASE_URL=postgres://me:s3cr3t%2Fpw@host/db", "s3cr3t/pw s3cr3t%2Fpw"},
		{`GCP_CREDENTIALS={"type":"service_account","private_key":"-----BEGIN-----\nabc\n","client_email":"me@example.org","token_uri":"https://example.org/token"}`,
			`{"type":"service_account","private_key":"-----BEGIN-----\nabc\n","client_email":"me@example.org","token_uri":"https://example.org/token"} ` + "-----BEGIN-----\nabc\n"},
		{"MY_KEY=short", ""},
		{"HOME=/root/somewhere", ""},
		{"GIT_AUTHOR_NAME=Ada Lovelace", ""},
		{"GIT_AUTHOR_EMAIL=ada@example.org", ""},
		{"AUTHOR=Ada Lovelace 1815", ""},
		{"SSH_AUTH_SOCK=/tmp/agent.1", ""},
		{"XAUTHORITY=/root/.Xauthority", ""},
		{"SSH_KEY=~/.ssh/id_ed25519", ""},
		{"TLS_PRIVATE_KEY=/etc/hostname", ""},
		{"AUTH_URL=https://login.example.org/oauth", ""},
		{"OAUTH=https://login.example.org/oauth", ""},
		{"AUTH_TYPE=0123456789abc", ""},
		{"TOKEN_KIND=bearer-token", ""},
		{"USE_API_KEY=disabled", ""},
		{"REQUIRE_PASSWORD=required", ""},
		{"MAX_OUTPUT_TOKENS=64000000", ""},
		{"TOKEN_LINE=--------------", ""},
		{"MONKEY=bananas-and-more-1", ""},
		{"KEYBOARD=de-latin1-nodeadkeys", ""},
		{"KEY_LAYOUT=de-latin1-nodeadkeys", ""},
		{"PATH=/usr/bin:/bin", ""},
	} {
		var got []string
		for _, s := range new(Config).Secrets([]string{tt.kv}) {
			got = append(got, s.Value)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: got %q, want %q", tt.kv, got, tt.want)
		}
	}
}

func TestSecretsChosen(t *testing.T) {
	t.Parallel()
	environ := []string{"A_TOKEN=aaaa-0001", "B_TOKEN=bbbb-0002", "PIN=cccc-0003"}
	cfg := Config{Backend: BackendConfig{Environment: map[string]string{"C_TOKEN": "dddd-0004", "PLAIN": "eeee-0005"}},
		Backends: map[string]agent.Row{"x": {Env: map[string]string{"D_TOKEN": "ffff-0006"}}}}
	for words, want := range map[string]string{
		"":              "A_TOKEN B_TOKEN C_TOKEN D_TOKEN",
		"PIN !B_TOKEN":  "A_TOKEN C_TOKEN D_TOKEN PIN",
		"off":           "",
		"PLAIN missing": "A_TOKEN B_TOKEN C_TOKEN D_TOKEN PLAIN",
	} {
		cfg.Mask = strings.Fields(words)
		var got []string
		for _, s := range cfg.Secrets(environ) {
			got = append(got, s.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("mask %s: got %q, want %q", words, got, want)
		}
	}
}

// The state file has the names of secrets, and resuming finds their values again where they come from.
func TestHiddenConfig(t *testing.T) {
	t.Parallel()
	environ := []string{"A_TOKEN=aaaa-0001", "B_TOKEN=other-than-the-files"}
	cfg := Config{Command: "agent", Args: []string{"--key=aaaa-0001", "x"},
		Backend: BackendConfig{Environment: map[string]string{"B_TOKEN": "bbbb-0002", "PLAIN": "p"}},
		Backends: map[string]agent.Row{"y": {Command: []string{"y", "bbbb-0002"},
			Env: map[string]string{"C_TOKEN": "cccc-0003"}}, "z": {}}}
	cfg.Scud.VerificationCommand = "make TOKEN=aaaa-0001"
	was := Config{Backend: cfg.Backend, Backends: cfg.Backends}
	saved := Hide(cfg, cfg.Secrets(environ))
	if saved.Args[0] != "--key={secret:A_TOKEN}" || saved.Backend.Environment["B_TOKEN"] != "{secret:B_TOKEN}" ||
		saved.Backend.Environment["PLAIN"] != "p" ||
		saved.Backends["y"].Env["C_TOKEN"] != "{secret:C_TOKEN}" ||
		saved.Scud.VerificationCommand != "make TOKEN={secret:A_TOKEN}" {
		t.Errorf("saved: %+v", saved)
	}
	if cfg.Args[0] != "--key=aaaa-0001" || cfg.Backend.Environment["B_TOKEN"] != "bbbb-0002" {
		t.Errorf("hiding changed the settings themselves: %+v", cfg)
	}
	environ[1] = "B_TOKEN=bbbb-0002"
	got, missing := Reveal(saved, environ, was)
	if len(missing) > 0 || !reflect.DeepEqual(got, cfg) {
		t.Errorf("missing %q, got %+v\nwant %+v", missing, got, cfg)
	}
	if _, missing := Reveal(saved, nil, Config{}); strings.Join(missing, " ") != "A_TOKEN B_TOKEN C_TOKEN" {
		t.Errorf("missing %q", missing)
	}
}

// The state file knows whom to call, and not with which password.
func TestHiddenTargets(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{
		"https://me:hunter2@example.org/hook": "https://{secret:--notify}@example.org/hook",
		"https://token@example.org":           "https://{secret:--notify}@example.org",
		"https://example.org/hook@home":       "https://example.org/hook@home",
		"ntfy:me:hunter2@ntfy.example.org/x":  "ntfy:{secret:--notify}@ntfy.example.org/x",
		"slack:https://hooks.example.org/T/x": "slack:https://hooks.example.org/{secret:--notify}",
		"https://hooks.slack.com/services/T":  "https://hooks.slack.com/{secret:--notify}",
		"telegram:123:abc@42":                 "telegram:{secret:--notify}@42",
		"telegram:$TOKEN@42":                  "telegram:$TOKEN@42",
		"desktop":                             "desktop",
		"mail me@example.org":                 "mail me@example.org",
		"ntfy:topic":                          "ntfy:topic",
	} {
		cfg := Config{Notify: []string{"bell", target}}
		saved := Hide(cfg, nil)
		if saved.Notify[1] != want || cfg.Notify[1] != target {
			t.Errorf("%s: saved as %s, want %s", target, saved.Notify[1], want)
		}
		got, missing := Reveal(saved, nil, Config{Notify: []string{target}})
		if len(missing) > 0 || got.Notify[1] != target {
			t.Errorf("%s: revealed as %s, missing %q", target, got.Notify[1], missing)
		}
		if _, missing := Reveal(saved, nil, Config{}); (len(missing) == 1 &&
			missing[0] == "--notify") != (want != target) {
			t.Errorf("%s: missing %q", target, missing)
		}
	}
}

// A review by the run's own agent is named by its command, where the backend's name says nothing.
func TestPolicyReviewer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Command: "./agent.sh --fast", Backend: BackendConfig{Type: "generic"},
			ProofConfig: ProofConfig{Review: ReviewConfig{Prompt: "look"}}},
			"review: each task, by ./agent.sh --fast"},
		{Config{Command: "./agent.sh", Backend: BackendConfig{Type: "generic"},
			ProofConfig: ProofConfig{Review: ReviewConfig{Backend: "judge"}}}, "review: each task, by judge"},
		{Config{Backend: BackendConfig{Type: "claude"}, ProofConfig: ProofConfig{
			Review: ReviewConfig{Prompt: "look"}}}, "review: each task, by claude"},
	} {
		if !slices.ContainsFunc(Policy(&c.cfg, true), func(l Line) bool { return l.String() == c.want }) {
			t.Errorf("%v, want %s", Policy(&c.cfg, true), c.want)
		}
	}
}
