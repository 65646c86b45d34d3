package verify

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"descartes/internal/lazyregexp"
	"descartes/internal/plainfile"
)

// maxProjectFile limits, in bytes, a makefile or package.json. A larger one suggests nothing.
const maxProjectFile = 4 << 20

// Detected are the files that Detect looks for.
func Detected() []string {
	return []string{"Cargo.toml", "GNUmakefile", "makefile", "Makefile", "go.mod", "package.json", "pyproject.toml"}
}

// Detect finds the verify command that a project's files suggest. why names the file and what in it.
func Detect(dir string) (command, why string, ok bool) {
	if has(dir, "Cargo.toml") {
		return "cargo check && cargo test", "Cargo.toml", true
	}
	for _, name := range []string{"GNUmakefile", "makefile", "Makefile"} { // make's own order
		text, err := plainfile.Read(dir, name, maxProjectFile)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			break
		}
		if goals := targets(string(text), "check", "test"); len(goals) > 0 {
			words := strings.Join(goals, " ")
			return "make " + words, name + ": " + words, true
		}
		break // make reads no other
	}
	if has(dir, "go.mod") {
		// without -o, go build writes a lone main package into the folder
		return "go build -o /dev/null ./... && go test ./...", "go.mod", true
	}
	if hasTestScript(filepath.Join(dir, "package.json")) {
		return "npm test", "package.json: scripts.test", true
	}
	if has(dir, "pyproject.toml") {
		return "pytest", "pyproject.toml", true
	}
	return "", "", false
}

func has(dir, name string) bool {
	info, err := os.Stat(filepath.Join(dir, name))
	return err == nil && info.Mode().IsRegular()
}

// rule is a line of a makefile that begins one, and no recipe or assignment.
var rule = lazyregexp.New(`(?m)^ *([^\s#:=$][^#:=$\n]*)::?(?:[^:=\n]|$)`)

// targets returns the wanted names for which a makefile has a rule.
func targets(makefile string, wanted ...string) (found []string) {
	ruled := map[string]bool{}
	for _, m := range rule.FindAllStringSubmatch(strings.NewReplacer("\r\n", "\n", "\\\n", " ").Replace(makefile),
		-1) {
		for _, name := range strings.Fields(m[1]) {
			ruled[name] = true
		}
	}
	return slices.DeleteFunc(wanted, func(name string) bool { return !ruled[name] })
}

// hasTestScript is false for the script that npm init writes, which always fails.
func hasTestScript(path string) bool {
	data, err := plainfile.Read(filepath.Dir(path), path, maxProjectFile)
	if err != nil {
		return false
	}
	var pkg struct {
		Scripts map[string]any `json:"scripts"`
	}
	if json.Unmarshal(data, &pkg) != nil {
		return false
	}
	script, _ := pkg.Scripts["test"].(string)
	return strings.TrimSpace(script) != "" && !strings.Contains(script, "no test specified")
}
