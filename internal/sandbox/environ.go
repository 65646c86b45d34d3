package sandbox

import (
	"slices"
	"strings"

	"descartes/agent/process"
)

// Passing says which variables go on to agents and verify commands: all but credentials, other providers' keys and
// those that are never passed on; or, where it is strict, those of a list.
type Passing struct {
	Backend    string   // the agent's kind: its provider's keys go to it alone
	Pass       []string // NAME or PREFIX_*, for both
	Own        []string // the same, for the agent alone
	Strict     bool
	Credential func(name, value string) bool // what looks like one; nil: nothing does
}

// Parted is an environment taken apart. What is in none of the lists is never
// passed on.
type Parted struct {
	Base  []string // NAME=value for agents and verify commands
	Agent []string // besides, for the agent
	Left  []string // not passed on, and no harm if it were asked for
	Never []string // names of those that no setting passes on
}

// Part takes an environment apart. A list of what may pass knows nothing of
// the second name of a secret, and need not.
func (p Passing) Part(env []string) (out Parted) {
	set := map[string]bool{}
	for _, kv := range env {
		if name, value, ok := strings.Cut(kv, "="); ok && value != "" && value != "0" && value != "false" {
			set[name] = true
		}
	}
	families, known := providers(p.Backend, set), harmless()
	for _, kv := range env {
		name, value, ok := strings.Cut(kv, "=")
		switch {
		case !ok || name == "":
		case process.Refused(name):
			out.Never = append(out.Never, name)
		case common(known, name) || Matches(p.Pass, name):
			out.Base = append(out.Base, kv)
		case !p.Strict && !p.secret(name, value) && !Matches(p.Own, name):
			out.Base = append(out.Base, kv)
		case Matches(families, name) || Matches(p.Own, name):
			out.Agent = append(out.Agent, kv)
		default:
			out.Left = append(out.Left, kv)
		}
	}
	return out
}

// secret reports whether a variable is a credential: it looks like one, or is named as the key of a model's provider,
// whatever its value.
func (p Passing) secret(name, value string) bool {
	if p.Credential != nil && p.Credential(name, value) {
		return true
	}
	return value != "" && secret(name) && (strings.HasPrefix(name, "AWS_") || Matches(providers("", nil), name))
}

// ValidPass reports whether a word of a setting names variables.
func ValidPass(word string) bool {
	name := strings.TrimSuffix(word, "*")
	return name != "" && !strings.ContainsAny(name, "*= \t\n\x00")
}

// Matches reports whether a list has a name, or the beginning of one with a
// star behind it.
func Matches(list []string, name string) bool {
	return slices.ContainsFunc(list, func(word string) bool {
		prefix, open := strings.CutSuffix(word, "*")
		return open && strings.HasPrefix(name, prefix) || word == name
	})
}

// common reports whether every command gets a variable: what a shell, a
// network behind a proxy, and a build need.
func common(known []string, name string) bool {
	if slices.Contains(known, name) || process.Personal(name) || strings.HasPrefix(name, "DESCARTES_") { // the others are refused
		return true
	}
	return !secret(name) && slices.ContainsFunc(prefixes(), func(p string) bool { return strings.HasPrefix(name, p) })
}

