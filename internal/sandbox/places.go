package sandbox

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"descartes/agent/process"
	"descartes/internal/oscall"
	"descartes/internal/plainfile"
	"descartes/internal/proc"
)

// secrets are stores of credentials, and histories that hold some, below a
// home. They cannot be read in a sandbox.
func secrets() []string {
	return []string{
		".ssh", ".aws", ".gnupg", ".netrc", ".kube", ".npmrc", ".pypirc", ".git-credentials", ".azure", ".oci",
		".vault-token",
		".password-store", ".docker/config.json", ".docker/run", ".docker/contexts", ".colima", ".terraform.d",
		".terraformrc",
		".config/gh", ".config/hub", ".config/glab-cli", ".config/git/credentials", ".config/gcloud", ".config/op",
		".config/rclone",
		".config/doctl", ".config/heroku", ".config/containers", ".config/sops", ".config/age",
		".config/google-chrome", ".config/chromium",
		".config/systemd", ".config/autostart", ".local/share/keyrings", ".local/share/kwalletd", ".mozilla",
		".thunderbird", ".pki",
		".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".composer/auth.json",
		".m2/settings-security.xml",
		".m2/settings.xml", ".yarnrc", ".yarnrc.yml", ".wgetrc", ".env", ".gradle/gradle.properties",
		".gradle/develocity/keys.properties",
		".gradle/enterprise/keys.properties", ".cache/huggingface/token", ".cache/huggingface/stored_tokens",
		".huggingface/token", ".huggingface/stored_tokens",
		".ivy2/.credentials", ".sbt/.credentials", ".coursier/credentials.properties",
		".config/coursier/credentials.properties", ".hex/hex.config",
		".pub-cache/credentials.json", ".config/dart/pub-credentials.json", ".config/dart/pub-tokens.json",
		".config/composer/auth.json", ".local/share/gem/credentials",
		".bundle/config", ".julia/servers", ".local/share/uv/credentials", ".config/pypoetry/auth.toml",
		".config/configstore", ".config/netlify", ".netlify",
		".config/twine", ".config/nats", ".config/helm", ".config/syncthing", ".local/state/syncthing", ".mutt",
		".muttrc", ".config/mutt", ".config/neomutt",
		".config/BraveSoftware", ".config/microsoft-edge", ".config/vivaldi", ".config/opera", ".librewolf",
		"snap/firefox", "snap/chromium",
		".config/Bitwarden", ".config/Bitwarden CLI", ".config/1Password", ".authinfo", ".authinfo.gpg",
		".config/hcloud", ".config/linode-cli",
		".pgpass", ".my.cnf", ".s3cfg", ".boto", ".fly", ".config/fly", ".wrangler", ".databrickscfg", ".snowflake",
		".local/state/descartes", ".local/state/descartes-fleet", ".config/stripe", ".config/ngrok", ".ngrok2",
		".config/vercel", ".local/share/com.vercel.cli", ".config/pulumi", ".pulumi/credentials.json",
		".config/github-copilot", ".msmtprc", ".config/msmtp", ".electrum", ".bitcoin", ".ethereum/keystore",
		".config/solana", ".config/Exodus",
		".config/temporalio", "Library/Application Support/temporalio", ".config/Code/User/globalStorage",
		".config/Cursor/User/globalStorage",
		"Library/Cookies", "Library/Safari", "Library/Mail", "Library/Messages",
		"Library/Application Support/Google/Chrome", "Library/Application Support/Chromium",
		"Library/Application Support/Firefox", "Library/Application Support/BraveSoftware",
		"Library/Application Support/Microsoft Edge", "Library/Application Support/Arc",
		"Library/Application Support/1Password", "Library/Group Containers/2BUA8C4S2C.com.1password",
		"Library/Application Support/Bitwarden",
		"Library/Application Support/com.apple.TCC", "Library/LaunchAgents", "Library/Containers/com.docker.docker",
		"Library/Application Support/Code/User/globalStorage", "Library/Application Support/Cursor/User/globalStorage",
		".bash_history", ".zsh_history", ".psql_history", ".mysql_history", ".python_history", ".node_repl_history",
		".local/share/fish/fish_history",
	}
}

// system are the folders that programs are installed in: all that a strict
// sandbox has of the machine. Elsewhere lie other people's work and sockets.
func system() []string {
	return []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu",
		"/snap", "/sys"}
}

