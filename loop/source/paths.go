package source

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"descartes/config"
	"descartes/tasks"
)

// OwnPaths are the places, relative to the repository, where uncommitted changes never stop a loop: .scud, .descartes,
// the plan and the spec files, and more.
func (j *Job) OwnPaths(repoRoot string, more ...string) []string {
	out := []string{}
	add := func(p string) {
		if !filepath.IsAbs(p) {
			p = filepath.Join(j.Root, p)
		}
		if rel, err := filepath.Rel(repoRoot, p); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			out = append(out, filepath.ToSlash(rel))
		}
	}
	add(".scud")
	add(".descartes")
	add(cmp.Or(j.Config.SettingsFile, config.SettingsFile))
	add(j.File.Path())
	if mirror, ok := j.File.Mirror(); ok {
		add(mirror.Path())
	}
	c := j.Config.Scud
	for _, p := range slices.Concat([]string{c.PlanPath, c.HandoffPath}, c.Spec.AdditionalSpecs, more) {
		if p != "" {
			add(p)
		}
	}
	return out
}

// Foreign returns the paths outside our own ones.
func Foreign(paths, own []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool {
		return slices.ContainsFunc(own, func(o string) bool { return p == o || strings.HasPrefix(p, o+"/") })
	})
}

// Protected are the paths that no attempt may change, be there a file or not. Nobody writes the fixed ones during a
// run: the settings, and lists that would be read instead of the run's own. Of the others the run itself writes some;
// a folder ends in a slash. list is nil for a prompt.
func Protected(c *config.Config, root string, list *tasks.File) (fixed, others []string) {
	fixed = []string{filepath.Join(root, config.SettingsFile)}
	if c.SettingsFile != "" && c.SettingsFile != fixed[0] {
		fixed = append(fixed, c.SettingsFile)
	}
	others = []string{filepath.Join(root, ".descartes") + "/"}
	handoff := c.PromptHandoff
	if list != nil {
		fixed = append(fixed, list.Ahead(root)...)
		others = append(others, list.Path(), filepath.Join(root, ".scud", "tasks")+"/")
		if mirror, ok := list.Mirror(); ok {
			others = append(others, mirror.Path())
		}
		handoff = c.Scud.HandoffPath
	}
	if handoff != "" {
		if !filepath.IsAbs(handoff) {
			handoff = filepath.Join(root, handoff)
		}
		others = append(others, handoff)
	}
	return fixed, others
}
