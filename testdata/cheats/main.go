// Command cheats tries descartes gate on commits that cheat and on honest ones, and prints what became of each. A file
// *.txtar beside it is a project: base/... are its files, and each section "cheat: NAME" or "honest: NAME" is a
// shell script that makes a commit of it. Lines at the head of a section: "title: TEXT" is the commit's subject,
// "passes" says that it is known to be done without a word, "refused" that the honest is refused.
//
//	make test-cheats CHEATS=word
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

func main() {
	binary := flag.String("binary", "./descartes", "the program")
	only := flag.String("only", "", "run only what has this in its name or its project's")
	npm := flag.String("npm", os.Getenv("RECORDER_NPM"), "folder with npm-NAME/node_modules for projects that need them")
	verbose := flag.Bool("v", false, "print what is said of each")
	flag.Parse()
	if err := try(*binary, *only, *npm, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "cheats:", err)
		os.Exit(1)
	}
}

// project is one file of the table.
type project struct {
	name, verify, needs, npm string
	truth, want              string // a command, and what it prints where the code is right
	base                     []txtar.File
	cases                    []attempt
}

// attempt is one commit.
type attempt struct {
	name, title, script string
	honest, known       bool // known: it is known to be judged wrong
}

func parse(file string) (p project, err error) {
	a, err := txtar.ParseFile(file)
	if err != nil {
		return p, err
	}
	p.name = strings.TrimSuffix(filepath.Base(file), ".txtar")
	for line := range strings.Lines(string(a.Comment)) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch word {
		case "verify":
			p.verify = rest
		case "needs":
			p.needs = rest
		case "npm":
			p.npm = rest
		case "truth":
			p.truth, p.want, _ = strings.Cut(rest, " => ")
		}
	}
	for _, f := range a.Files {
		kind, name, _ := strings.Cut(f.Name, ": ")
		if path, ok := strings.CutPrefix(f.Name, "base/"); ok {
			p.base = append(p.base, txtar.File{Name: path, Data: f.Data})
			continue
		}
		one := attempt{name: name, title: "Do the task", honest: kind == "honest"}
		for line := range strings.Lines(string(f.Data)) {
			title, ok := strings.CutPrefix(strings.TrimSpace(line), "title: ")
			switch word := strings.TrimSpace(line); {
			case one.script != "":
				one.script += line
			case ok:
				one.title = title
			case word == "passes" && !one.honest, word == "refused" && one.honest:
				one.known = true
			default:
				one.script += line
			}
		}
		p.cases = append(p.cases, one)
	}
	return p, nil
}

func try(binary, only, npm string, verbose bool) error {
	binary, err := filepath.Abs(binary)
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join("testdata", "cheats", "*.txtar"))
	if err != nil {
		return err
	}
	var cheats, silent, honest, refused, odd int
	for _, file := range files {
		p, err := parse(file)
		if err != nil {
			return err
		}
		if p.verify == "" {
			continue // of another test
		}
		if lacks := p.lacks(npm); lacks != "" {
			fmt.Printf("%s: left out: %s is not here\n", p.name, lacks)
			continue
		}
		for _, c := range p.cases {
			if !strings.Contains(p.name+" "+c.name, only) {
				continue
			}
			got, says, err := p.judged(binary, npm, c)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", p.name, c.name, err)
			}
			wrong := c.honest && got == "refused" || !c.honest && got == "passes"
			mark := ""
			if wrong && !c.known || strings.HasPrefix(got, "no ") {
				odd++
				mark = "  <--"
			}
			kind := "cheat"
			if c.honest {
				kind = "honest"
				honest++
				if wrong {
					refused++
				}
			} else {
				cheats++
				if wrong {
					silent++
				}
			}
			fmt.Printf("%-8s %-6s %-8s %s%s\n", p.name, kind, got, c.name, mark)
			if verbose || mark != "" {
				fmt.Print(says)
			}
		}
	}
	fmt.Printf("%d cheats, %d done without a word; %d honest, %d refused\n", cheats, silent, honest, refused)
	if odd > 0 {
		return fmt.Errorf("%d are judged otherwise than the table says", odd)
	}
	return nil
}

func (p *project) lacks(npm string) string {
	for _, program := range strings.Fields(p.needs) {
		if _, err := exec.LookPath(program); err != nil {
			return program
		}
	}
	if _, err := os.Stat(filepath.Join(npm, "npm-"+p.npm)); p.npm != "" && err != nil {
		return p.npm
	}
	return ""
}

// judged makes the commit and has it judged: "refused", "named" or "passes". A cheat that fails plain checks or is
// right is "no cheat", an honest attempt that is wrong is "no work".
func (p *project) judged(binary, npm string, c attempt) (got, says string, err error) {
	dir, err := os.MkdirTemp("/var/tmp", "cheats-")
	if err != nil {
		return "", "", err
	}
	defer os.RemoveAll(dir)
	at := filepath.Join(dir, "repo")
	for _, f := range p.base {
		name := filepath.Join(at, f.Name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return "", "", err
		}
		if err := os.WriteFile(name, f.Data, 0o755); err != nil {
			return "", "", err
		}
	}
	if p.npm != "" {
		if err := os.CopyFS(filepath.Join(at, "node_modules"), os.DirFS(filepath.Join(npm, "npm-"+p.npm, "node_modules"))); err != nil {
			return "", "", err
		}
	}
	run := func(command string) (string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "sh", "-c", command)
		cmd.Dir = at
		cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "GIT_CONFIG_GLOBAL=/dev/null", "NO_COLOR=1",
			"XDG_STATE_HOME="+filepath.Join(dir, "state"))
		var both bytes.Buffer
		cmd.Stdout, cmd.Stderr = &both, &both
		err := cmd.Run()
		return both.String(), err
	}
	const commit = "git add -A && git -c user.name=N -c user.email=n@e commit -q --allow-empty -F .git/title"
	if out, err := run("git init -q -b main . && echo Base >.git/title && " + commit); err != nil {
		return "", "", errors.New(out)
	}
	if out, err := run("set -e\n" + c.script); err != nil {
		return "", "", fmt.Errorf("its script: %s", out)
	}
	if out, err := run("cat >.git/title <<'X'\n" + c.title + "\nX\n" + commit); err != nil {
		return "", "", errors.New(out)
	}
	plain, err := run(p.verify)
	if err != nil {
		return "no cheat", plain, nil
	}
	answer, _ := run(p.truth)
	if right := strings.TrimSpace(answer) == p.want; right != c.honest {
		return map[bool]string{true: "no work", false: "no cheat"}[c.honest], answer, nil
	}
	if out, err := run("git clean -xdfq -e node_modules"); err != nil {
		return "", "", errors.New(out)
	}
	out, _ := run("'" + binary + "' gate HEAD~1..HEAD --json --verify '" + strings.ReplaceAll(p.verify, "'", `'\''`) + "' 2>/dev/null")
	var verdict struct {
		Verdict string
		Commits []struct {
			Findings []struct{ Rule, Path, Text string }
			Tests    any
		}
	}
	if err := json.Unmarshal([]byte(out), &verdict); err != nil || len(verdict.Commits) == 0 {
		return "", "", fmt.Errorf("gate printed %q", out)
	}
	for _, f := range verdict.Commits[0].Findings {
		says += fmt.Sprintf("    %s: %s %s\n", f.Rule, f.Path, f.Text)
	}
	return verdict.Verdict, says + fmt.Sprintf("    %v\n", verdict.Commits[0].Tests), nil
}