// secret reports whether a name says that its value is one. What a list
// passes by its first letters only stops here.
func secret(name string) bool {
	name = strings.ToUpper(name)
	for _, word := range []string{"TOKEN", "SECRET", "PASSW", "CREDENTIAL", "API_KEY", "APIKEY", "ACCESS_KEY",
		"PRIVATE_KEY", "_AUTH"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return name == "NIX_CONFIG" || strings.HasSuffix(name, "_KEY") || strings.HasSuffix(name, "_PAT") || strings.HasSuffix(name, "_PASS")
}

// Names are those of the variables that are not passed on, though a setting could. Empty ones are left out.
func (p Parted) Names() (names []string) {
	for _, kv := range p.Left {
		if name, value, _ := strings.Cut(kv, "="); value != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// harmless are the variables that every command gets.
func harmless() []string {
	return strings.Fields(`
PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TERM COLORTERM TERMINFO TERMINFO_DIRS TMPDIR TMP TEMP HOSTNAME NO_COLOR FORCE_COLOR CLICOLOR
CLICOLOR_FORCE COLUMNS LINES MANPATH INFOPATH SOURCE_DATE_EPOCH DEBIAN_FRONTEND PAGER EDITOR VISUAL
CI CONTINUOUS_INTEGRATION GITHUB_ACTIONS GITLAB_CI BUILDKITE CIRCLECI TRAVIS JENKINS_URL TF_BUILD RUNNER_OS RUNNER_ARCH RUNNER_TEMP
RUNNER_TOOL_CACHE AGENT_TOOLSDIRECTORY
HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY FTP_PROXY http_proxy https_proxy all_proxy no_proxy ftp_proxy npm_config_proxy npm_config_https_proxy
npm_config_noproxy
SSL_CERT_FILE SSL_CERT_DIR NIX_SSL_CERT_FILE CURL_CA_BUNDLE REQUESTS_CA_BUNDLE AWS_CA_BUNDLE NODE_EXTRA_CA_CERTS HTTPLIB2_CA_CERTS
GRPC_DEFAULT_SSL_ROOTS_FILE_PATH DENO_CERT DENO_TLS_CA_STORE CARGO_HTTP_CAINFO CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE npm_config_cafile
GO111MODULE GOAMD64 GOARCH GOARM GOARM64 GOBIN GOCACHE GOCOVERDIR GODEBUG GOENV GOEXPERIMENT GOFLAGS GOGC GOINSECURE GOMAXPROCS GOMEMLIMIT GOMODCACHE
GONOPROXY GONOSUMDB GOOS GOPATH GOPRIVATE GOPROXY GORACE GOROOT GOSUMDB GOTELEMETRY GOTMPDIR GOTOOLCHAIN GOTRACEBACK GOVCS GOWORK
GOLANGCI_LINT_CACHE
CC CXX CPP AR AS LD NM RANLIB STRIP OBJCOPY OBJDUMP CFLAGS CXXFLAGS CPPFLAGS LDFLAGS LIBRARY_PATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH CPATH
LD_LIBRARY_PATH MAKE MAKEFLAGS MFLAGS ACLOCAL_PATH
CARGO_HOME CARGO_INCREMENTAL CARGO_TARGET_DIR RUSTC RUSTC_WRAPPER RUSTFLAGS RUSTDOCFLAGS SCCACHE_DIR
NODE_PATH NODE_ENV N_PREFIX PNPM_HOME YARN_CACHE_FOLDER BUN_INSTALL DENO_DIR DENO_INSTALL CYPRESS_CACHE_FOLDER CHROME_BIN CHROME_PATH
npm_config_cache npm_config_prefix npm_config_registry NPM_CONFIG_CACHE NPM_CONFIG_PREFIX NPM_CONFIG_REGISTRY
VIRTUAL_ENV VIRTUAL_ENV_PROMPT
JAVA_HOME JDK_HOME JRE_HOME JAVA_OPTS JAVA_TOOL_OPTIONS MAVEN_HOME M2_HOME MAVEN_OPTS MAVEN_ARGS GRADLE_HOME GRADLE_USER_HOME GRADLE_OPTS
SBT_OPTS KOTLIN_HOME SCALA_HOME ANT_HOME ANDROID_HOME ANDROID_SDK_ROOT ANDROID_NDK_HOME ANDROID_NDK_ROOT
NUGET_PACKAGES GEM_HOME GEM_PATH BUNDLE_PATH BUNDLE_GEMFILE BUNDLE_WITHOUT BUNDLE_JOBS BUNDLE_USER_HOME BUNDLE_USER_CACHE RUBYLIB RAILS_ENV RACK_ENV
COMPOSER_HOME COMPOSER_CACHE_DIR MIX_ENV MIX_HOME HEX_HOME PERL5LIB PERL_LOCAL_LIB_ROOT LUA_PATH LUA_CPATH IN_NIX_SHELL HOMEBREW_PREFIX
HOMEBREW_CELLAR HOMEBREW_REPOSITORY STACK_ROOT CABAL_DIR JULIA_DEPOT_PATH FLUTTER_ROOT PUB_CACHE CUDA_HOME CUDA_PATH CUDA_VISIBLE_DEVICES
OMP_NUM_THREADS EMSDK VCPKG_ROOT QT_DIR DEVELOPER_DIR SDKROOT MACOSX_DEPLOYMENT_TARGET
`)
}

// prefixes begin variables that every command gets, but for those whose name
// says that they are secret.
func prefixes() []string {
	return strings.Fields(`
LC_ XDG_ CGO_ PKG_CONFIG CMAKE_ MAKE_ NINJA CCACHE_ CARGO_TERM_ CARGO_BUILD_ CARGO_PROFILE_ CARGO_TARGET_ CARGO_NET_ CARGO_ALIAS_ RUSTUP_ RUST_
NVM_ FNM_ VOLTA_ COREPACK_ PLAYWRIGHT_ PUPPETEER_ PYENV_ PYTHON PIP_ UV_ CONDA_ MAMBA_ POETRY_ PIPENV_ PDM_ HATCH_ TOX_ PYTEST_ SDKMAN_
DOTNET_ MSBUILD RBENV_ NODENV_ GOENV_ JENV_ ASDF_ MISE_ NIX_ OPAM GHCUP_ ZIG_ BAZEL
`)
}
