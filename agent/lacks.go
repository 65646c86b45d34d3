package agent

import "slices"

// Lacks says what would keep the program from working here as it is called,
// and what mends that; "" where nothing is known to.
func (b Backend) Lacks(root bool, env func(name string) string) (what, fix string) {
	if root && slices.Contains(b.Command, "--dangerously-skip-permissions") && b.Format == FormatClaude && env("IS_SANDBOX") != "1" {
		return "it refuses --dangerously-skip-permissions to root", "run as another user, or with IS_SANDBOX=1 inside a container"
	}
	return "", ""
}

// WithEnv is the backend with a user's variables added to its own.
func (b Backend) WithEnv(env map[string]string) Backend {
	b.Env = overlaid(b.Env, env)
	return b
}
