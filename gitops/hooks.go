package gitops

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"descartes/internal/plainfile"
)

// Hooks of the user's that a commit runs. Those that say something about the work or its message run where commits are
// checked, on what is to be committed: an agent may have written what they call. The others run only where git makes
// the commit with all of them, outside.
const (
	PreCommit  = "pre-commit"
	messageFor = "prepare-commit-msg"
	messageOf  = "commit-msg"
)

var commitHooks = []string{PreCommit, messageFor, messageOf, "post-commit", "reference-transaction",
	"post-index-change"}

// liveHooks names the executable commit hooks, and those that git takes from its configuration.
func liveHooks(l layout, set settings) (names []string) {
	for _, h := range commitHooks {
		if fi, err := os.Stat(filepath.Join(hooksDir(l, set), h)); err == nil && fi.Mode().IsRegular() &&
			fi.Mode()&0o111 != 0 {
			names = append(names, h)
		}
	}
	for _, key := range sortedKeys(set) {
		if name, ok := strings.CutSuffix(key, ".command"); ok && strings.HasPrefix(key, "hook.") {
			names = append(names, name)
		}
	}
	return names
}

func hooksOf(names []string) string {
	if len(names) == 1 {
		return "hook " + names[0]
	}
	return "hooks " + strings.Join(names, ", ")
}

func hooksDir(l layout, set settings) string {
	p, ok := set["core.hookspath"]
	switch {
	case !ok:
		return filepath.Join(l.commonDir, "hooks")
	case filepath.IsAbs(p):
		return p
	}
	return filepath.Join(l.root, p)
}

// sees are the hooks that run where commits are checked.
func (r *Repo) sees() (names []string) {
	if !r.cli.hooks || r.cli.hooksOutside {
		return nil
	}
	l := r.l
	if r.lender.root != "" {
		l = r.lender
	}
	for _, name := range liveHooks(l, r.set) {
		event, configured := r.set[name+".event"]
		if slices.Contains([]string{PreCommit, messageFor, messageOf}, name) ||
			configured && slices.Contains([]string{PreCommit, messageFor, messageOf}, event) && r.hasHookRun() {
			names = append(names, name)
		}
	}
	return names
}

// hasHookRun reports whether git can run a hook by itself.
func (r *Repo) hasHookRun() bool { return !r.cli.version.Before(Version{2, 36}) }

func (r *Repo) hears(events ...string) bool {
	return slices.ContainsFunc(r.sees(), func(name string) bool {
		return slices.Contains(events, name) || slices.Contains(events, r.set[name+".event"])
	})
}

// ChecksWork reports whether a hook is to look at what is committed, and ChecksMessage at the message.
func (r *Repo) ChecksWork() bool    { return r.hears(PreCommit) }
func (r *Repo) ChecksMessage() bool { return r.hears(messageFor, messageOf) }

// NotByUs says why commits that somebody else made cannot be taken as they are: "" where they can.
func (r *Repo) NotByUs() string {
	if names := r.sees(); r.byGit == "" && len(names) > 0 {
		return hooksOf(names)
	}
	return r.byGit
}

// hooksNote says which hooks run where, "" where there are none.
func (r *Repo) hooksNote() string {
	sees := r.sees()
	if !r.cli.hooks || r.cli.hooksOutside {
		return ""
	}
	rest := slices.DeleteFunc(liveHooks(r.l, r.set), func(name string) bool { return slices.Contains(sees, name) })
	var parts []string
	if len(sees) > 0 {
		parts = append(parts, hooksOf(sees)+" to run where commits are checked")
	}
	if len(rest) > 0 {
		parts = append(parts, hooksOf(rest)+" to run only with git.hooks=outside")
	}
	return strings.Join(parts, "; ")
}

// hookPlace is where the user's hooks lie in the .git of a slot, as its commands see it from the top of the tree.
const hookPlace = ".git/descartes-hooks"

// messageFile is where message hooks find the message, and leave it.
const messageFile = ".git/COMMIT_EDITMSG"

// PreCommitCommand lays the user's hooks into the slot, which stands at the commit that is to be the parent, and
// returns the command that runs those of a commit of a tree there. What they make and do not stage is gone afterwards. began is
// the commit whose hooks run, where they lie in the working tree.
func (s *Slot) PreCommitCommand(ctx context.Context, began string, tree Tree) (string, error) {
	return s.hookCommand(ctx, began, tree, s.runHook(PreCommit), "git clean -fdq >/dev/null 2>&1 || :")
}

// MessageCommand is PreCommitCommand for the hooks of a message, which they may change: it returns the name of the file
// that has it afterwards.
func (s *Slot) MessageCommand(ctx context.Context, began string, tree Tree, message string) (command, file string,
	err error) {
	if err := s.root.WriteFile(filepath.FromSlash(messageFile), []byte(message), 0o666); err != nil {
		return "", "", err
	}
	run := s.runHook(messageFor, messageFile, "message") + " && " + s.runHook(messageOf, messageFile)
	command, err = s.hookCommand(ctx, began, tree, run, "")
	return command, messageFile, err
}

// hookScript is the script in hookPlace that runs them.
const hookScript = "run"

