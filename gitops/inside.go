package gitops

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"descartes/internal/plainfile"
	"descartes/internal/proc"
)

// Filters and merge drivers are programs that git's configuration names, and an agent may have written what they run:
// a script of the project, or what such a program reads there. So a git command that may start one runs in a sandbox:
// it sees the working tree and the repository, writes a folder of ours, and the working tree alone where that is what
// it is for. What it stores leaves as a pack, its index as a file, and what git-lfs stores by its hash.

// Places are what a git command in a sandbox sees besides what commands of a check see.
type Places struct {
	Read, Write []string
	Sealed      []string          // in what it may write, what it may not
	Instead     map[string]string // folders that it writes in the place of others
}

// Box makes a sandbox for one command: the command line up to the program, without a network, and its variables. done
// removes what it needed. wrap is nil where this run has no sandbox.
type Box func(p Places) (wrap, env []string, done func(), err error)

// programs are the keys of settings that name filters and merge drivers.
var programs = map[string][]string{"filter.": {".clean", ".smudge", ".process"}, "merge.": {".driver"}}

// startsPrograms reports whether settings name a filter or merge driver.
func (s settings) startsPrograms() bool {
	for key := range s {
		for section, ends := range programs {
			if strings.HasPrefix(key, section) && slices.ContainsFunc(ends, func(end string) bool {
				return strings.HasSuffix(key, end)
			}) {
				return true
			}
		}
	}
	return false
}

// names are the files that settings name: more settings, and what git ignores and says of files.
func (s settings) names() (files []string) {
	for key, file := range s {
		include := strings.HasSuffix(key, ".path") && strings.HasPrefix(key, "include")
		if rest, ok := strings.CutPrefix(file, "~/"); ok {
			home, _ := os.UserHomeDir()
			file = filepath.Join(home, rest)
		}
		if (include || key == "core.excludesfile" || key == "core.attributesfile") && filepath.IsAbs(file) {
			files = append(files, file)
		}
	}
	slices.Sort(files)
	return files
}

// withoutFilters are options by which git knows no filter: for a command that reads files and needs none of them.
func (s settings) withoutFilters() (options []string) {
	for _, key := range sortedKeys(s) {
		for _, end := range programs["filter."] {
			if name, ok := strings.CutSuffix(key, end); ok && strings.HasPrefix(key, "filter.") {
				options = append(options, "-c", key+"=", "-c", name+".required=false")
			}
		}
	}
	return options
}

// effect is what a git command does with files.
type effect struct{ starts, index, files bool } // may start a filter or driver; writes the index; writes files

