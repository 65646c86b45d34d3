package guard

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"
)

// Back is a file that the checks get in another version than a change left, so that the change cannot help.
type Back struct {
	Path string
	Data []byte // what the checks get; nil: the file as it was before, or none if it did not exist
}

// Backs lists what the checks must not see of a change: existing tests, expected output, scripts, targets and
// settings of the checks, and new files that replace them. New tests stay.
func Backs(in Input) (out []Back) {
	l := newLook(&in)
	shadows := map[string]bool{}
	for _, c := range l.in.Changes {
		l.replaced(c)
		l.isLink(c)
	}
	for _, f := range l.found {
		shadows[f.Path] = true
	}
	for _, c := range l.in.Changes {
		if _, excepted := in.named(c.Path); excepted {
			continue
		}
		group, back := l.back(c, shadows[c.Path])
		if group == "" || slices.Contains(in.Allow, group) || slices.Contains(in.Allow, All) {
			continue
		}
		back.Path = c.Path
		out = append(out, back)
	}
	return out
}

// back says by which group a change is put back, "" where it stays.
func (l *look) back(c Change, shadow bool) (group string, b Back) {
	k, p := kindOf(c.Path), c.Path
	if c.Before == nil {
		ours := shadow || l.checks.missing[p] != "" && ofTools(p) || k == "environment" || (k == "runner" || k == "linter") && l.in.There(path.Dir(p))
		return or(ours, "checks", ""), b
	}
	group, _ = l.part(p)
	if named, _ := l.in.named(p); named || shadow || path.Base(p) == "package.json" {
		group = "checks"
		if named {
			return group, b
		}
	}
	merged := c.After != nil && c.After.Kind != Link
	switch end := path.Ext(p); {
	case path.Base(p) == "package.json":
		if merged {
			b.Data = mergePackage(c.Before.Data, c.After.Data, l.checks.packages[p])
		}
	case k == "manifest" && (end == ".toml" || end == ".cfg"):
		if merged {
			b.Data = mergeSections(c.Before.Data, c.After.Data)
		}
	default:
		return or(k == "manifest" && !shadow, "", group), b
	}
	return or(merged && b.Data == nil, "", group), b
}

// mergePackage is a package.json with the scripts and the runner's settings of before; nil where they did not change.
func mergePackage(before, after []byte, used []string) []byte {
	was, is := readPackage(before), readPackage(after)
	if was.All == nil || is.All == nil {
		return before
	}
	all, scripts := maps.Clone(is.All), maps.Clone(is.Scripts)
	restore(all, was.All, packageSettings)
	restore(scripts, was.Scripts, used)
	if maps.Equal(scripts, is.Scripts) && maps.EqualFunc(all, is.All, slices.Equal) {
		return nil
	}
	list, err := json.Marshal(scripts)
	if err != nil {
		return before
	}
	all["scripts"] = list
	b, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return before
	}
	return append(b, '\n')
}

// restore sets members to what they were.
func restore[V any](to, was map[string]V, names []string) {
	for _, name := range names {
		if v, ok := was[name]; ok {
			to[name] = v
		} else {
			delete(to, name)
		}
	}
}

// mergeSections is a TOML or INI file with the sections of before that are about the checks; nil where they did not change.
func mergeSections(before, after []byte) []byte {
	was, _ := sections(before, runnerSection, linterSection)
	is, rest := sections(after, runnerSection, linterSection)
	if strings.TrimSpace(was) == strings.TrimSpace(is) {
		return nil
	}
	return []byte(rest + "\n" + was)
}
