package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"descartes/internal/plainfile"
	"descartes/internal/redact"
	"descartes/internal/terminal"
	"descartes/launch"
	"descartes/loop/store"
	"descartes/view"
	"descartes/view/print"
)

// inJob reports whether we run in a CI job, such as GitHub's or GitLab's: whoever reads our output is elsewhere.
func inJob() bool { return os.Getenv("CI") == "true" }

// check refuses how a run may not be called.
func (s *settings) check(root string) error {
	if err := s.checkReports(root); err != nil {
		return err
	}
	for _, code := range s.OkExit {
		if n, err := strconv.Atoi(code); err != nil || n < 1 || n > 255 || n == exitError || n == exitInput {
			return badInput("for example --ok-exit 6", "--ok-exit %q is not an exit status that may count as success",
				code)
		}
	}
	if s.Name != "" {
		if err := store.ValidID(s.Name); err != nil {
			return badInput("", "%w", err)
		}
	}
	return nil
}

// checkReports refuses reports that could not be written when the run is over.
func (s *settings) checkReports(root string) error {
	for _, one := range []struct{ flag, path string }{{"--junit", s.JUnit}, {"--summary", s.Summary}} {
		if one.path == "" {
			continue
		}
		path := launch.Absolute(s.dirPath(), one.path)
		if err := plainfile.Writable(root, path); err != nil {
			return badInput("", "%s %w", one.flag, err)
		}
		dir := filepath.Dir(path)
		if dir == filepath.Join(root, ".descartes") { // which the run makes
			continue
		}
		if fi, err := os.Stat(dir); err != nil || !fi.IsDir() {
			return badInput("mkdir -p "+terminal.Quote(dir), "%s %s: there is no folder %s", one.flag, one.path, dir)
		}
		if fi, err := os.Stat(path); err == nil && fi.IsDir() {
			return badInput("", "%s %s: it is a folder", one.flag, one.path)
		}
	}
	return nil
}

// reports are the files that were asked for, as git sees them.
func (s *settings) reports() []string {
	var out []string
	for _, p := range []string{s.JUnit, s.Summary} {
		if p == "" {
			continue
		}
		p = launch.Absolute(s.dirPath(), p)
		if real, err := realDir(filepath.Dir(p)); err == nil {
			p = filepath.Join(real, filepath.Base(p))
		}
		out = append(out, p)
	}
	return out
}

// ends is how the program ends with an exit status other than 0: well, where that was said to be as good.
func (s *settings) ends(code int, p *printer) error {
	if s.exits(code) == exitDone {
		p.say("exit status %d counts as success (--ok-exit)", code)
		return nil
	}
	return quiet(code)
}

// exits is what the program exits with where a run ended with that code.
func (s *settings) exits(code int) int {
	if slices.Contains(s.OkExit, strconv.Itoa(code)) {
		return exitDone
	}
	return code
}

// report writes the files that were asked for. Nobody asked for the job's page: a run ends as it does without it.
func (s *settings) report(sum *view.Loop, p *printer, m *redact.Redactor) error {
	page := ""
	if s.Summary == "" && os.Getenv("GITHUB_ACTIONS") == "true" {
		page = os.Getenv("GITHUB_STEP_SUMMARY")
	}
	if s.JUnit == "" && s.Summary == "" && page == "" {
		return nil
	}
	sum.Away = s.CI || page != "" || inJob()
	var errs []error
	if s.JUnit != "" {
		errs = append(errs, writeReport(sum.Run.Root, launch.Absolute(s.dirPath(), s.JUnit),
			m.Bytes(print.JUnit(sum))))
	}
	if s.Summary != "" {
		errs = append(errs, writeReport(sum.Run.Root, launch.Absolute(s.dirPath(), s.Summary),
			m.Bytes(print.Markdown(sum))))
	}
	if page != "" {
		if err := appendTo(page, m.Bytes(print.Markdown(sum))); err != nil {
			p.warn(err.Error())
		}
	}
	return errors.Join(errs...)
}

// appendTo adds a page to a file to which the other steps of a job add theirs.
func appendTo(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("write the job's summary: %w", err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write the job's summary: %w", err)
	}
	return nil
}

func writeReport(root, path string, data []byte) error {
	if err := plainfile.Writable(root, path); err != nil {
		return fmt.Errorf("report %w", err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil { // it could be when the run began
		return &failure{code: exitError, err: fmt.Errorf("write report: %w", err)}
	}
	return nil
}
