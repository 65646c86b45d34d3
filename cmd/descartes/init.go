package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"descartes/internal/atomicfile"
	"descartes/internal/config"
	"descartes/internal/plainfile"
	"descartes/internal/terminal"
	"descartes/tasks"
)

// initFiles holds what init writes. Its folders are named for what asks for them.
//
//go:embed all:init
var initFiles embed.FS

func newInitCmd() *cobra.Command {
	var dir string
	var claude, opencode, force, dryRun bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write a commented descartes.yaml and a sample tag, or commands for an editor's agent",
		Long: `Write a commented descartes.yaml and a sample tag into the project, or, with --claude or --opencode,
commands with which Claude Code or opencode start, watch and stop loops.

  descartes init
  descartes init --claude      # /ralph-wiggum:ralph-loop, :cancel-ralph, :help
  descartes init --opencode    # /ralph-wiggum/ralph-loop and so on

A file that is there already is left alone, unless --force replaces it. A project that has tasks gets no
sample.`,
		Args: takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := findRoot(dir)
			if err != nil {
				return err
			}
			w := initWriter{root: root, force: force, dryRun: dryRun}
			if claude {
				w.tree("claude", filepath.Join(".claude", "plugins"))
				w.next("in Claude Code: /plugin marketplace add ./.claude/plugins, then /plugin install ralph-wiggum@descartes",
					"or for one session: claude --plugin-dir .claude/plugins/ralph-wiggum")
			}
			if opencode {
				w.tree("opencode", filepath.Join(".opencode", "command"))
				w.next("in opencode: /ralph-wiggum/ralph-loop TAG")
			}
			if !claude && !opencode {
				w.project()
			}
			if w.err != nil {
				return w.err
			}
			return write(cmd.OutOrStdout(), w.text())
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "working-dir", ".", "write to the project of this `directory`")
	f.BoolVar(&claude, "claude", false, "write a plugin for Claude Code")
	f.BoolVar(&opencode, "opencode", false, "write commands for opencode")
	f.BoolVar(&force, "force", false, "replace files that are there")
	f.BoolVar(&dryRun, "dry-run", false, "say what would be written, and write nothing")
	return cmd
}

// initWriter writes files below root and remembers what it did; the first error ends its work.
type initWriter struct {
	root          string
	force, dryRun bool
	lines, steps  []string
	err           error
}

// project writes what a project needs to begin with.
func (w *initWriter) project() {
	w.file("project/descartes.yaml", "descartes.yaml")
	tag, verify := "sample", ""
	if _, _, ok := detect(w.root); !ok {
		verify = ` --verify "test -s greeting.txt"`
	}
	if known := tasks.Known(w.root); len(known) > 0 {
		tag = known[0]
		if verify != "" {
			verify = ` --verify "your test command"`
		}
		w.lines = append(w.lines, fmt.Sprintf("no sample tag: there are tasks already (%s)", strings.Join(known[:min(3, len(known))], ", ")))
	} else {
		w.file("project/sample.json", filepath.Join(".scud", "tasks", "sample.json"))
	}
	w.next("descartes doctor", "descartes waves --scud-tag "+terminal.Quote(tag), "descartes loop start --scud-tag "+terminal.Quote(tag)+verify)
}

// tree writes all files of one folder of initFiles.
func (w *initWriter) tree(from, to string) {
	from = path.Join("init", from)
	err := fs.WalkDir(initFiles, from, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel := strings.TrimPrefix(name, from+"/")
			w.file(strings.TrimPrefix(name, "init/"), filepath.Join(to, filepath.FromSlash(rel)))
		}
		return err
	})
	w.err = errors.Join(w.err, err)
}

// file writes one file, unless something else has its place. It never writes through a link.
func (w *initWriter) file(from, to string) {
	if w.err != nil {
		return
	}
	text, err := initFiles.ReadFile(path.Join("init", from))
	if err != nil {
		w.err = err
		return
	}
	full := filepath.Join(w.root, to)
	if fi, err := os.Lstat(full); err == nil && !fi.Mode().IsRegular() {
		w.err = badInput("remove it first", "init: %s is not a regular file", to)
		return
	}
	old, err := plainfile.Read(w.root, full, config.MaxFile)
	switch {
	case err == nil && bytes.Equal(old, text):
		w.lines = append(w.lines, "unchanged "+to)
		return
	case err == nil && !w.force:
		w.lines = append(w.lines, "kept "+to+", which differs (--force replaces it)")
		return
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		w.err = badInput("", "init: %w", err)
		return
	}
	if w.dryRun {
		w.lines = append(w.lines, "would write "+to)
		return
	}
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		w.err = badInput("", "init: %w", err)
		return
	}
	if err := atomicfile.Write(atomicfile.OS(), full, text, 0o644); err != nil {
		w.err = fmt.Errorf("init: %w", err)
		return
	}
	w.lines = append(w.lines, "wrote "+to)
}

func (w *initWriter) next(steps ...string) { w.steps = append(w.steps, steps...) }

func (w *initWriter) text() string {
	var b strings.Builder
	for _, l := range w.lines {
		b.WriteString(terminal.Clean(l) + "\n")
	}
	b.WriteString("\nNext:\n")
	for _, s := range w.steps {
		b.WriteString("  " + terminal.Clean(s) + "\n")
	}
	return b.String()
}
