package process

import (
	"slices"
	"strings"
)

// Loads reports whether a variable, or NAME=value, tells the loader of programs which code to put into one.
func Loads(name string) bool {
	return strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "DYLD_")
}

// ours are those of our own variables that agents and checks get, as docs/reference.md says. All others are settings,
// secrets of notices and fleets among them.
var ours = []string{"LOOP_ID", "TAG", "TASK_ID", "WAVE", "ATTEMPT", "ITERATION", "PROMPT", "PROMPT_FILE", "HOLDOUT",
	"REVIEW", "COOKIE"}

// controls reports whether a variable names a file or an address by which a job tells its CI system what to do next:
// which variables and programs its later steps have, for one.
func controls(name string) bool {
	for _, system := range []string{"GITHUB_", "GITEA_", "FORGEJO_"} {
		if file, ok := strings.CutPrefix(name, system); ok {
			return slices.Contains([]string{"ENV", "PATH", "OUTPUT", "STATE", "STEP_SUMMARY"}, file)
		}
	}
	switch name {
	case "BUILDKITE_ENV_FILE", "BITBUCKET_PIPELINES_VARIABLES_PATH", "CIRRUS_ENV", "DRONE_ENV", "DRONE_OUTPUT",
		"HARNESS_OUTPUT_SECRET_FILE", "ENVMAN_ENVSTORE_PATH", "APPVEYOR_API_URL", "TEAMCITY_BUILD_PROPERTIES_FILE",
		"CM_ENV", "AC_ENV_FILE_PATH":
		return true
	}
	return strings.HasPrefix(name, "ACTIONS_") || strings.HasPrefix(name, "BUILDKITE_AGENT_")
}

// Refused are variables that lead git elsewhere, hand over somebody's keys, load code into every program, control a CI
// system or a run of ours, or make an agent believe that it runs inside another. No setting passes them on, and none
// sets one.
func Refused(name string) bool {
	switch name {
	case "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FRAMEWORK_PATH", "DYLD_FALLBACK_LIBRARY_PATH",
		"DYLD_FALLBACK_FRAMEWORK_PATH":
		return false
	case "SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "BASH_ENV", "ENV", "PROMPT_COMMAND", "NODE_OPTIONS",
		"RUBYOPT", "PERL5OPT",
		"CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_EXECPATH":
		return true
	}
	if setting, ok := strings.CutPrefix(name, "DESCARTES_"); ok {
		return !slices.Contains(ours, setting)
	}
	return Loads(name) || controls(name) || strings.HasSuffix(name, "_ASKPASS") || strings.HasPrefix(name, "CLAUDE_CODE_SESSION") ||
		strings.HasPrefix(name, "BASH_FUNC_") ||
		strings.HasPrefix(name, "GIT_") && !Personal(name)
}

// Personal reports whether a variable of git's says who somebody is and how he connects, not which repository is
// meant.
func Personal(name string) bool {
	switch name {
	case "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_CONFIG_GLOBAL",
		"GIT_CONFIG_SYSTEM",
		"GIT_CONFIG_NOSYSTEM", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_TERMINAL_PROMPT":
		return true
	}
	return false
}