// secretVars name places of such stores, by a variable.
func secretVars() []string {
	return strings.Fields(`
SSH_AUTH_SOCK GNUPGHOME KUBECONFIG NETRC AWS_SHARED_CREDENTIALS_FILE AWS_CONFIG_FILE DOCKER_CONFIG
CLOUDSDK_CONFIG NPM_CONFIG_USERCONFIG PASSWORD_STORE_DIR GH_CONFIG_DIR AZURE_CONFIG_DIR HF_TOKEN_PATH
PGPASSFILE RCLONE_CONFIG BOTO_CONFIG TF_CLI_CONFIG_FILE
DESCARTES_FLEET_KEY_FILE TEMPORAL_CONFIG_FILE TEMPORAL_TLS_CLIENT_KEY_PATH
`)
}

// caches are what build tools write below a home: what they fetched and built, not the folders beside it whose
// scripts, settings and programs run by themselves at the user's next call (~/.gradle/init.d, ~/.sbt/1.0, ~/.deno/bin
// and the like).
func caches() []string {
	return append(strings.Fields(`
.cache Library/Caches go/pkg .npm .cargo/registry .cargo/git .cargo/.package-cache .cargo/.package-cache-mutate
.cargo/.global-cache .m2/repository .yarn/cache .yarn/berry/cache .pnpm-store .local/share/pnpm/store
.bun/install/cache .nuget/packages .ivy2/cache .ivy2/local .sbt/boot .coursier/cache .bundle/cache
.composer/cache .pub-cache/hosted .pub-cache/hosted-hashes .pub-cache/git .pub-cache/_temp .hex/packages
.stack/pantry .stack/snapshots .cabal/packages .node-gyp .konan/cache .ccache .local/share/NuGet .julia/packages
.julia/compiled .julia/artifacts .julia/registries .julia/scratchspaces .julia/logs
`), below(".gradle", gradleCaches())...)
}

// launched are places in caches with programs that run outside later without being built again: those of git hooks, of
// shells and of launchers. Each has the launcher that makes it; "" for one that a shell or an editor keeps. A star at
// the end stands for any end of a name that is there.
func launched() [][2]string {
	return [][2]string{{".cache/pre-commit", "pre-commit"}, {".cache/prek", "prek"}, {".cache/trunk", "trunk"},
		{".npm/_npx", "npx"}, {".cache/pnpm/dlx", "pnpm"},
		{".cache/node/corepack", "corepack"}, {".cache/pipx", "pipx"}, {".cache/bazelisk", "bazelisk"},
		{"Library/Caches/bazelisk", "bazelisk"},
		{"Library/Caches/pnpm/dlx", "pnpm"}, {".cache/gitstatus", ""}, {".cache/zsh", ""}, {".cache/oh-my-zsh", ""},
		{".cache/antidote", ""}, {".cache/wal", ""},
		{".cache/p10k-*", ""}, {".cache/zcompdump*", ""}, {".cache/prezto", ""}, {".cache/zsh4humans", ""},
		{".cache/fish", ""}, {".cache/nvim/luac", ""}}
}

// refetched are those of them that a launcher fills again from what it fetched.
var refetched = []string{".npm/_npx", ".cache/pnpm/dlx", ".cache/pipx"}

// gradleCaches are those of a gradle user home. Its wrapper/dists, which gradlew runs, is none.
func gradleCaches() []string {
	return []string{"caches", "daemon", "native", "notifications", "workers", "kotlin-profile", ".tmp"}
}

func below(dir string, names []string) (paths []string) {
	for _, name := range names {
		paths = append(paths, filepath.Join(dir, name))
	}
	return paths
}

// cacheVars name such places by a variable.
func cacheVars() []string {
	return strings.Fields(`
GOCACHE GOMODCACHE XDG_CACHE_HOME npm_config_cache NPM_CONFIG_CACHE PIP_CACHE_DIR UV_CACHE_DIR
YARN_CACHE_FOLDER CCACHE_DIR SCCACHE_DIR GOLANGCI_LINT_CACHE DENO_DIR NUGET_PACKAGES POETRY_CACHE_DIR
PLAYWRIGHT_BROWSERS_PATH CYPRESS_CACHE_FOLDER COMPOSER_CACHE_DIR
`)
}

// caches are the places of caches.
func (b *Box) caches() []string {
	list := b.at(caches()...)
	for _, name := range cacheVars() {
		list = append(list, b.env[name])
	}
	return list
}

