package gitops

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"descartes/internal/lazyregexp"
)

// Conflict is a path that two sides changed in incompatible ways.
type Conflict struct {
	Path string
	// in git's words: "content", "binary", "add/add", "modify/delete", "rename/delete", "file/directory" ...
	Kind string
	Why  string // git's own words, "ours" and "theirs" being the two sides
}

func (c Conflict) String() string { return c.Path + " (" + c.Kind + ")" }

// MergeTrees merges what changed between base and ours with what changed between base and theirs; see Merge.
func (r *Repo) MergeTrees(ctx context.Context, base, ours, theirs Tree) (Tree, []Conflict, error) {
	switch {
	case ours == base || ours == theirs:
		return theirs, nil, nil
	case theirs == base:
		return ours, nil, nil
	}
	sides := make([]string, 3)
	for i, tree := range []Tree{base, ours, theirs} {
		var err error
		if sides[i], err = r.link(ctx, Link{Tree: tree, Message: "side of a merge", When: time.Unix(0, 0)},
			sides[:min(i, 1)]...); err != nil {
			return "", nil, fmt.Errorf("merge trees: %w", err)
		}
	}
	return r.merge(ctx, sides[1], sides[2])
}

// Merge merges two commits, with renames and merge drivers, as `git merge` does: the history has their base. It
// touches no file, no index and no ref. Conflicts are sorted by path; the tree then has git's markers in them. It
// needs git OldestMerging, unless one of the two has nothing new; an older one is a VersionError.
func (r *Repo) Merge(ctx context.Context, ours, theirs string) (Tree, []Conflict, error) {
	a, err := r.treeOf(ours)
	if err != nil {
		return "", nil, fmt.Errorf("merge: %w", err)
	}
	b, err := r.treeOf(theirs)
	if err != nil {
		return "", nil, fmt.Errorf("merge: %w", err)
	}
	parent, err := r.parentOf(theirs)
	old := r.cli.version.Before(OldestMerging)
	switch {
	case err != nil:
		return "", nil, fmt.Errorf("merge: %w", err)
	case parent == ours || old && r.LeadsTo(ctx, theirs, ours):
		return b, nil, nil
	case a == b || old && r.LeadsTo(ctx, ours, theirs):
		return a, nil, nil
	}
	if err := r.Meet(ctx, ours, theirs); err != nil {
		return "", nil, fmt.Errorf("merge: %w", err)
	}
	return r.merge(ctx, ours, theirs)
}

func (r *Repo) merge(ctx context.Context, ours, theirs string) (Tree, []Conflict, error) {
	if r.cli.version.Before(OldestMerging) {
		return "", nil, &VersionError{Program: r.cli.program, Found: r.cli.version, Needed: OldestMerging,
			For: "merging"}
	}
	out, err := r.cli.run(ctx, gitCall{args: []string{"merge-tree", "--write-tree", "-z", "--messages", ours, theirs}})
	if err != nil && exitCode(err) != 1 {
		return "", nil, fmt.Errorf("merge: %w", err)
	}
	tree, rest, _ := strings.Cut(string(out), "\x00")
	if !isID(tree) {
		return "", nil, fmt.Errorf("merge: git says %q: %w", tree, err)
	}
	if err == nil {
		return Tree(tree), nil, nil
	}
	conflicts := parseConflicts(rest, strings.NewReplacer("~"+ours, "", "~"+theirs, "", ours, "ours", theirs,
		"theirs"))
	if len(conflicts) == 0 {
		return "", nil, fmt.Errorf("merge: %w", err)
	}
	return Tree(tree), conflicts, nil
}

// conflictKind is git's word for a conflict, in what it says of it.
var conflictKind = lazyregexp.New(`^CONFLICT ?\(([^)]+)\)`)

// parseConflicts reads what follows the tree: the entries of unmerged paths, and after an empty one messages, each of
// them a count of paths, the paths, a type and a text. plain takes out the names of our own commits.
func parseConflicts(said string, plain *strings.Replacer) (out []Conflict) {
	found := map[string]*Conflict{}
	entries, messages, _ := strings.Cut("\x00"+said, "\x00\x00")
	for entry := range strings.SplitSeq(entries, "\x00") {
		if _, name, ok := strings.Cut(entry, "\t"); ok {
			name = plain.Replace(name)
			found[name] = &Conflict{Path: name, Kind: "content"}
		}
	}
	unnamed := len(found) == 0
	for fields := strings.Split(messages, "\x00"); len(fields) > 3; {
		n, err := strconv.Atoi(fields[0])
		if err != nil || n < 1 || len(fields) < n+3 {
			break
		}
		paths, text := fields[1:n+1], strings.TrimSpace(plain.Replace(fields[n+2]))
		kind := conflictKind.FindStringSubmatch(text)
		if kind == nil {
			kind = conflictKind.FindStringSubmatch(fields[n+1])
		}
		if fields = fields[n+3:]; kind == nil {
			continue
		}
		if unnamed { // git could not say which files a renamed folder's new ones go with
			name := plain.Replace(paths[0])
			found[name] = &Conflict{name, kind[1], text}
		}
		for _, name := range paths {
			// of a binary file git says both
			if c := found[plain.Replace(name)]; c != nil && (c.Why == "" || c.Kind == "content") {
				c.Kind, c.Why = kind[1], text
			}
		}
	}
	for _, name := range sortedKeys(found) {
		out = append(out, *found[name])
	}
	return out
}
