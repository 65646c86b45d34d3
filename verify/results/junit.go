package results

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/bmatcuk/doublestar/v4"

	"descartes/internal/plainfile"
)

// Files are the files that a check writes its results to, as they were before it ran.
type Files struct {
	dir      string
	patterns []string
	before   map[string]fs.FileInfo
}

// Bounds of what is read of one run.
const (
	maxFiles = 5000
	maxFile  = 64 << 20  // bytes
	maxBytes = 256 << 20 // of all
)

// Watch looks at the files of some patterns below a folder, before a check runs.
func Watch(dir string, patterns []string) (*Files, error) {
	f := &Files{dir: dir, patterns: patterns}
	var err error
	f.before, err = f.look()
	return f, err
}

// look finds the files. No link to a folder is followed.
func (f *Files) look() (map[string]fs.FileInfo, error) {
	found := map[string]fs.FileInfo{}
	dir := os.DirFS(f.dir)
	for _, p := range f.patterns {
		err := doublestar.GlobWalk(dir, p, func(path string, d fs.DirEntry) error {
			info, err := d.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			if len(found) >= maxFiles {
				return fmt.Errorf("more than %d files of results match %s", maxFiles, p)
			}
			found[path] = info
			return nil
		}, doublestar.WithNoFollow(), doublestar.WithFilesOnly())
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Read reads the files that were written since. none says that no file was; a file that is not JUnit XML is an error.
func (f *Files) Read() (s *Set, none bool, err error) {
	now, err := f.look()
	if err != nil {
		return nil, false, err
	}
	var all collector
	none = true
	left := int64(maxBytes)
	for path, info := range now {
		if was := f.before[path]; was != nil && os.SameFile(was, info) && was.ModTime().Equal(info.ModTime()) &&
			was.Size() == info.Size() {
			continue
		}
		if left -= info.Size(); left < 0 {
			return nil, false, fmt.Errorf("the files of results have more than %d MiB", maxBytes>>20)
		}
		none = false
		if info.Size() > maxFile {
			return nil, false, fmt.Errorf("%s: it has more than %d MiB", path, maxFile>>20)
		}
		if err := f.read(path, &all); err != nil {
			return nil, false, fmt.Errorf("%s: %w", path, err)
		}
	}
	if none {
		return nil, true, nil
	}
	return all.set(), false, nil
}

func (f *Files) read(path string, to *collector) (err error) {
	file, err := plainfile.Open(f.dir, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return readJUnit(io.LimitReader(file, maxFile), to)
}

// readJUnit reads the test cases of a JUnit XML file, in whatever suites they stand.
func readJUnit(r io.Reader, to *collector) error {
	d := xml.NewDecoder(r)
	// names are made valid where they are kept
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil }
	name, state, suites := "", passed, 0
	inside := false
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			if suites == 0 {
				return errors.New("not JUnit XML: it has no testsuite")
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("not JUnit XML: %w", err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			switch t.Name.Local {
			case "testsuite", "testsuites":
				suites++
			case "testcase":
				inside, state, name = true, passed, caseName(t.Attr)
			case "failure", "error":
				state = failed
			case "skipped":
				if state == passed {
					state = skipped
				}
			}
		case xml.EndElement:
			if t.Name.Local == "testcase" && inside {
				to.add(name, state)
				inside = false
			}
		}
	}
}

// caseName is the name of a test case, with its class.
func caseName(attrs []xml.Attr) string {
	class, name := "", ""
	for _, a := range attrs {
		switch a.Name.Local {
		case "classname":
			class = a.Value
		case "name":
			name = a.Value
		}
	}
	if class == "" || class == name {
		return name
	}
	return class + "." + name
}