// effectOf is that of a command line.
func effectOf(args []string) effect {
	has := func(words ...string) bool {
		return slices.ContainsFunc(args, func(arg string) bool { return slices.Contains(words, arg) })
	}
	switch args[0] {
	case "add":
		return effect{starts: true, index: true}
	case "update-index":
		content := has("--refresh") || has("--add", "--info-only") && has("--stdin")
		return effect{starts: content, index: true}
	case "read-tree":
		return effect{starts: has("-u"), index: true, files: true}
	case "checkout-index":
		return effect{starts: true, index: true, files: true}
	case "status", "diff", "merge-tree":
		return effect{starts: true}
	case "ls-files":
		return effect{starts: has("-m")}
	case "cat-file":
		return effect{starts: has("--filters")}
	case "hash-object":
		return effect{starts: slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--path=") })}
	}
	return effect{}
}

// mostMade bounds, in bytes, what a git command in a sandbox may store.
const mostMade = 4 << 30

// inside runs a git command in the sandbox. within is false where there is none.
func (c *cli) inside(ctx context.Context, argv, env []string, call gitCall) (reply proc.Reply, within bool, err error) {
	dir := c.scratchIndex() + ".box"
	does := effectOf(call.args)
	p := Places{Read: append(objectDirs(c.l.commonDir), c.l.gitDir, c.l.commonDir, c.l.root), Write: []string{dir},
		Sealed: []string{c.l.gitDir, c.l.commonDir}}
	p.Read = append(p.Read, c.shown...)
	if !c.slot {
		p.Sealed = append(p.Sealed, filepath.Join(c.l.root, ".git"))
		for _, name := range c.guard {
			p.Sealed = append(p.Sealed, filepath.Join(c.l.root, name))
		}
	}
	if does.files {
		p.Write = append(p.Write, c.l.root)
	}
	for _, arg := range call.args {
		if place, ok := strings.CutPrefix(arg, "--prefix="); ok && filepath.IsAbs(place) {
			if err := os.MkdirAll(place, 0o777); err != nil {
				return reply, false, err
			}
			p.Write = append(p.Write, filepath.Clean(place))
		}
	}
	own := []string{"-c", "core.splitIndex=false"}
	if does.files && exists(c.lfs()) { // git-lfs finds objects there, and writes beside them
		tmp := filepath.Join(c.lfs(), "tmp")
		if err := os.MkdirAll(tmp, 0o777); err != nil {
			return reply, false, err
		}
		p.Read, p.Instead = append(p.Read, c.lfs()), map[string]string{tmp: filepath.Join(dir, "lfs")}
	} else {
		own = append(own, "-c", "lfs.storage="+filepath.Join(dir, "lfs"))
	}
	for _, name := range []string{"objects/info", "objects/pack", "lfs"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o777); err != nil {
			return reply, false, err
		}
	}
	defer plainfile.RemoveAll(dir)
	wrap, base, done, err := c.box(p)
	if err != nil || wrap == nil {
		return reply, false, err
	}
	defer done()
	for _, kv := range c.env {
		if strings.HasPrefix(kv, "GIT_") || strings.HasPrefix(kv, "LC_ALL=") {
			base = append(base, kv)
		}
	}
	env = slices.Concat(base, env, []string{"GIT_OBJECT_DIRECTORY=" + filepath.Join(dir, "objects"),
		"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + alternate(filepath.Join(c.l.commonDir, "objects"))})
	if does.index {
		index, lerr := c.lendIndex(cmp.Or(call.index, filepath.Join(c.l.gitDir, "index")), dir, call.index == "")
		if lerr != nil {
			return reply, true, lerr
		}
		defer func() { err = errors.Join(err, index.takeBack(err == nil)) }()
		env = append(env, "GIT_INDEX_FILE="+index.lent)
	}
	run := func(argv []string, stdin []byte, limit int) (proc.Reply, error) {
		return c.output(ctx, call.args[0], proc.Call{Argv: slices.Concat(wrap, argv), Dir: c.l.root, Env: env, Stdin: stdin,
			Limit: limit})
	}
	if reply, err = run(slices.Concat(argv[:1], own, argv[1:]), call.stdin, 0); err != nil {
		return reply, true, err
	}
	return reply, true, c.takeMade(ctx, dir, func(stdin []byte, args ...string) ([]byte, error) {
		reply, err := run(append([]string{argv[0]}, args...), stdin, mostMade)
		if err == nil && reply.Code != 0 {
			err = &gitError{args[0], reply.Code, lastLines(strings.TrimSpace(string(reply.Stderr)), 20)}
		}
		return reply.Stdout, err
	})
}

// alternate is a folder of objects as git's variable for several has it.
func alternate(dir string) string {
	if strings.ContainsAny(dir, `:"`) {
		return strconv.Quote(dir)
	}
	return dir
}

// lentIndex is an index that a command in the sandbox has a copy of.
type lentIndex struct {
	real, lent, lock string
	was              fs.FileInfo // of the copy; nil: there was none
}

// lendIndex copies an index into dir. One that others use is locked meanwhile, as git does it.
func (c *cli) lendIndex(real, dir string, shared bool) (x lentIndex, err error) {
	x = lentIndex{real: real, lent: filepath.Join(dir, "index")}
	if shared {
		x.lock = real + ".lock"
		f, err := os.OpenFile(x.lock, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
		if errors.Is(err, fs.ErrExist) {
			return x, &gitError{"index", 128, "fatal: Unable to create '" + x.lock + "': File exists."}
		}
		if err != nil {
			return x, err
		}
		if err := f.Close(); err != nil {
			return x, err
		}
	}
	defer func() {
		if err != nil && x.lock != "" {
			_ = os.Remove(x.lock)
		}
	}()
	fi, err := os.Stat(real)
	if errors.Is(err, fs.ErrNotExist) {
		return x, nil
	}
	if err != nil {
		return x, err
	}
	b, err := os.ReadFile(real)
	if err == nil {
		err = os.WriteFile(x.lent, b, 0o600)
	}
	if err == nil { // which tells git what may have changed unnoticed
		err = errors.Join(os.Chmod(x.lent, fi.Mode().Perm()), os.Chtimes(x.lent, fi.ModTime(), fi.ModTime()))
	}
	if err == nil {
		x.was, err = os.Lstat(x.lent)
	}
	return x, err
}

// takeBack puts the index in its place, if git wrote one and it is wanted.
func (x lentIndex) takeBack(wanted bool) error {
	now, err := os.Lstat(x.lent)
	if wanted && err == nil && now.Mode().IsRegular() && (x.was == nil || !os.SameFile(now, x.was)) {
		if x.lock == "" {
			return os.Rename(x.lent, x.real)
		}
		if err = os.Rename(x.lent, x.lock); err == nil {
			return os.Rename(x.lock, x.real)
		}
		return errors.Join(err, os.Remove(x.lock))
	}
	if x.lock != "" {
		return os.Remove(x.lock)
	}
	return nil
}

// takeMade brings into the repository what a command in the sandbox stored in dir: git there makes a pack of it, whose
// objects git here looks at.
func (c *cli) takeMade(ctx context.Context, dir string, git func(stdin []byte, args ...string) ([]byte, error)) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	var ids bytes.Buffer
	err = eachFile(root, "objects", func(name string, fi fs.FileInfo) error {
		rel := strings.TrimPrefix(name, "objects")
		switch id := strings.ReplaceAll(rel, "/", ""); {
		case isID(id):
			ids.WriteString(id + "\n")
		case anObject(rel) && strings.HasSuffix(rel, ".idx"):
			b, err := plainfile.ReadIn(root, name, mostMade)
			if err == nil {
				b, err = git(b, "show-index")
			}
			if err != nil {
				return err
			}
			for line := range strings.Lines(string(b)) {
				if words := strings.Fields(line); len(words) > 1 && isID(words[1]) {
					ids.WriteString(words[1] + "\n")
				}
			}
		}
		return nil
	})
	if err == nil && ids.Len() > 0 {
		var pack []byte
		if pack, err = git(ids.Bytes(), "pack-objects", "--stdout", "-q"); err == nil {
			_, err = c.run(ctx, gitCall{args: []string{"unpack-objects", "-q", "--strict",
				"--max-input-size=" + strconv.Itoa(mostMade)}, stdin: pack})
		}
	}
	if err == nil {
		err = c.takeLFS(root)
	}
	if err != nil {
		return fmt.Errorf("take what git stored in the sandbox: %w", err)
	}
	return nil
}

// eachFile calls do for each plain file below a folder.
func eachFile(root *os.Root, dir string, do func(name string, fi fs.FileInfo) error) error {
	return fs.WalkDir(root.FS(), dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		return do(name, fi)
	})
}

// lfs is the folder where the user's git-lfs keeps what is its own.
func (c *cli) lfs() string {
	if dir := cmp.Or(c.storage, "lfs"); !filepath.IsAbs(dir) {
		return filepath.Join(c.l.commonDir, dir)
	}
	return c.storage
}

// takeLFS moves the objects that git-lfs stored to the user's, each if it is what its name says.
func (c *cli) takeLFS(from *os.Root) error {
	to := filepath.Join(c.lfs(), "objects")
	return eachFile(from, "lfs", func(name string, fi fs.FileInfo) error {
		id := path.Base(name)
		at := filepath.Join(to, id[:min(2, len(id))], id[min(2, len(id)):min(4, len(id))], id)
		if !strings.HasPrefix(name, "lfs/objects/") || len(id) != 64 || !isID(id) || exists(at) {
			return nil
		}
		src, err := from.Open(name)
		if err != nil {
			return err
		}
		defer src.Close()
		if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil {
			return err
		}
		dst, err := os.CreateTemp(filepath.Dir(at), ".descartes-*")
		if err != nil {
			return err
		}
		defer os.Remove(dst.Name())
		sum := sha256.New()
		_, err = io.Copy(io.MultiWriter(dst, sum), src)
		if err = errors.Join(err, dst.Chmod(0o444), dst.Sync(), dst.Close()); err != nil {
			return err
		}
		if hex.EncodeToString(sum.Sum(nil)) != id {
			return nil
		}
		return os.Rename(dst.Name(), at)
	})
}
