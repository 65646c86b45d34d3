//go:build linux

package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// logins are files below a home of which none may be read, by anybody but codex and opencode what is theirs. Some lie
// in folders that are shown.
func logins() []string {
	return []string{
		".gradle/gradle.properties", ".cache/huggingface/token", ".huggingface/token", ".m2/settings.xml",
		".m2/settings-security.xml",
		".yarnrc.yml", ".yarnrc", ".wgetrc", ".env", ".cargo/credentials", ".cargo/credentials.toml",
		".gem/credentials", ".terraform.d/plugin.cfg", ".netlify/config.json",
		".config/twine/x", ".config/nats/context/x.json", ".config/helm/repositories.yaml",
		".config/syncthing/key.pem", ".mutt/muttrc", ".local/share/fish/fish_history",
		".config/hub", ".config/glab-cli/config.yml", ".config/op/config", ".password-store/x.gpg", ".vault-token",
		".pgpass", ".my.cnf",
		".config/rclone/rclone.conf", ".boto", ".s3cfg", ".config/doctl/config.yaml", ".fly/config.yml",
		".config/heroku/x", ".mozilla/firefox/p/logins.json",
		".config/google-chrome/Default/Login Data", ".config/chromium/Default/Cookies",
		".local/share/keyrings/login.keyring",
		".hex/hex.config", ".ivy2/.credentials", ".local/share/uv/credentials/x", ".bundle/config",
		".codex/auth.json", ".local/share/opencode/auth.json", ".cache/opencode/x", ".gemini/oauth_creds.json",
		".qwen/oauth_creds.json",
		".copilot/config.json", ".config/github-copilot/apps.json", ".config/goose/config.yaml", ".cursor/x",
	}
}

// TestLogins reads every file of a home in either mode, as an agent and as the verify command: what is a login is seen
// by its own agent alone, or where the settings say so, and the rest as ever.
func TestLogins(t *testing.T) {
	for _, mode := range []Mode{Auto, Strict} {
		w := newWorld(t, mode)
		if w == nil {
			return
		}
		elsewhere := w.base + "/elsewhere"
		for _, file := range []string{"codex/auth.json", "config/gh/hosts.yml", "config/opencode/x",
			"data/opencode/auth.json", "gradle/gradle.properties", "hf/token", "g/.gemini/x"} {
			w.write(elsewhere+"/"+file, "SECRET\n")
		}
		w.write(elsewhere+"/gradle/caches/x", "x\n")
		moved := []string{"CODEX_HOME=" + elsewhere + "/codex", "XDG_CONFIG_HOME=" + elsewhere + "/config",
			"XDG_DATA_HOME=" + elsewhere + "/data",
			"GRADLE_USER_HOME=" + elsewhere + "/gradle", "HF_HOME=" + elsewhere + "/hf",
			"GEMINI_CLI_HOME=" + elsewhere + "/g"}
		for _, c := range []struct {
			name   string
			change func(*Config)
			want   string // the files with a secret that are seen
		}{
			{"claude", func(c *Config) {}, ""},
			{"codex", func(c *Config) { c.Agent = "codex" }, "home/.codex/auth.json"},
			{"opencode", func(c *Config) { c.Agent = "opencode" },
				"home/.cache/opencode/x home/.local/share/opencode/auth.json"},
			{"verify", func(c *Config) { c.Role = Verify }, ""},
			{"verify after codex", func(c *Config) { c.Role, c.Agent = Verify, "codex" }, ""},
			{"moved", func(c *Config) { c.Env = append(c.Env, moved...); c.Read = []string{elsewhere} }, ""},
			{"moved, codex", func(c *Config) {
				c.Env, c.Agent, c.Read = append(c.Env, moved...), "codex", []string{elsewhere}
			}, "elsewhere/codex/auth.json home/.codex/auth.json"},
			{"a home that a variable names", func(c *Config) {
				c.Env = append(c.Env, "GEMINI_CLI_HOME="+w.home, "DOCKER_CONFIG="+w.home)
			}, ""},
			{"folders above", func(c *Config) {
				c.Read, c.Write = []string{w.home}, []string{w.home + "/.m2", w.home + "/.gradle"}
			}, ""},
			{"sandbox_read", func(c *Config) {
				c.Read = []string{w.home + "/.m2/settings.xml", w.home + "/.gradle/gradle.properties",
					w.home + "/.codex", w.home + "/.config/gh"}
			}, "home/.codex/auth.json home/.config/gh/hosts.yml home/.gradle/gradle.properties home/.m2/settings.xml"},
		} {
			cfg := w.config(mode)
			c.change(&cfg)
			w.use(cfg)
			places := "home"
			if strings.HasPrefix(c.name, "moved") {
				places = "home elsewhere"
			}
			_, text := w.run("sh", "-c", `cd "$HOME/.." && grep -rls SECRET `+places+` | sort`)
			if got := strings.Join(strings.Fields(text), " "); got != c.want {
				t.Errorf("%s, %s: got %q, want %q", mode, c.name, got, c.want)
			}
			if e, text := w.run("sh", "-c", `cat "$HOME/.gradle/caches/x" "$HOME/.cache/x"`); e.Code != 0 ||
				text != "x\nx\n" {
				t.Errorf("%s, %s: the caches: %v, %q", mode, c.name, e, text)
			}
		}
	}
}

// TestBlank: where an empty file would end its reader, the least of its kind stands in for it; a folder named .env
// holds programs; what hides nothing more is no mount.
func TestBlank(t *testing.T) {
	w := newWorld(t, Auto)
	if w == nil {
		return
	}
	if _, text := w.run("sh", "-c",
		`cat "$HOME/.m2/settings.xml" "$HOME/.docker/config.json" "$HOME/.yarnrc.yml"; echo x 2>/dev/null >"$HOME/.m2/settings.xml" && echo written`); text != "<settings/>\n{}\n" {
		t.Errorf("got %q", text)
	}
	if err := os.Remove(w.home + "/.env"); err != nil {
		t.Fatal(err)
	}
	w.write(w.home+"/.env/bin/python", "x\n")
	for _, mode := range []Mode{Auto, Strict} {
		box, err := New(w.config(mode))
		if err != nil {
			t.Fatal(err)
		}
		mounted := func(name string) bool {
			in, _ := box.nearest(w.home + "/" + name)
			return in.path == w.home+"/"+name
		}
		env, ssh, gradle := mounted(".env"), mounted(".ssh"), mounted(".gradle/gradle.properties")
		// strict shows nothing of the folders that these lie in
		if env || ssh != (mode == Auto) || gradle != (mode == Auto) {
			t.Errorf("%s: .env %v, .ssh %v, gradle.properties %v", mode, env, ssh, gradle)
		}
	}
	cfg := w.config(Auto)
	cfg.Top, cfg.Root, cfg.Role = filepath.Join(w.home, ".codex"), filepath.Join(w.home, ".codex"), Verify
	box, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if m, _ := box.nearest(cfg.Top); m.how != writable {
		t.Errorf("the tree is hidden: %v", m)
	}
}
