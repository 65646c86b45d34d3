// Package shell says of a script of the shell what it would run, without running it.
package shell

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// readers are programs that run what a project says, or load its modules, without being told a file of it.
var readers = []string{"make", "gmake", "npm", "npx", "pnpm", "yarn", "bun", "bunx", "deno", "node", "just",
	"task", "rake", "bundle", "composer", "php", "ruby", "perl", "poetry", "uv", "uvx", "tox", "nox", "cargo", "go", "gradle",
	"mvn", "dotnet", "python", "python3", "pre-commit", "lefthook"}

// starters are commands that start what comes after their name.
var starters = []string{"exec", "command", "env", "eval", ".", "source", "sh", "bash", "nohup", "time", "sudo", "xargs"}

// RunsBelow reports whether a script of the shell that starts in a folder runs something that lies below another, a
// project. One that cannot be read does.
func RunsBelow(root, dir, script string) bool {
	f, err := syntax.NewParser().Parse(strings.NewReader(script), "")
	if err != nil {
		return true
	}
	// what a command inside prints is no program's name; that command is looked at by itself
	silent := func(io.Writer, *syntax.CmdSubst) error { return nil }
	cfg := &expand.Config{Env: expand.ListEnviron(os.Environ()...), CmdSubst: silent}
	known := &expand.Config{Env: cfg.Env, NoUnset: true}
	found := false
	syntax.Walk(f, func(node syntax.Node) bool {
		call, ok := node.(*syntax.CallExpr)
		if !ok || found {
			return !found
		}
		words, err := expand.Fields(cfg, call.Args...)
		for i := 0; err == nil && i < len(call.Args); i++ { // not known where a variable of the script's own says it
			var name []string
			name, err = expand.Fields(known, call.Args[i])
			if err == nil && (len(name) != 1 || !slices.Contains(starters, name[0])) {
				break
			}
		}
		if err != nil {
			found = true
			return false
		}
		for i, word := range words {
			found = found || i == 0 && slices.Contains(readers, filepath.Base(word)) || lies(root, dir, word) ||
				strings.ContainsAny(word, " ;&|\n") && RunsBelow(root, dir, word)
		}
		return !found
	})
	return found
}

// lies reports whether a word names something of the project, or its folder.
func lies(root, dir, word string) bool {
	if _, value, ok := strings.Cut(word, "="); ok && strings.HasPrefix(word, "-") {
		word = value
	}
	if word == "" || word == "." && root == dir {
		return word != ""
	}
	if !filepath.IsAbs(word) {
		word = filepath.Join(dir, word)
	}
	real, err := filepath.EvalSymlinks(word)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(root, real)
	return err == nil && filepath.IsLocal(rel)
}
