// Package front owns the YAML at the top of a plan, which may set its tag, its check and its specs.
package front

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"

	"descartes/internal/markdown"
	"descartes/tasks"
)

// Matter is what the YAML at the top of a plan sets; empty where it sets nothing.
type Matter struct {
	Tag       string
	Verify    string
	SpecFiles []string // as written
}

// Read reads only the settings at the top of a plan, and says what is wrong with them.
func Read(src []byte) (f Matter, findings []tasks.Finding) {
	const maxLines, maxBytes = 200, 64 << 10 // more is no front matter
	lines := strings.SplitAfterN(markdown.EndLines(src), "\n", maxLines+1)
	doc, err := markdown.Parse(strings.Join(lines[:min(len(lines), maxLines)], ""))
	if err != nil || doc.Front == "" {
		return f, nil
	}
	find := func(line int, message string) {
		findings = append(findings, tasks.Finding{Line: line, Kind: "member", Message: message})
	}
	var root yaml.Node
	if len(doc.Front) > maxBytes {
		find(1, "the front matter is too long: ignored")
	} else if err := yaml.Unmarshal([]byte("\n"+doc.Front), &root); err != nil { // behind the first mark
		line, reason := 1, strings.TrimPrefix(err.Error(), "yaml: ")
		if n, _ := fmt.Sscanf(reason, "line %d:", &line); n == 1 {
			_, reason, _ = strings.Cut(reason, ": ")
		}
		find(line, "the front matter is not valid YAML and is ignored: "+reason)
	}
	if len(root.Content) == 0 || root.Content[0].Kind != yaml.MappingNode {
		return f, findings
	}
	pairs := root.Content[0].Content
	for i := 0; i+1 < len(pairs); i += 2 {
		value, line := pairs[i+1], pairs[i+1].Line
		text := value.Kind == yaml.ScalarNode
		switch key := strings.ReplaceAll(pairs[i].Value, "-", "_"); key {
		case "tag", "scud_tag":
			if err := tasks.ValidTag(value.Value); !text {
				find(line, "the tag in the front matter is not text: ignored")
			} else if err != nil {
				find(line, "front matter: "+err.Error())
			} else {
				f.Tag = value.Value
			}
		case "verify", "verify_command":
			if f.Verify = strings.TrimSpace(value.Value); !text {
				find(line, "the verify command in the front matter is not text: ignored")
			}
		case "spec_file", "spec_files", "specs":
			list := []*yaml.Node{value}
			if value.Kind == yaml.SequenceNode {
				list = value.Content
			}
			for _, n := range list {
				if n.Kind != yaml.ScalarNode || n.Value == "" {
					find(line, "a spec file in the front matter is not text: ignored")
					continue
				}
				f.SpecFiles = append(f.SpecFiles, n.Value)
			}
		}
	}
	return f, findings
}
