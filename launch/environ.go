package launch

import (
	"fmt"
	"slices"
	"strings"

	"descartes/agent"
	"descartes/config"
	"descartes/internal/redact"
	"descartes/internal/sandbox"
	"descartes/internal/terminal"
)

// family is the name by which a backend's folders, hosts and variables are known: that of the client, however it is
// called.
func family(b agent.Backend) string { return strings.TrimSuffix(b.Name, "-acp") }

// Part divides an environment between agents and verify commands. What is masked is withheld.
func Part(cfg config.Config, b agent.Backend, env []string) sandbox.Parted {
	words := slices.DeleteFunc(slices.Clone(cfg.Mask), func(w string) bool { return w == "off" })
	return sandbox.Passing{Backend: family(b), Pass: cfg.EnvPass, Own: b.EnvPass, Strict: cfg.StrictEnv(),
		Credential: func(name, value string) bool { return len(redact.Parts(name, value, words)) > 0 }}.Part(env)
}

// Withheld names the variables that no agent gets, and those that the verify command does not.
func Withheld(cfg config.Config, backends []agent.Backend, env []string) (agents, verify []string) {
	parted := Part(cfg, backends[0], env)
	agents = parted.Names()
	for _, b := range backends[1:] { // what a fallback gets is not withheld
		left := Part(cfg, b, env)
		names := left.Names()
		agents = slices.DeleteFunc(agents, func(name string) bool { return !slices.Contains(names, name) })
	}
	if !verifyInherits(cfg) {
		parted.Left = append(parted.Left, parted.Agent...)
		verify = parted.Names()
	}
	return agents, verify
}

// verifyInherits reports whether the verify command gets every variable.
func verifyInherits(cfg config.Config) bool { return cfg.VerifyEnv == "inherit" }

const (
	neededShown   = 6
	withheldShown = 12
)

// EnvironmentText says how many variables the usual agent gets, and names those that none gets.
func EnvironmentText(cfg config.Config, backends []agent.Backend, env []string) string {
	parted := Part(cfg, backends[0], env)
	text := fmt.Sprintf("%s passed on", terminal.Count(len(parted.Base)+len(parted.Agent), "variable"))
	if names, _ := Withheld(cfg, backends, env); len(names) > 0 {
		text += "; withheld: " + terminal.Few(names, withheldShown) + " (--env-pass passes them on)"
	}
	never := slices.DeleteFunc(slices.Clone(parted.Never), func(name string) bool { // settings of ours are no news
		return strings.HasPrefix(name, "DESCARTES_")
	})
	if names := slices.Sorted(slices.Values(never)); len(names) > 0 {
		text += "; never passed on: " + terminal.Few(names, neededShown)
	}
	return text
}