// hookCommand is a command that runs hooks with the index of a commit, and something after them.
func (s *Slot) hookCommand(ctx context.Context, began string, tree Tree, run, after string) (string, error) {
	dir, err := s.layHooks(ctx, began)
	if err != nil {
		return "", fmt.Errorf("take the hooks: %w", err)
	}
	lines := []string{`cd "$(git rev-parse --show-toplevel)" || exit`, "export GIT_EDITOR=:",
		"hooks=" + shellWord(path.Join(hookPlace, dir)),
		"git read-tree -m -i " + string(tree) + " || exit", "git update-index -q --refresh || :", run, "code=$?"}
	if after != "" {
		lines = append(lines, after)
	}
	lines = append(lines, "exit $code\n")
	if err := s.layHook(hookScript, []byte(strings.Join(lines, "\n")), false); err != nil {
		return "", err
	}
	return `sh "$(git rev-parse --show-toplevel)/` + path.Join(hookPlace, hookScript) + `"`, nil
}

// runHook is the shell command for one hook.
func (s *Slot) runHook(name string, args ...string) string {
	if !s.hasHookRun() {
		return fmt.Sprintf(`{ [ ! -x "$hooks/%s" ] || "$hooks/%s" %s; }`, name, name, strings.Join(args, " "))
	}
	command := `git -c core.hooksPath="$hooks"`
	for _, key := range sortedKeys(s.set) {
		if strings.HasPrefix(key, "hook.") {
			command += " -c " + shellWord(key+"="+s.set[key])
		}
	}
	command += " hook run --ignore-missing " + name
	if len(args) > 0 {
		command += " -- " + strings.Join(args, " ")
	}
	return command
}

// mostHookFiles bounds how many files a folder of hooks has.
const mostHookFiles = 2000

// layHooks lays the user's hooks into hookPlace, and returns where in it they are. Those that lie in the project are as
// the commit has them with which a run began, or as the user has them where git does not (what husky generates), among
// links to what else the project has: an attempt may have rewritten them.
func (s *Slot) layHooks(ctx context.Context, began string) (dir string, err error) {
	if err := s.remove(hookPlace); err != nil {
		return "", err
	}
	user, from := s.user, hooksDir(s.user.l, s.user.set)
	rel, err := filepath.Rel(user.l.root, from)
	top, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
	if err != nil || !filepath.IsLocal(rel) || top == ".git" || rel == "." {
		return "hooks", s.copyHooks(from)
	}
	entries, err := os.ReadDir(s.tree)
	if err != nil {
		return "", err
	}
	if err := s.root.MkdirAll(hookPlace, 0o777); err != nil {
		return "", err
	}
	for _, e := range entries {
		if name := e.Name(); name != ".git" && name != top {
			if err := s.root.Symlink("../../"+name, path.Join(hookPlace, name)); err != nil {
				return "", err
			}
		}
	}
	if began != "" {
		b, err := user.cli.run(ctx, gitCall{args: []string{"ls-tree", "-r", "-z", began, "--", ":(top,literal)" + top}})
		if err != nil {
			return "", err
		}
		for _, entry := range nulSplit(b) {
			about, name, _ := strings.Cut(entry, "\t")
			words := strings.Fields(about)
			if len(words) < 3 || words[1] != "blob" {
				continue
			}
			data, err := user.objects.readAs(words[2], "blob")
			switch {
			case err != nil:
			case words[0] == "120000":
				err = s.layLink(name, string(data))
			default:
				err = s.layHook(name, data, words[0] == "100755")
			}
			if err != nil {
				return "", err
			}
		}
	}
	own, err := user.cli.run(ctx, gitCall{options: literally, args: []string{"ls-files", "-z", "-o", "--", top}})
	for _, name := range nulSplit(own) {
		at := filepath.Join(user.l.root, name)
		b, rerr := plainfile.Read(user.l.root, at, maxNamed)
		if fi, serr := os.Stat(at); rerr == nil && serr == nil {
			err = errors.Join(err, s.layHook(name, b, fi.Mode()&0o111 != 0))
		}
	}
	return filepath.ToSlash(rel), err
}

// copyHooks copies a folder of hooks that lies outside the project. A link into the project stays one: to the same file
// of the slot.
func (s *Slot) copyHooks(from string) error {
	seen := 0
	err := filepath.WalkDir(from, func(at string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(from, at)
		name := path.Join("hooks", filepath.ToSlash(rel))
		if seen++; seen > mostHookFiles {
			return fmt.Errorf("%s has more than %d files", from, mostHookFiles)
		}
		if e.IsDir() || strings.HasSuffix(name, ".sample") {
			return nil
		}
		real, err := filepath.EvalSymlinks(at)
		if err != nil {
			return nil // it leads nowhere
		}
		if in, err := filepath.Rel(s.user.l.root, real); err == nil && filepath.IsLocal(in) &&
			!holds(s.user.l.commonDir, real) {
			up := strings.Repeat("../", strings.Count(path.Join(hookPlace, name), "/"))
			return s.layLink(name, up+filepath.ToSlash(in))
		}
		fi, err := os.Stat(real)
		if err != nil || !fi.Mode().IsRegular() || fi.Size() > maxNamed {
			return nil
		}
		b, err := os.ReadFile(real)
		if err != nil {
			return nil // nobody may run it either
		}
		return s.layHook(name, b, fi.Mode()&0o111 != 0)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (s *Slot) layHook(name string, data []byte, run bool) error {
	mode := fs.FileMode(0o666)
	if run {
		mode = 0o777
	}
	at := path.Join(hookPlace, name)
	if err := s.root.MkdirAll(path.Dir(at), 0o777); err != nil {
		return err
	}
	if err := s.root.WriteFile(at, data, mode); err != nil {
		return err
	}
	return s.root.Chmod(at, mode&^0o022)
}

func (s *Slot) layLink(name, to string) error {
	at := path.Join(hookPlace, name)
	if err := s.root.MkdirAll(path.Dir(at), 0o777); err != nil {
		return err
	}
	return s.root.Symlink(to, at)
}
