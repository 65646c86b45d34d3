package gitops

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"descartes/internal/plainfile"
)

// lfsFile is where git-lfs reads settings in the tree. Those of git's own configuration come before them.
const lfsFile = ".lfsconfig"

// ownLFS is a RefusedError where git-lfs, which a push's hook may start, would ask a server that a file of the tree
// names: an agent may have written it. The user's own configuration may name the server, and so may the file as the
// remote has it: whoever brought it there has seen it.
func (r *Repo) ownLFS(ctx context.Context, remote string) error {
	if !r.cli.hooks {
		return nil
	}
	files, err := r.lfsFiles(ctx)
	if err != nil {
		return err
	}
	for _, text := range files {
		key, value, err := r.lfsServer(ctx, text)
		if err != nil {
			return err
		}
		if key == "" {
			continue
		}
		known, err := r.remoteHas(ctx, remote, lfsFile, text)
		if err != nil {
			return err
		}
		if !known {
			return &RefusedError{Reason: fmt.Sprintf("%s sets %s to %q, and no branch of %s has it so: an agent may have "+
				"chosen the server that git-lfs asks; if it is yours: git config %s URL", lfsFile, key, value, remote, key),
				Hint: "git config " + key + " URL, if the server is yours: that counts more than the file"}
		}
	}
	return nil
}

// lfsFiles are the texts of the files that git-lfs may read: the one in the working tree, and where that is missing
// the index's or that of HEAD.
func (r *Repo) lfsFiles(ctx context.Context) (texts []string, err error) {
	b, err := plainfile.Read(r.l.root, lfsFile, maxNamed)
	odd, isOdd := errors.AsType[*plainfile.Error](err)
	switch {
	case isOdd:
		return nil, &RefusedError{Reason: odd.Error() + ", and git-lfs would read it",
			Hint: "put a plain file there, or none"}
	case err == nil:
		texts = append(texts, string(b))
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	for _, name := range []string{":" + lfsFile, "HEAD:" + lfsFile} {
		b, err := r.cli.run(ctx, gitCall{args: []string{"cat-file", "blob", name}})
		if _, missing := errors.AsType[*gitError](err); missing {
			continue
		}
		if err != nil {
			return nil, err
		}
		texts = append(texts, string(b))
	}
	return texts, nil
}

// lfsServer is a setting of a file of git-lfs' that decides which server it asks, "" for none. What git's own
// configuration sets counts more and is left out. git-lfs follows includes.
func (r *Repo) lfsServer(ctx context.Context, text string) (key, value string, err error) {
	b, err := r.cli.run(ctx, gitCall{args: []string{"config", "-z", "--no-includes", "-f", "-", "--list"},
		stdin: []byte(text)})
	if said, bad := errors.AsType[*gitError](err); bad {
		return "", "", &RefusedError{Reason: lfsFile + " cannot be read: " + fatal(said.said),
			Hint: "mend it, or take it out"}
	}
	if err != nil {
		return "", "", err
	}
	for _, entry := range nulSplit(b) {
		key, value, _ := strings.Cut(entry, "\n")
		section, _, _ := strings.Cut(key, ".")
		switch last := key[strings.LastIndexByte(key, '.')+1:]; {
		case section == "include", section == "includeif",
			r.set[key] == "" && section == "lfs" && (last == "url" || last == "pushurl"),
			r.set[key] == "" && section == "remote" && (last == "lfsurl" || last == "lfspushurl"):
			return key, value, nil
		}
	}
	return "", "", nil
}

// remoteHas reports whether a branch of a remote, as it was seen last, has a file with this text.
func (r *Repo) remoteHas(ctx context.Context, remote, name, text string) (bool, error) {
	files, err := r.cli.run(ctx, gitCall{args: []string{"for-each-ref", "--format=%(refname):" + name,
		"refs/remotes/" + remote + "/"}})
	if err != nil || len(files) == 0 {
		return false, err
	}
	var ids []string
	for _, text := range []string{text, strings.ReplaceAll(text, "\r\n", "\n")} { // which core.autocrlf may have added
		id, err := r.cli.feed(ctx, []byte(text), "hash-object", "--stdin")
		if err != nil {
			return false, err
		}
		ids = append(ids, id)
	}
	there, err := r.cli.run(ctx, gitCall{args: []string{"cat-file", "--batch-check"}, stdin: files})
	for line := range strings.Lines(string(there)) {
		if id, _, _ := strings.Cut(line, " "); slices.Contains(ids, id) {
			return true, err
		}
	}
	return false, err
}
