package config

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"descartes/internal/lazyregexp"

	"gopkg.in/yaml.v3"

	"descartes/internal/atomicfile"
)

// KeepLine is the line of descartes.yaml that sets pool.keep.
func KeepLine(patterns []string) string { return "pool: {" + keepOf(patterns) + "}" }

func keepOf(patterns []string) string {
	list := make([]string, len(patterns))
	for i, p := range patterns {
		b, err := yaml.Marshal(p)
		if list[i] = strings.TrimSpace(string(b)); err != nil || strings.ContainsAny(p, ",[]{}") {
			list[i] = "'" + strings.ReplaceAll(p, "'", "''") + "'"
		}
	}
	return "keep: [" + strings.Join(list, ", ") + "]"
}

var (
	poolGroup = lazyregexp.New(`(?m)^pool:[ \t]*(#.*)?\n`)
	poolInner = lazyregexp.New(`^([ \t]*(#.*)?\n)*([ ]+)`)
)

// AddKeep sets pool.keep in a settings file that does not set it yet.
func AddKeep(fsys atomicfile.FS, file string, patterns []string) error {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	now := string(text)
	if at := poolGroup.FindStringIndex(now); at != nil {
		indent := "  "
		if m := poolInner.FindStringSubmatch(now[at[1]:]); m != nil {
			indent = m[3]
		}
		now = now[:at[1]] + indent + keepOf(patterns) + "\n" + now[at[1]:]
	} else {
		if now != "" && !strings.HasSuffix(now, "\n") {
			now += "\n"
		}
		now += KeepLine(patterns) + "\n"
	}
	if err := yaml.Unmarshal([]byte(now), &map[string]any{}); err != nil { // it is set, or written in another way
		return err
	}
	return atomicfile.Write(fsys, file, []byte(now), 0o644)
}
