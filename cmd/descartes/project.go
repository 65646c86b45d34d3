package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"descartes/config"
	"descartes/gitops"
	"descartes/internal/terminal"
	"descartes/launch"
	"descartes/loop/journal"
	"descartes/loop/source"
	"descartes/loop/store"
	"descartes/tasks"
	"descartes/view"
)

func registerDir(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "working-dir", ".", "work as if started in this `directory`")
}

func write(w io.Writer, s string) error {
	_, err := io.WriteString(w, s)
	return err
}

// show prints v as JSON, or the text for people.
func show(w io.Writer, asJSON bool, v any, text string) error {
	if asJSON {
		return writeJSON(w, v)
	}
	return write(w, text)
}

func writeJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	if err == nil {
		_, err = w.Write(journal.WithoutCommands(b.Bytes()))
	}
	return err
}

// findRoot returns the project's folder: the nearest one with .scud at or above dir, up to the top of the git working
// tree; else that top; without git, dir itself.
func findRoot(dir string) (string, error) {
	dir, err := realDir(dir)
	if err != nil {
		return "", err
	}
	fi, err := os.Stat(dir)
	switch {
	case err != nil:
		return "", err
	case !fi.IsDir():
		return "", badInput("", "working directory %s is not a directory", dir)
	}
	top := ""
	for d := dir; ; d = filepath.Dir(d) {
		if fi, err := os.Stat(filepath.Join(d, ".scud")); err == nil && fi.IsDir() {
			return d, hasRoom(d)
		}
		if _, err := os.Lstat(filepath.Join(d, ".git")); err == nil {
			top = d
			break
		}
		if d == filepath.Dir(d) {
			break
		}
	}
	top = cmp.Or(top, dir)
	return top, hasRoom(top)
}

// hasRoom refuses a project in which .descartes is something else than a folder of ours.
func hasRoom(root string) error {
	path := filepath.Join(root, ".descartes")
	if fi, err := os.Stat(path); err == nil && !fi.IsDir() {
		return badInput("move it away: descartes keeps its files in a directory of that name", "%s is not a directory",
			path)
	}
	return nil
}

// realDir is dir without symbolic links, as git sees it: paths are compared with git's.
func realDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	dir, err = filepath.EvalSymlinks(abs)
	if errors.Is(err, fs.ErrNotExist) {
		return "", badInput("", "working directory %s: no such directory", abs)
	}
	return dir, err
}

// inProject makes a path typed in dir relative to root, if it is below root.
func inProject(root, dir, path string) string {
	if path == "" {
		return ""
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	return store.Relative(root, path)
}

// session identifies the session of the program that started us: resume prefers a loop of the same session.
func session() string {
	return cmp.Or(os.Getenv("DESCARTES_SESSION_ID"), os.Getenv("CLAUDE_CODE_SESSION_ID"))
}

// fromHere is the flag that a command needs if it is typed in another project than root's. Below that folder it is
// needed because of paths, which begin where they are typed.
func fromHere(root string, paths ...string) string {
	dir, _ := realDir(".")
	if here, err := findRoot("."); err == nil && here == root && (dir == root || strings.Join(paths, "") == "") {
		return ""
	}
	return " --working-dir " + terminal.Quote(root)
}

// listFlags are the flags that name a list from where a command is typed.
func listFlags(root, tag, file string) string {
	return config.ListFlags(tag, file) + fromHere(root, file)
}

// resumeOf is the command that resumes a loop.
func resumeOf(root, id, path string) string {
	return view.ResumeCommand(root, id, path, fromHere(root))
}

// openRepo opens the repository that holds root.
func openRepo(ctx context.Context, root string) (*gitops.Repo, error) {
	return launch.OpenRepo(ctx, root, &config.Config{}, nil)
}

// unfinished is the loop over a list that a new start resumes, or nil.
func unfinished(root string, c config.ScudConfig) (*store.Saved, error) {
	if tasks.ValidTag(c.Tag) != nil {
		return nil, nil
	}
	return store.NewHome(root).Unfinished(source.Key(root, c))
}
