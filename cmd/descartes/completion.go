package main

import (
	"github.com/spf13/cobra"
)

// explainCompletion says how to set up completion for each shell, in lines to copy.
func explainCompletion(root *cobra.Command) {
	how := map[string]string{
		"bash": `  echo 'source <(descartes completion bash)' >> ~/.bashrc

It needs the package bash-completion (macOS: brew install bash-completion@2).`,
		"zsh": `  mkdir -p ~/.zfunc && descartes completion zsh > ~/.zfunc/_descartes
  echo 'fpath+=~/.zfunc; autoload -Uz compinit; compinit' >> ~/.zshrc`,
		"fish": `  mkdir -p ~/.config/fish/completions
  descartes completion fish > ~/.config/fish/completions/descartes.fish`,
		"powershell": `  descartes completion powershell >> $PROFILE`,
	}
	cmd, _, err := root.Find([]string{"completion"})
	if err != nil {
		return
	}
	text := "Let your shell complete commands, flags, tags, tasks, loops, backends and settings.\nRun the lines for your shell once, then open a new one."
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		text += "\n\n" + shell + "\n\n" + how[shell]
	}
	cmd.Short, cmd.Long = "Let your shell complete what you type", text
	for _, c := range cmd.Commands() {
		c.Short = "Print the script for " + c.Name()
		c.Long = c.Short + ". To have it loaded by every new shell:\n\n" + how[c.Name()]
	}
}
