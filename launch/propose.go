package launch

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"descartes/gitops"
	"descartes/internal/lockfile"
)

// Proposal is what the files of a project suggest for its check tree and slots.
type Proposal struct {
	Setup   string   // pool.setup; "": none is needed, or none is known
	SetupOn []string // pool.setup_on
	Keep    []string // pool.keep besides .env files
	Why     string   // what Setup makes that no commit has
}

// Propose looks at a project. It runs nothing of it; repo is nil where there is none.
func Propose(ctx context.Context, repo *gitops.Repo, root string) (p Proposal) {
	there := func(name string) bool {
		_, err := os.Stat(filepath.Join(root, name))
		return err == nil
	}
	install := ""
	for _, name := range []string{"package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock",
		"bun.lockb"} {
		if f, _ := lockfile.Of(name); there(name) {
			install = f.Frozen + " && "
			break
		}
	}
	switch {
	case there("prisma/schema.prisma"), there("schema.prisma"):
		p = Proposal{Setup: install + "npx prisma generate", SetupOn: []string{"schema.prisma"}, Why: "the client of schema.prisma"}
	case there("codegen.ts"), there("codegen.yml"):
		p = Proposal{Setup: install + "npx graphql-codegen", SetupOn: []string{"codegen.*", "*.graphql"}, Why: "what graphql-codegen makes"}
	case there("buf.gen.yaml"):
		p = Proposal{Setup: "buf generate", SetupOn: []string{"buf.gen.yaml", "*.proto"}, Why: "what buf generates"}
	case there("requirements.txt"):
		for _, venv := range []string{".venv", "venv"} {
			if there(venv + "/bin/python") {
				p = Proposal{Setup: venv + "/bin/python -m pip install -r requirements.txt", Why: "packages of requirements.txt in " + venv}
				break
			}
		}
	}
	if repo == nil {
		return p
	}
	ignored, err := repo.Ignored(ctx)
	if err != nil {
		return p
	}
	for _, name := range ignored {
		if base := path.Base(name); !strings.HasSuffix(name, "/") && len(p.Keep) < mostKept && settings(base) {
			p.Keep = append(p.Keep, name)
		}
	}
	return p
}

// mostKept bounds the files that are proposed for pool.keep.
const mostKept = 10

// settings reports whether a file that git ignores looks like local settings, which a fresh clone would get, too: a check
// names what else it needs. What builds make is never kept.
func settings(base string) bool {
	known := strings.Fields(".cfg .conf .ini .toml .yaml .yml .json .properties .plist")
	return base == ".envrc" || !strings.HasPrefix(base, ".") && slices.Contains(known, path.Ext(base)) &&
		base != "descartes.yaml"
}

// Lines are the settings as descartes.yaml has them; mark stands before what a person has to decide on.
func (p *Proposal) Lines(mark string) string {
	if p.Setup == "" && len(p.Keep) == 0 {
		return ""
	}
	var b strings.Builder
	if len(p.Keep) > 0 {
		fmt.Fprintf(&b, "pool:\n  keep: %s    # ignored files that checks have too\n", p.Kept([]string{".env*"}))
	} else {
		b.WriteString(mark + "pool:\n")
	}
	if p.Setup != "" {
		fmt.Fprintf(&b, "%s  setup: %s    # makes %s, in slots and for checks; descartes trust allows it\n", mark, flow(p.Setup), p.Why)
	}
	if len(p.SetupOn) > 0 {
		fmt.Fprintf(&b, "%s  setup_on: %s\n", mark, flow(p.SetupOn))
	}
	return b.String()
}

// Settings are Setup and SetupOn as keys of pool.
func (p *Proposal) Settings() string {
	s := "setup: " + flow(p.Setup)
	if len(p.SetupOn) > 0 {
		s += ", setup_on: " + flow(p.SetupOn)
	}
	return s
}

// Kept is pool.keep with these patterns and Keep.
func (p *Proposal) Kept(patterns []string) string { return flow(slices.Concat(patterns, p.Keep)) }

// flow is a value in one line of YAML.
func flow(v any) string {
	var n yaml.Node
	if err := n.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	n.Style = yaml.FlowStyle
	if n.Kind == yaml.ScalarNode {
		n.Style = 0
	}
	out, err := yaml.Marshal(&n)
	if err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSpace(string(out))
}
