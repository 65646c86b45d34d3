package source

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"descartes/internal/plainfile"
	"descartes/specbuild"
	"descartes/tasks"
	"descartes/tasks/plan"
)

const maxSpecFile = 4 << 20 // bytes of one spec file

// readPlan reads the plan for the specs and returns its text, "" without a plan.
func (j *Job) readPlan() (text string, err error) {
	path := j.Config.Scud.PlanPath
	if path == "" {
		return "", nil
	}
	if text, err = PlanText(j.Root, path); err != nil {
		return "", err
	}
	j.plan, err = plan.Parse(path, []byte(text))
	return text, err
}

// readStories reads the specification beside a spec-kit list whose tasks belong to user stories.
func (j *Job) readStories() error {
	if !slices.ContainsFunc(j.all, func(t tasks.Task) bool { return t.Story != "" }) {
		return nil
	}
	path := filepath.Join(filepath.Dir(j.File.Path()), "spec.md")
	text, err := ReadText(j.Root, path, maxSpecFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if rel, rerr := filepath.Rel(j.Root, path); rerr == nil && filepath.IsLocal(rel) {
		path = rel
	}
	if err == nil {
		j.stories, err = specbuild.ParseStories(path, []byte(text))
	}
	if err != nil {
		return fmt.Errorf("user stories: %w", err)
	}
	return nil
}

// besideNames returns the documents that lie beside a tasks.md of spec-kit, OpenSpec or Kiro in the folder rel, most
// important first, and the project-wide ones two folders above.
func besideNames(rel string) []string {
	names := []string{"spec.md", "requirements.md", "proposal.md", "plan.md", "design.md", "data-model.md",
		"research.md", "quickstart.md", "specs/*/spec.md", "contracts/*"}
	switch filepath.ToSlash(filepath.Dir(rel)) {
	case "specs":
		names = append(names, "../../.specify/memory/constitution.md")
	case "openspec/changes":
		names = append(names, "../../project.md")
	case ".kiro/specs":
		names = append(names, "../../steering/*.md")
	}
	return names
}

const maxBesideFiles = 40

// readBeside reads the documents beside a list in a folder of its own, except the plan from the settings.
func (j *Job) readBeside() {
	dir := filepath.Dir(j.File.Path())
	rel, err := filepath.Rel(j.Root, dir)
	if err != nil || rel == "." || !filepath.IsLocal(rel) || filepath.Base(j.File.Path()) != "tasks.md" {
		return
	}
	own := j.Config.Scud.PlanPath
	if !filepath.IsAbs(own) {
		own = filepath.Join(j.Root, own)
	}
	b := &specbuild.Beside{}
	for _, pattern := range besideNames(rel) {
		paths, _ := filepath.Glob(filepath.Join(globQuote(dir), filepath.FromSlash(pattern)))
		for _, path := range paths {
			if fi, err := os.Lstat(path); err != nil || !fi.Mode().IsRegular() || path == own ||
				len(b.Names) >= maxBesideFiles {
				continue
			}
			name, err := filepath.Rel(j.Root, path)
			if err != nil || !filepath.IsLocal(name) {
				continue
			}
			name = filepath.ToSlash(name)
			b.Names = append(b.Names, name)
			if filepath.Ext(path) != ".md" {
				continue
			}
			if text, err := ReadText(j.Root, path, maxSpecFile); err == nil { // otherwise only its name is mentioned
				if p, err := plan.Parse(name, []byte(text)); err == nil {
					b.Texts = append(b.Texts, p)
				}
			}
		}
	}
	if len(b.Names) > 0 {
		j.beside = b
	}
}

// globQuote escapes a path for use at the start of a pattern.
func globQuote(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// PlanText reads a plan of bounded size. Its path is relative to root, or absolute.
func PlanText(root, path string) (string, error) {
	text, err := ReadText(root, path, maxSpecFile*2)
	if err != nil {
		return "", fmt.Errorf("plan: %w", err)
	}
	return text, nil
}

// ReadText reads a text file of bounded size. path is relative to root, or absolute.
func ReadText(root, path string, limit int64) (string, error) {
	b, err := plainfile.Read(root, path, limit)
	if errors.Is(err, fs.ErrNotExist) {
		return "", &missingFile{path}
	}
	if err != nil {
		return "", err
	}
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	if err := specbuild.CheckText(b); err != nil {
		return "", fmt.Errorf("%s %w", path, err)
	}
	return string(b), nil
}

// missingFile is the error for a named file that does not exist.
type missingFile struct{ path string }

func (e *missingFile) Error() string { return e.path + ": no such file" }

func (e *missingFile) Unwrap() error { return fs.ErrNotExist }
