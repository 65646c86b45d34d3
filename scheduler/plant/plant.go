// Package plant plants faults in copies of the machines: plain mistakes, each of which somebody will make one day. One
// that no random night finds is a law that is missing.
package plant

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fault is an edit of a file, which is named as the test's folder sees it. old stands there once.
type fault struct{ name, file, old, new string }

// read returns the faults of testdata/faults.diff.
func read(t *testing.T) (list []fault) {
	t.Helper()
	text, err := os.ReadFile("testdata/faults.diff")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(text), "\n== ")[1:] {
		name, block, _ := strings.Cut(block, "\n")
		file, edit, _ := strings.Cut(block, "\n")
		var old, new []string
		for line := range strings.Lines(strings.TrimRight(edit, "\n")) {
			switch line = strings.TrimSuffix(line, "\n"); {
			case strings.HasPrefix(line, "-"):
				old = append(old, line[1:])
			case strings.HasPrefix(line, "+"):
				new = append(new, line[1:])
			default:
				t.Fatalf("fault %s: a line is neither old nor new: %q", name, line)
			}
		}
		list = append(list, fault{name, file, strings.Join(old, "\n"), strings.Join(new, "\n")})
	}
	return list
}

// Nights is in how many random nights a fault has to be found.
const Nights = 5000

// Apply holds that each edit still has its place, and only one.
func Apply(t *testing.T) {
	t.Helper()
	for _, f := range read(t) {
		src, err := os.ReadFile(f.file)
		if n := strings.Count(string(src), f.old); err != nil || n != 1 {
			t.Errorf("%s: %q stands in %s %d times: %v", f.name, f.old, f.file, n, err)
		}
	}
}

// Find builds the tests of the package over a copy with one fault after the other, plays nights until a law is broken,
// and prints a table: the fault, the night that found it, the law. pattern says which faults; "" is none of them. run
// is a run of the go command.
func Find(t *testing.T, pattern string, run func(args ...string) ([]byte, error)) {
	t.Helper()
	if pattern == "" {
		t.Skip("make test-sim FAULTS=. plants them")
	}
	want, law := regexp.MustCompile(pattern), regexp.MustCompile(`seed (\d+): (.*)`)
	planted, found := 0, 0
	for _, f := range read(t) {
		if !want.MatchString(f.name) {
			continue
		}
		planted++
		out, err := run("test", "-vet=off", "-ldflags=-s -w", "-overlay", overlay(t, f), "-run", "TestNights$", ".", "-args",
			"-nights", fmt.Sprint(Nights))
		switch m := law.FindAllStringSubmatch(string(out), -1); {
		case err == nil:
			t.Errorf("%-60s not found in %d nights", f.name, Nights)
		case m == nil:
			t.Errorf("%-60s does not build: %s", f.name, out)
		default:
			found++
			last := m[len(m)-1]
			fmt.Printf("%-60s %5s  %.100s\n", f.name, last[1], last[2])
		}
	}
	fmt.Printf("%d of %d planted faults found within %d nights\n", found, planted, Nights)
}

// overlay has the go command read an edited copy of a file.
func overlay(t *testing.T, f fault) string {
	t.Helper()
	file, err := filepath.Abs(f.file)
	if err != nil {
		t.Fatal(err)
	}
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(src), f.old, f.new, 1)
	if strings.Contains(f.new, "calls++") {
		text += "\nvar calls int\n"
	}
	dir := t.TempDir()
	edited, list := filepath.Join(dir, filepath.Base(file)), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(edited, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: edited}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(list, replace, 0o666); err != nil {
		t.Fatal(err)
	}
	return list
}
