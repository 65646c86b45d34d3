package plan

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"descartes/internal/markdown"
	"descartes/tasks"
)

// FrontMatter is what the YAML at the top of a plan sets; empty where it sets nothing.
type FrontMatter struct {
	Tag       string
	Verify    string
	SpecFiles []string // as written
}

// ReadFrontMatter reads the settings at the top of a plan and nothing else of it, and says what is wrong with them.
func ReadFrontMatter(src []byte) (FrontMatter, []tasks.Finding) {
	end := 0
	for range 200 { // more lines are no front matter
		next := bytes.IndexByte(src[end:], '\n')
		if next < 0 {
			end = len(src)
			break
		}
		end += next + 1
	}
	p := &planner{plan: &Plan{}}
	if doc, err := markdown.Parse(string(src[:end])); err == nil {
		p.md = doc
		p.frontMatter()
	}
	return p.plan.FrontMatter, p.plan.findings
}

// frontMatter reads the settings at the top. What is wrong there is a finding: the tasks do not depend on it.
func (p *planner) frontMatter() {
	if p.md.Front == "" {
		return
	}
	const most = 64 << 10
	if len(p.md.Front) > most {
		p.find(1, "", "member", "the front matter is too long, it is not used")
		return
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(p.md.Front), &doc); err != nil {
		line, reason := yamlPlace(err)
		p.find(line+1, "", "member", "the front matter is not valid YAML, it is not used: "+reason)
		return
	}
	if len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return
	}
	pairs := doc.Content[0].Content
	for i := 0; i+1 < len(pairs); i += 2 {
		p.setting(strings.ReplaceAll(pairs[i].Value, "-", "_"), pairs[i+1])
	}
}

// yamlPlace splits what the decoder says, "yaml: line 2: reason", into the line, 0 if it names none, and the reason.
func yamlPlace(err error) (line int, reason string) {
	reason = strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, ok := strings.CutPrefix(reason, "line "); ok {
		if number, why, ok := strings.Cut(rest, ": "); ok {
			if n, err := strconv.Atoi(number); err == nil {
				return n, why
			}
		}
	}
	return 0, reason
}

func (p *planner) setting(key string, value *yaml.Node) {
	line := value.Line + 1 // behind the first mark
	switch key {
	case "tag", "scud_tag":
		switch {
		case value.Kind != yaml.ScalarNode:
			p.find(line, "", "member", "the tag in the front matter is no text, it is not used")
		case tasks.ValidTag(value.Value) != nil:
			p.find(line, "", "member", fmt.Sprintf("front matter: %v", tasks.ValidTag(value.Value)))
		default:
			p.plan.Tag = value.Value
		}
	case "verify", "verify_command":
		if value.Kind != yaml.ScalarNode {
			p.find(line, "", "member", "the verify command in the front matter is no text, it is not used")
			return
		}
		p.plan.Verify = strings.TrimSpace(value.Value)
	case "spec_file", "spec_files", "specs":
		list := []*yaml.Node{value}
		if value.Kind == yaml.SequenceNode {
			list = value.Content
		}
		for _, n := range list {
			if n.Kind != yaml.ScalarNode || n.Value == "" {
				p.find(line, "", "member", "a spec file in the front matter is no text, it is not used")
				continue
			}
			p.plan.SpecFiles = append(p.plan.SpecFiles, n.Value)
		}
	}
}
