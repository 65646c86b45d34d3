package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"descartes/agent"
	"descartes/agent/quota"
	"descartes/agent/stream"
	"descartes/gitops"
	"descartes/internal/config"
	"descartes/internal/proc"
	"descartes/internal/terminal"
	"descartes/loop"
	"descartes/loop/store"
	"descartes/loop/workspace"
	"descartes/tasks"
	"descartes/view"
)

// stateDir is our folder in the user's state directory, "" without one.
func stateDir(env func(string) string) string {
	dir := env("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) {
		if !filepath.IsAbs(env("HOME")) {
			return ""
		}
		dir = filepath.Join(env("HOME"), ".local", "state")
	}
	return filepath.Join(dir, "descartes")
}

// poolOf is the folder with the slots of a project, "" without a state directory.
func poolOf(root string) string {
	state := stateDir(os.Getenv)
	if state == "" {
		return ""
	}
	return workspace.PlaceOf(state, root)
}

// checkPool refuses to make slots where the user's tools would find them.
func checkPool(root string) error {
	const hint = "set XDG_STATE_HOME to a folder outside the project"
	pool := poolOf(root)
	if pool == "" {
		return badInput(hint, "HOME and XDG_STATE_HOME name no folder for the copies of the project that agents work in")
	}
	if _, inside := below(root, pool); inside {
		return badInput(hint, "agents work in copies of the project, and their folder %s is in the project", pool)
	}
	return nil
}

// accounts is what is recorded, under the user's state directory, about the quotas of a run's backends; root is its project.
func accounts(backends []agent.Backend, root string, env func(string) string) *quota.Accounts {
	dir := stateDir(env)
	if dir == "" {
		return nil
	}
	ids := map[string]string{}
	for _, b := range backends {
		if b.Format != stream.FormatText { // whose limits nobody can tell
			ids[b.Name] = b.Account(env("HOME"), os.Environ())
		}
	}
	return &quota.Accounts{Dir: filepath.Join(dir, "limits"), For: root, IDs: ids}
}

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
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// findRoot returns the project's folder: the nearest one with .scud at or above dir, up to the top of the git working tree; else that top; without
// git, dir itself.
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
		return badInput("move it away: descartes keeps its files in a directory of that name", "%s is not a directory", path)
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
	return view.Relative(root, path)
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// session identifies the session of the program that started us: resume prefers a loop of the same session.
func session() string {
	return cmp.Or(os.Getenv("DESCARTES_SESSION_ID"), os.Getenv("CLAUDE_CODE_SESSION_ID"))
}

// fromHere is the flag that a command needs if it is typed in another project than root's. Below that folder it is needed because of paths, which
// begin where they are typed.
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

// openRepo opens the repository that holds root. What loop.Protected names is no part of an attempt's work.
func openRepo(ctx context.Context, root string, job *loop.Job) (*gitops.Repo, error) {
	if job == nil {
		return openHooked(ctx, root, &loop.Config{}, nil)
	}
	return openHooked(ctx, root, &job.Config, job.File)
}

func openHooked(ctx context.Context, root string, c *loop.Config, list *tasks.File) (*gitops.Repo, error) {
	opt := gitops.Options{Dir: root, Env: os.Environ(), Hooks: cmp.Or(c.Git.Hooks, "run"), HookTimeout: time.Duration(c.Git.HookTimeout) * time.Second}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find our own program: %w", err)
	}
	opt.Shim = []string{self, proc.ShimCommand}
	top := gitTop(root)
	fixed, others := loop.Protected(c, root, list)
	if c.InPlace {
		others = append(others, filepath.Join(root, ".loop")+"/") // the loop writes there meanwhile
	}
	for _, path := range append(fixed, others...) {
		opt.Protect = append(opt.Protect, protected(top, path)...)
	}
	return gitops.Open(ctx, opt)
}

// protected is a path, a directory's with a final slash, as the repository knows it, and what it names if it is a link.
func protected(top, path string) (out []string) {
	slash := path[len(strings.TrimRight(path, "/")):]
	if rel, ok := below(top, path); ok {
		out = append(out, rel+slash)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil && real != filepath.Clean(path) { // what a link names is what is written
		if rel, ok := below(top, real); ok && rel != "." {
			out = append(out, rel+slash)
		}
	}
	return out
}

// gitTop is the folder at or above dir that has .git, or dir.
func gitTop(dir string) string {
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Lstat(filepath.Join(d, ".git")); err == nil {
			return d
		}
		if d == filepath.Dir(d) {
			return dir
		}
	}
}

// below is path as a slash path relative to top, where it lies below it.
func below(top, path string) (string, bool) {
	rel, err := filepath.Rel(top, path)
	return filepath.ToSlash(rel), err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// unfinished is the loop over a tag that a new start resumes, or nil.
func unfinished(root, tag string) (*store.Saved, error) {
	if tasks.ValidTag(tag) != nil {
		return nil, nil
	}
	return store.NewHome(root).Unfinished(tag)
}