// toolchains are what build tools read below a home.
func toolchains() []string {
	return strings.Fields(`
.gitconfig .config/git/config .config/git/ignore .config/git/attributes .cargo/bin .cargo/config
.cargo/config.toml .cargo/env .rustup .pyenv .nvm .rbenv .nodenv .goenv .asdf .tool-versions .local/share/mise
.config/mise .volta .sdkman .jenv .fnm .local/share/fnm .local/share/uv .local/lib .bun/bin .dotnet .ghcup .opam
.elan .nix-profile .local/state/nix .config/go sdk
`)
}

// hide names what cannot be seen.
func (b *Box) hide() {
	if b.c.Mode == Strict && !within(b.home, b.c.Top) {
		b.add(b.home, hidden)
	}
	secret := b.at(secrets()...)
	if b.c.UID == 0 { // who could read what other users have
		homes, _ := filepath.Glob("/home/*")
		for _, home := range append(homes[:min(len(homes), 64)], "/root") {
			if home != b.home {
				secret = slices.Concat(secret, below(home, secrets()), below(home, kept()))
			}
		}
	}
	for _, path := range secret {
		b.conceal(path)
	}
	for _, name := range secretVars() {
		for _, path := range filepath.SplitList(b.env[name]) {
			b.conceal(path)
		}
	}
	// In /run lie sockets of other programs: containers, keys, desktops. What a
	// build needs of it comes back.
	for _, path := range []string{"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/opasswd",
		"/etc/security/opasswd", "/proc/kcore", "/run", "/var/run"} {
		b.add(path, hidden)
	}
	for _, path := range []string{"/run/systemd/resolve/stub-resolv.conf", "/run/systemd/resolve/resolv.conf",
		"/run/resolvconf/resolv.conf",
		"/run/NetworkManager/resolv.conf", "/run/NetworkManager/no-stub-resolv.conf", "/run/current-system",
		"/run/opengl-driver", "/run/wrappers"} {
		b.add(path, readable)
	}
	real, err := filepath.EvalSymlinks(b.env["TMPDIR"])
	if err == nil && !within(real, b.c.Top) && !within(b.home, real) && !private(real) {
		b.add(real, hidden)
	}
}

// open names what may be written besides the tree, and what is seen of a home
// that is empty otherwise.
func (b *Box) open() {
	b.login()
	b.makeCaches()
	switch {
	case b.c.CacheLayers != "":
		b.layCaches()
	case b.c.Cache == "" && b.c.Mode == Auto && b.c.Role != HeldOut: // nothing runs in it yet
		for _, path := range b.caches() {
			b.add(path, writable)
		}
	default: // what a cache is given others would run later, or read
		for _, path := range b.caches() {
			b.add(path, readable)
		}
	}
	b.launchers()
	if b.c.Mode == Strict {
		for _, path := range below(b.home, toolchains()) {
			b.add(path, readable)
		}
	}
	for _, dir := range filepath.SplitList(b.env["PATH"]) {
		b.show(dir)
	}
	if b.c.Mode == Auto {
		b.show(b.home)
	}
	b.program()
	for _, word := range b.c.Named {
		granted := slices.ContainsFunc(b.c.Write, func(dir string) bool { return within(word, dir) })
		if info, err := os.Stat(word); err == nil && info.Mode().IsRegular() && filepath.IsAbs(word) && !granted {
			b.show(word)
		}
	}
	for _, path := range b.c.Read {
		b.add(path, regained)
	}
	for _, path := range b.c.Write {
		if path != procDir { // the machine's stays outside
			b.add(path, granted)
		}
	}
}

// launchers lets commands run the programs that are in caches, and change none that runs outside later. Those that a
// launcher fetches again come from a place of the run's own.
func (b *Box) launchers() {
	own := b.c.Cache != "" && b.c.Mode == Auto && b.c.Role != HeldOut && b.c.Mounts()
	for _, l := range launched() {
		name, program := l[0], l[1]
		_, rest, _ := strings.Cut(name, "/")
		for _, path := range b.at(name) {
			_, err := os.Stat(strings.TrimSuffix(path, "/"+rest))
			if err == nil && b.c.Cache != "" && program != "" && b.installed(program) {
				_ = os.MkdirAll(path, 0o755) // else an agent could make it
			}
			from := filepath.Join(b.c.Cache, "own-"+filepath.Base(name))
			real, ok := b.resolve(path)
			if ok && own && slices.Contains(refetched, name) && os.MkdirAll(from, 0o700) == nil {
				b.mounts = append(b.mounts, mount{path: real, how: writable, from: from})
				continue
			}
			dir, pattern := filepath.Split(path)
			found, _ := fs.Glob(os.DirFS(dir), pattern)
			for _, name := range found {
				b.add(dir+name, readable)
			}
		}
	}
	b.add(b.env["PRE_COMMIT_HOME"], readable)
}

