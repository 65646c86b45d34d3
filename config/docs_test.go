package config

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"descartes/internal/docs"
)

// TestDocs checks that the pages have the settings as they are.
func TestDocs(t *testing.T) {
	t.Parallel()
	docs.Block(t, "docs/settings.md", "settings", reference())
	docs.Block(t, "docs/sandbox-and-secrets.md", "trust", trustTable())
}

// reference is the table of all settings, in Markdown.
func reference() string {
	var b strings.Builder
	b.WriteString("| key | flag | type | default | meaning |\n|---|---|---|---|---|\n")
	for _, s := range All() {
		key, flag, value := s.Key, "", cmp.Or(s.initial, s.open)
		if !s.YAML {
			key = ""
		}
		if s.Flag != "" {
			flag = "--" + s.Flag
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", code(key), code(flag), s.typeText(), code(value),
			strings.NewReplacer("|", "\\|", "<", "&lt;").Replace(strings.ReplaceAll(s.Help, "`", "")))
	}
	return b.String()
}

// trustTable is the table of the settings that need trust, in Markdown.
func trustTable() string {
	var b strings.Builder
	b.WriteString("| key | needs trust |\n|---|---|\n")
	for _, s := range All() {
		when := map[string]string{always: "always", confined: "with `sandbox: off`",
			outside: "where it leads out of the project"}[s.Trust]
		if !s.YAML || s.Trust == harmless {
			continue
		}
		switch {
		case len(s.safe) > 0:
			when = "unless it is `" + strings.Join(s.safe, "`, `") + "`"
		case s.kind == "mask":
			when = "for `off` and `!NAME`"
		case s.kind == "backends":
			when = "but for `model`, `model_tiers` and `prices`"
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", s.Key, when)
	}
	return b.String()
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

// typeText is what may stand there, in words.
func (s *Setting) typeText() string {
	if s.Words != nil {
		words := make([]string, len(s.Words))
		for i, w := range s.Words {
			words[i] = code(w)
		}
		return strings.Join(words, ", ")
	}
	switch s.kind {
	case "string", "path":
		return "text"
	case "bool":
		return "true or false"
	case "int", "float64":
		return "number"
	case "time":
		return "time"
	case "size":
		return "size"
	case "breaker":
		return "number or `off`"
	case "deadline":
		return "point in time"
	case "lines", "paths", "words", "mask", "patterns", "criteria", "checks":
		return "list"
	case "guard":
		return "word or map"
	case "prices", "backends", "map[string]string", "map[string]config.AgentType":
		return "map"
	}
	return s.kind
}

// TestExamples reads what the pages show of descartes.yaml as a run does. The page about CI has the files of other
// programs.
func TestExamples(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(docs.Root(t), "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, page := range append(pages, filepath.Join(docs.Root(t), "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(page) == "ci.md" {
			continue
		}
		blocks := strings.Split(string(text), "\n```yaml\n")
		for _, block := range blocks[1:] {
			example, _, _ := strings.Cut(block, "\n```")
			file := filepath.Join(t.TempDir(), "descartes.yaml")
			if err := os.WriteFile(file, []byte(example+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := ReadFile(file, true); err != nil {
				t.Errorf("an example in %s: %v\n%s", page, err, example)
			}
			seen++
		}
	}
	if seen < 5 {
		t.Errorf("the pages have %d examples of descartes.yaml; are they marked with another word?", seen)
	}
}
