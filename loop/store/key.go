package store

import (
	"path/filepath"

	"descartes/gitops"
	"descartes/tasks"
)

// ListOf names a list below a folder, the top of a repository or that of a project: by its tag where that alone finds
// it there, else by its path too. One that lies elsewhere has the tag alone: no other clone has that path.
func ListOf(f *tasks.File, top string) gitops.Named { return ListAt(f.Target(), f.Tag(), top) }

// ListAt is ListOf for the list of a tag in a file, which need not be there.
func ListAt(file, tag, top string) gitops.Named {
	n := gitops.Named{Tag: tag}
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	rel, err := filepath.Rel(top, file)
	if err != nil || !filepath.IsLocal(rel) {
		return n
	}
	if own, err := tasks.TagPath(top, tag); err == nil && own == filepath.Join(top, rel) {
		return n
	}
	if usual, err := tasks.Open(top, tag); err != nil || usual.Target() != file {
		n.List = filepath.ToSlash(rel)
	}
	return n
}

// KeyOf names a list among the files of this project, as gitops.Named.Key does: what is said about two lists of one
// tag, and their runs, are kept apart. The usual list of a tag is named by the tag.
func (h Home) KeyOf(f *tasks.File) string { return h.KeyAt(f.Target(), f.Tag()) }

// KeyAt is KeyOf for the list of a tag in a file, which need not be there.
func (h Home) KeyAt(file, tag string) string { return ListAt(file, tag, filepath.Dir(string(h))).Key() }

// Key names the list that a loop runs over, as KeyOf does; "" for a prompt loop.
func (s *State) Key() string { return gitops.Named{Tag: s.Tag, List: s.List}.Key() }
