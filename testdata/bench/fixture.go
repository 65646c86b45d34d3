package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// shape is a task list: how many tasks, and which earlier ones each depends on (numbered from 1).
type shape struct {
	tasks int
	deps  func(id int) []int
	files int  // beside the list; 0 is 50
	tests bool // each task has a test
}

func wide(n int) shape { return shape{tasks: n, deps: func(int) []int { return nil }} }

// among is the same list in a repository of that many files.
func (s shape) among(files int) shape {
	s.files = files
	return s
}

// layered has layers of equal width; each task depends on three of the layer before.
func layered(layers, width int) shape {
	return shape{tasks: layers * width, deps: func(id int) []int {
		i := id - 1
		if i < width {
			return nil
		}
		first := (i/width-1)*width + 1
		return []int{first + i%width, first + (i+1)%width, first + (i+7)%width}
	}}
}

// repository makes a small git repository with the task list as tag "t" in a new folder.
func (b *runner) repository(s shape) (string, error) {
	b.made++
	dir := filepath.Join(b.dir, fmt.Sprintf("repo-%d", b.made))
	if err := os.MkdirAll(filepath.Join(dir, ".scud", "tasks"), 0o755); err != nil {
		return "", err
	}
	if err := s.write(filepath.Join(dir, ".scud", "tasks", "t.json")); err != nil {
		return "", err
	}
	for i := range max(s.files, 50) {
		name := filepath.Join(dir, fmt.Sprintf("file%d.txt", i))
		if i >= 50 {
			name = filepath.Join(dir, fmt.Sprintf("d%d", i/100), filepath.Base(name))
		}
		if i%100 == 0 || i == 50 {
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				return "", err
			}
		}
		if err := os.WriteFile(name, []byte("text\n"), 0o644); err != nil {
			return "", err
		}
	}
	if s.tests {
		if err := os.Mkdir(filepath.Join(dir, "tests"), 0o755); err != nil {
			return "", err
		}
		for id := 1; id <= s.tasks; id++ {
			if err := os.WriteFile(filepath.Join(dir, "tests", fmt.Sprintf("%d.test.sh", id)), []byte("true\n"), 0o644); err != nil {
				return "", err
			}
		}
	}
	for _, args := range [][]string{
		{"init", "-q"}, {"config", "user.name", "Bench"}, {"config", "user.email", "bench@example.org"},
		{"add", "-A"}, {"-c", "gc.auto=0", "commit", "-q", "-m", "start"},
	} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("git %v: %w\n%s", args, err, out)
		}
	}
	return dir, nil
}

func (s shape) write(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	fmt.Fprint(w, "{\n  \"tag\": \"t\",\n  \"tasks\": [")
	for id := 1; id <= s.tasks; id++ {
		if id > 1 {
			fmt.Fprint(w, ",")
		}
		fmt.Fprintf(w, "\n    {\"id\": %d, \"title\": \"Task number %d\", \"status\": \"pending\", \"complexity\": 1, \"depends_on\": [", id, id)
		for i, d := range s.deps(id) {
			if i > 0 {
				fmt.Fprint(w, ", ")
			}
			fmt.Fprint(w, d)
		}
		fmt.Fprint(w, "]}")
	}
	fmt.Fprint(w, "\n  ]\n}\n")
	return w.Flush()
}