func (b *Box) installed(program string) bool {
	_, err := proc.Look(program, "/", b.c.Env)
	return err == nil
}

// makeCaches gives the build tools that are here a place for their caches where the home lacks it: in one that is
// read-only they could make none. It is a folder of the run, which a variable leads them to; nothing is made in the
// home but what a tool's own folder there lacks. Without layers all caches are such folders, and the user's are read
// where a tool knows how.
func (b *Box) makeCaches() {
	if b.c.Cache == "" || b.c.Mode != Auto || b.c.Role == HeldOut || b.home == "" {
		return
	}
	layered := b.c.CacheLayers != ""
	for _, path := range append(below(filepath.Join(b.home, ".gradle"), gradleCaches()),
		below(filepath.Join(b.home, ".cargo"), []string{"registry", "git"})...) {
		_ = os.Mkdir(path, 0o755)
	}
	for _, t := range []struct{ program, set, folder string }{
		{"", "XDG_CACHE_HOME=", ".cache"}, {"go", "GOMODCACHE=", "go/pkg"}, {"npm", "npm_config_cache=", ".npm"},
		{"cargo", "CARGO_HOME=", ".cargo"},
		{"mvn", "MAVEN_ARGS=-Dmaven.repo.local=", ".m2/repository"}, {"gradle", "GRADLE_USER_HOME=", ".gradle"},
		{"dotnet", "NUGET_PACKAGES=", ".nuget/packages"},
	} {
		name, _, _ := strings.Cut(t.set, "=")
		at := filepath.Join(b.home, t.folder)
		_, err := os.Lstat(at)
		if layered && (err == nil || b.env[name] != "" || t.program == "go" && b.env["GOPATH"] != "") ||
			t.program != "" && !b.installed(t.program) {
			continue
		}
		dir := filepath.Join(b.c.Cache, name)
		if os.MkdirAll(dir, 0o700) != nil {
			continue
		}
		b.add(dir, granted)
		b.instead = append(b.instead, t.set+dir)
		if !layered && err == nil {
			b.instead = append(b.instead, b.fill(t.program, at, dir)...)
		}
	}
	if dir := filepath.Join(b.c.Cache, "GOCACHE"); !layered && b.env["GOCACHE"] != "" && os.MkdirAll(dir, 0o700) == nil {
		b.add(dir, granted)
		b.instead = append(b.instead, "GOCACHE="+dir)
	}
}

// fill is how a tool with a cache of its own reads the user's at a place, as variables.
func (b *Box) fill(program, at, own string) []string {
	switch program {
	case "go":
		from := cmp.Or(b.env["GOMODCACHE"], filepath.Join(cmp.Or(b.env["GOPATH"], filepath.Dir(at)), "pkg", "mod"))
		return []string{"GOPROXY=file://" + filepath.Join(from, "cache", "download") + "," +
			cmp.Or(b.env["GOPROXY"], "https://proxy.golang.org,direct"),
			"GOFLAGS=" + strings.TrimSpace(b.env["GOFLAGS"]+" -modcacherw")}
	case "mvn":
		return []string{"MAVEN_ARGS=-Dmaven.repo.local=" + own + " -Dmaven.repo.local.tail=" + at}
	case "gradle":
		return []string{"GRADLE_RO_DEP_CACHE=" + filepath.Join(at, "caches")}
	case "cargo":
		for _, name := range []string{"config.toml", "config"} {
			if text, err := os.ReadFile(filepath.Join(at, name)); err == nil {
				_ = os.WriteFile(filepath.Join(own, name), text, 0o600)
			}
		}
	}
	return nil
}

