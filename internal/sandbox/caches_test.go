package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What a tool fetched may be written in auto; what runs by itself at its next call may not, and a home without caches
// stays without.
func TestCaches(t *testing.T) {
	t.Parallel()
	home, top, bin := t.TempDir(), t.TempDir(), t.TempDir()
	for _, dir := range []string{".gradle/init.d", ".gradle/wrapper/dists", ".julia/config", ".julia/packages",
		".sbt/1.0", ".sbt/boot", ".mix/archives", ".deno/bin",
		".cache/pre-commit/repo", ".cache/gitstatus", ".cache/p10k-instant-prompt-me.zsh", ".cache/zcompdump-x",
		".cache/pip", ".npm/_npx/x", ".npm/_cacache",
		".pub-cache/bin", ".pub-cache/hosted", ".yarn/bin", ".yarn/berry/cache", ".cargo/bin", "go/bin"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range []string{"go", "npm", "mvn", "cargo", "prek"} {
		if err := os.WriteFile(filepath.Join(bin, program), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cache := filepath.Join(t.TempDir(), "cache")
	config := Config{Mode: Auto, Root: top, Top: top, Env: []string{"HOME=" + home, "PATH=" + bin}, Cache: cache,
		CacheLayers: filepath.Join(t.TempDir(), "layers"), UID: 1000, Bwrap: "bwrap"}
	box, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		".gradle/init.d": false, ".gradle/wrapper/dists": false, ".gradle/caches": true, ".gradle/daemon": true,
		".gradle/init.gradle": false,
		".julia/config":       false, ".julia/packages": true, ".sbt/1.0": false, ".sbt/boot": true,
		".mix/archives": false, ".deno/bin": false,
		".cache/pre-commit": false, ".cache/pre-commit/repo": false, ".cache/gitstatus": false,
		".cache/p10k-instant-prompt-me.zsh": false, ".cache/zcompdump-x": false, ".cache/pip": true,
		".npm/_cacache": true,
		".cache/prek":   false, ".cache/bazelisk": true, // only one of them is installed
		".pub-cache/bin": false, ".pub-cache/hosted": true, ".yarn/bin": false, ".yarn/berry/cache": true,
		".cargo/bin": false, ".cargo/registry": true, "go/bin": false,
	} {
		in, ok := box.nearest(filepath.Join(home, path))
		if got := ok && in.how.writes(); got != want {
			t.Errorf("%s may be written: %v, want %v", path, got, want)
		}
	}
	line := strings.Join(box.Wrap(t.TempDir()), " ")
	for _, want := range []string{"--setenv GOMODCACHE " + cache + "/GOMODCACHE",
		"--bind " + cache + "/own-_npx " + home + "/.npm/_npx",
		"--setenv MAVEN_ARGS -Dmaven.repo.local=" + cache + "/MAVEN_ARGS", "--bind " + cache + "/GOMODCACHE"} {
		if !strings.Contains(line, want) {
			t.Errorf("no %q in %s", want, line)
		}
	}
	if strings.Contains(line, "CARGO_HOME") {
		t.Error("a cargo home that is there is not used")
	}
	for _, l := range box.Limits(t.TempDir()).Layers {
		if !strings.HasPrefix(l.At, home) || !strings.HasPrefix(l.Upper, config.CacheLayers) || l.Lower[0] != l.At {
			t.Errorf("a layer is %+v", l)
		}
	}
	config.CacheLayers = "" // caches are read then, where a tool knows how
	if box, err = New(config); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{".cache/pip", ".npm/_cacache", ".cargo/registry"} {
		if in, ok := box.nearest(filepath.Join(home, path)); ok && in.how.writes() {
			t.Errorf("%s may be written without layers", path)
		}
	}
	line = strings.Join(box.Wrap(t.TempDir()), " ")
	for _, want := range []string{"--setenv XDG_CACHE_HOME " + cache + "/XDG_CACHE_HOME", "--setenv CARGO_HOME " + cache,
		"--setenv npm_config_cache " + cache} {
		if !strings.Contains(line, want) {
			t.Errorf("no %q in %s", want, line)
		}
	}
	entries, err := os.ReadDir(home)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if slices.Contains([]string{".m2"}, e.Name()) {
			t.Errorf("%s was made in the home", e.Name())
		}
	}
	if _, err := os.Lstat(filepath.Join(home, "go", "pkg")); err == nil {
		t.Error("go/pkg was made in the home")
	}
}

// A link that a command left in what it may write leads the next one nowhere: not to more that may be written, nor to
// what is hidden.
func TestLinksInCaches(t *testing.T) {
	t.Parallel()
	home, top, data := t.TempDir(), t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, ".ssh", "keys"), 0o700); err != nil {
		t.Fatal(err)
	}
	config := Config{Mode: Auto, Root: top, Top: top, Agent: "opencode", Cache: filepath.Join(t.TempDir(), "cache"),
		UID: 1000, Bwrap: "bwrap", Write: []string{data, data + "/in"},
		Env: []string{"HOME=" + home, "PATH=" + home + "/.cache/bin", "GOCACHE=" + home + "/.cache/go-build",
			"PIP_CACHE_DIR=" + top + "/.pip"}}
	for link, to := range map[string]string{home + "/.cache/go-build": home, home + "/.cache/opencode": home,
		home + "/.cache/pnpm": home + "/.ssh", home + "/.ssh/dlx": home + "/.ssh/keys",
		home + "/.cache/bin": home + "/.ssh/keys", data + "/in": home, top + "/.pip": home} {
		if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	config.Program = home + "/.cache/bin/agent"
	if err := os.WriteFile(config.Program, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	box, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	if in, _ := box.nearest(home + "/file"); in.how != readable {
		t.Errorf("the home can be written: %+v", in)
	}
	if in, _ := box.nearest(home + "/.ssh/keys/agent"); in.how != hidden {
		t.Errorf("a key is seen: %+v", in)
	}
}
