package main

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// demoFiles holds the demo's project and its agent. Go files and go.mod carry the suffix .txt, so that
// they belong to the demo's module and not to ours.
//
//go:embed all:demo
var demoFiles embed.FS

// installDemo copies one folder of demoFiles to dir.
func installDemo(from, dir string) error {
	root := path.Join("demo", from)
	return fs.WalkDir(demoFiles, root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(name, root)))
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		text, err := demoFiles.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(strings.TrimSuffix(to, ".txt"), text, 0o644)
	})
}

// emptyFolder makes dir, which must not exist yet or hold nothing. Without a name it is a new
// temporary folder.
func emptyFolder(dir string) (string, error) {
	if dir == "" {
		tmp, err := os.MkdirTemp("", "descartes-demo-")
		if err != nil {
			return "", err
		}
		return filepath.EvalSymlinks(tmp)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("%s is not empty", dir)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}