// layCaches lays a folder of the run over each of the user's caches: what is written there, and removed, stays there.
func (b *Box) layCaches() {
	var dirs []string
	for _, path := range b.caches() {
		real, ok := b.resolve(path)
		if !ok || within(real, b.c.Top) || within(b.c.Top, real) || within(b.c.CacheLayers, real) {
			continue
		}
		if fi, err := os.Stat(real); err != nil || !fi.IsDir() {
			b.ownFile(real)
			continue
		}
		dirs = append(dirs, real)
	}
	slices.Sort(dirs)
	for _, dir := range slices.Compact(dirs) {
		if n := len(b.layers); n > 0 && within(dir, b.layers[n-1].At) {
			continue
		}
		sum := sha256.Sum256([]byte(dir))
		at := filepath.Join(b.c.CacheLayers, hex.EncodeToString(sum[:6]))
		layer := process.Layer{At: dir, Lower: []string{dir}, Upper: filepath.Join(at, "up"), Work: filepath.Join(at, "work")}
		if os.MkdirAll(layer.Upper, 0o700) != nil || os.MkdirAll(layer.Work, 0o700) != nil {
			b.add(dir, readable)
			continue
		}
		b.layers = append(b.layers, layer)
		b.add(dir, writable)
	}
}

// mostCached bounds a file beside caches that a command gets a copy of.
const mostCached = 64 << 20

// ownFile gives commands a copy of a file beside caches, such as a lock.
func (b *Box) ownFile(real string) {
	text, err := plainfile.Read("", real, mostCached)
	if err != nil {
		return
	}
	sum := sha256.Sum256([]byte(real))
	at := filepath.Join(b.c.CacheLayers, hex.EncodeToString(sum[:6]))
	if _, err := os.Lstat(at); err != nil && os.WriteFile(at, text, 0o600) != nil {
		return
	}
	b.mounts = append(b.mounts, mount{path: real, how: writable, from: at, file: true})
}

// private reports whether a place is in a folder of temporary files, of which each command has its own.
func private(path string) bool { return within(path, insideTmp) || within(path, insideVarTmp) }

// show makes a place readable that is in a hidden one.
func (b *Box) show(path string) {
	real, ok := b.resolve(path)
	if !ok || within(real, b.c.Top) {
		return
	}
	in, ok := b.nearest(real)
	if ok && in.how == hidden && in.path != real || private(filepath.Dir(real)) || !ok && b.strange(real) {
		b.add(real, readable)
	}
}

// strange reports whether a place is none of the system's, of which alone a strict sandbox shows all.
func (b *Box) strange(real string) bool {
	return b.c.Mode == Strict && !slices.ContainsFunc(system(), func(dir string) bool { return within(real, dir) })
}

// Hides reports whether there is such a file, and commands do not see it.
func (b *Box) Hides(path string) bool {
	info, err := os.Stat(path)
	real, ok := b.resolve(path)
	if err != nil || !info.Mode().IsRegular() || !ok || b.c.Mode == Off || within(real, b.c.Top) {
		return false
	}
	if in, ok := b.nearest(real); ok {
		return in.how == hidden
	}
	return private(real) || b.strange(real)
}

// program makes the agent's program visible, wherever it lies, with what is beside it where that may be part of it:
// the packages that it is made of, the folder that a link leads into, and one of the user's own among temporary files,
// but in a strict sandbox.
func (b *Box) program() {
	path := b.c.Program
	real, ok := b.resolve(path)
	if !ok {
		return
	}
	b.show(path)
	if at := strings.LastIndex(real, "/node_modules/"); at > 0 {
		b.show(real[:at] + "/node_modules")
	}
	dir := filepath.Dir(real)
	linked := dir != filepath.Dir(path)
	var st oscall.Stat_t
	mine := b.c.Mode == Auto && private(filepath.Dir(dir)) && oscall.Lstat(dir, &st) == nil && int(st.Uid) == b.c.UID
	if (linked || mine) && !within(b.home, dir) { // what is secret in a home is not to be seen by this
		b.show(dir)
	}
}

// view puts a working copy in the place of the working tree and confines nothing, but .descartes is read-only there:
// it is the loop's own, and a git clean would empty it.
func (b *Box) view() {
	b.mounts = append(b.mounts, mount{path: b.c.Top, how: writable, from: b.c.Slot.Tree})
	b.add(filepath.Join(b.c.Root, ".descartes"), readable)
	for link, dir := range b.c.Slot.Objects {
		if link != dir {
			b.add(filepath.Dir(link), hidden)
		}
	}
	b.shown()
}

