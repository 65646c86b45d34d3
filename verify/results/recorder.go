package results

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"descartes/internal/plainfile"
)

// Recorder stands beside the runners of tests that a command starts: by PATH, PYTHONPATH and NODE_OPTIONS they note
// their single results in files of its folder, and the command and what it prints stay as they are. Known are go test,
// cargo test, pytest, unittest, node's own runner, mocha, jest, vitest and bats. Code under test that looks for the
// files can write them too: it runs as the same user.
type Recorder struct{ dir string }

//go:embed recorder
var recorder embed.FS

// Lay puts a recorder into a folder that it makes. The command has to see it, and may write in it.
func Lay(dir string) (*Recorder, error) {
	err := fs.WalkDir(recorder, "recorder", func(name string, d fs.DirEntry, err error) error {
		to := filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(name, "recorder")))
		if err != nil || d.IsDir() {
			return errors.Join(err, os.MkdirAll(to, 0o700))
		}
		text, err := recorder.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o700)
	})
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "results"), 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("lay the recorder of test results: %w", err)
	}
	return &Recorder{dir}, nil
}

// GoOn has runners that stop at the first file that they cannot load go on with the others.
func (r *Recorder) GoOn() error {
	return os.WriteFile(filepath.Join(r.dir, "go-on"), nil, 0o600)
}

// Only has runners that can run these files of tests alone, paths below the project. Those of Go stand for their packages.
func (r *Recorder) Only(files []string) error {
	return os.WriteFile(filepath.Join(r.dir, "only"), []byte(strings.Join(files, "\n")+"\n"), 0o600)
}

// Narrowed reports whether one of them did: then some tests did not run.
func (r *Recorder) Narrowed() bool {
	_, err := os.Lstat(filepath.Join(r.dir, "results", "narrowed"))
	return err == nil
}

// Started reports whether a runner was started that notes results, or would have.
func (r *Recorder) Started() bool {
	entries, err := os.ReadDir(filepath.Join(r.dir, "results"))
	return err == nil && slices.ContainsFunc(entries, func(d os.DirEntry) bool { return d.Name() != "narrowed" })
}

// Argv is a command line with which a command runs beside the recorder, which it sees at the path at.
func (r *Recorder) Argv(at string, argv ...string) []string {
	return append([]string{"sh", path.Join(filepath.ToSlash(at), "run")}, argv...)
}

// Read takes what was noted; nil where nothing was, or too much to keep apart. A file that nobody of ours wrote so is
// left out.
func (r *Recorder) Read() (*Set, error) {
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return nil, fmt.Errorf("read the recorded test results: %w", err)
	}
	defer root.Close()
	var all collector
	golang := &output{pkgs: map[string]bool{}, seen: map[string]int{}}
	left := int64(maxBytes)
	err = fs.WalkDir(root.FS(), "results", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := plainfile.ReadIn(root, name, min(maxFile, left))
		if _, odd := errors.AsType[*plainfile.Error](err); odd {
			return nil
		}
		if err != nil {
			return err
		}
		left -= int64(len(text))
		read(path.Base(name), text, &all, golang)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the recorded test results: %w", err)
	}
	golang.wholePackages()
	all.take(&golang.golang)
	if len(all.tests) == 0 {
		return nil, nil
	}
	return all.set(), nil
}

// read takes the results of one file by its name, which says whose it is.
func read(name string, text []byte, to *collector, golang *output) {
	switch whose, rest, _ := strings.Cut(name, "."); {
	case whose == "go":
		for line := range bytes.Lines(text) {
			if bytes.HasPrefix(line, []byte(`{"`)) {
				golang.event(string(line))
			}
		}
	case whose == "rust":
		program, _, _ := strings.Cut(rest, ".")
		for line := range bytes.Lines(text) {
			if word, test, ok := strings.Cut(strings.TrimSpace(string(line)), " "); ok {
				if s, known := rustStates[strings.TrimSuffix(word, ":")]; known {
					to.add(program+"::"+test, s)
				}
			}
		}
	case strings.HasSuffix(name, ".tap"):
		if set, err := Output(bytes.NewReader(text)); err == nil && set != nil {
			to.addSet(set)
		}
	case strings.HasSuffix(name, ".ndjson"):
		notes(bytes.NewReader(text), to)
	}
}

// rustStates are libtest's words in its log.
var rustStates = map[string]status{"ok": passed, "failed": failed, "ignored": skipped}

// notes reads lines of ours: ["name", "pass"].
func notes(r io.Reader, to *collector) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var one [2]string
		if json.Unmarshal(lines.Bytes(), &one) != nil {
			continue
		}
		switch one[1] {
		case "pass":
			to.add(one[0], passed)
		case "fail":
			to.add(one[0], failed)
		case "skip":
			to.add(one[0], skipped)
		case "load":
			to.add(one[0]+unloaded, failed)
		}
	}
}

// Endings of the names of what failed and is no test: what could not be built, what failed as a whole, and what could
// not be loaded.
const (
	unbuilt  = " (build)"
	whole    = " (package)"
	unloaded = " (load)"
)

// IsTest reports whether a name is that of a test, and not of what could not be built or loaded.
func IsTest(name string) bool {
	return !strings.HasSuffix(name, unbuilt) && !strings.HasSuffix(name, whole) && !strings.HasSuffix(name, unloaded)
}