// slot puts a working copy in the place of the working tree. Of .descartes there is only what is shown. Its .git is
// the agent's.
func (b *Box) slot() {
	cache, err := filepath.EvalSymlinks(b.c.Cache) // it may lie in .descartes
	b.mounts = slices.DeleteFunc(b.mounts, func(m mount) bool {
		return within(m.path, b.c.Top) && m.how != hidden && (err != nil || !within(m.path, cache))
	})
	b.mounts = append(b.mounts, mount{path: b.c.Top, how: writable, from: b.c.Slot.Tree})
	b.add(filepath.Join(b.c.Root, ".descartes"), hidden)
	b.add(filepath.Join(b.c.Top, ".descartes"), hidden)
}

// copied is where a slot has a path of the working tree.
func (b *Box) copied(path string) string { return b.c.Slot.Tree + strings.TrimPrefix(path, b.c.Top) }

// shown is what a slot's commands see of the pool: their own files, and what the slot's .git borrows from.
func (b *Box) shown() {
	for _, dir := range b.c.Slot.Shown {
		b.add(dir, readable)
	}
	for link, dir := range b.c.Slot.Objects {
		b.mounts = append(b.mounts, mount{path: link, how: readable, from: dir})
	}
}

// held hides the held-out checks with all that could tell of them: what they printed and built, and the copies of the
// project that they ran in.
func (b *Box) held() {
	h := b.c.Held
	if h.Dir == "" {
		return
	}
	if b.c.Cache != "" {
		h.begin()
	}
	if b.c.Role == HeldOut {
		b.add(h.Dir, regained)
		b.add(h.builds(), granted)
		return
	}
	b.add(h.Dir, hidden)
	b.add(h.Own, hidden)
}

// here names the working tree where it is no slot. The repository is for reading, wherever it lies: nobody commits
// beside us.
func (b *Box) here() {
	b.add(b.c.Top, writable)
	dot := filepath.Join(b.c.Top, ".git")
	b.add(dot, readable)
	if dir := pointed(dot, "gitdir: "); dir != "" {
		b.add(dir, readable)
		b.add(pointed(filepath.Join(dir, "commondir"), ""), readable)
	}
}

// pointed is the path in a file of git's that holds one, relative to where it lies; "" where there is none.
func pointed(file, prefix string) string {
	if !regular(file) {
		return ""
	}
	text, _ := os.ReadFile(file)
	path, ok := strings.CutPrefix(strings.TrimSpace(string(text)), prefix)
	switch {
	case !ok || path == "":
		return ""
	case !filepath.IsAbs(path):
		return filepath.Join(filepath.Dir(file), path)
	}
	return path
}

// own names what is ours in a working tree: a slot has it from the user's, read-only.
func (b *Box) own() {
	ours := []string{".scud", ".descartes", "descartes.yaml"}
	for _, path := range slices.Concat(below(b.c.Root, ours), below(b.c.Top, ours), b.c.Keep) {
		real, err := filepath.EvalSymlinks(path)
		if err != nil || !within(filepath.Dir(real), b.c.Top) {
			continue
		}
		place, from := real, b.copied(real)
		switch {
		case b.c.Slot.Tree == "":
			from = ""
		case !b.c.Mounts():
			place, from = from, ""
		case !regular(real) || !regular(from): // the loop may replace a file of the user's while this sandbox is made
			from = ""
		}
		// A file that is replaced while a sandbox is made is no place for a mount; its folder is.
		in, ok := b.nearest(place)
		if ok && in.how == readable {
			continue
		}
		n := len(b.mounts)
		if b.add(place, readable); n < len(b.mounts) {
			b.mounts[n].from = from
		}
	}
}

func regular(path string) bool {
	fi, err := os.Lstat(path)
	return err == nil && fi.Mode().IsRegular()
}

// sockets are those of other programs that lie outside what is hidden anyway.
func (b *Box) sockets() {
	list, _ := os.ReadFile("/proc/net/unix")
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		if len(fields) < 8 || len(b.mounts) > mostMounts {
			continue
		}
		path := filepath.Clean(fields[7])
		in, ok := b.nearest(path)
		if within(path, b.c.Top) || ok && in.how != readable || !ok && private(path) {
			continue
		}
		b.add(path, hidden)
	}
}

// mostMounts bounds what the sockets of a machine make of a command line.
const mostMounts = 1000
