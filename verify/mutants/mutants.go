// Package mutants has the mutation tools of languages put small faults into changed code, and reads which of them no
// test noticed.
package mutants

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"descartes/internal/lazyregexp"
)

// Report is the file that a tool's command writes its results to, in the folder it runs in.
const Report = ".descartes-faults.json"

// Missing is the exit status of a command whose tool is not installed.
const Missing = 127

// File is a changed file, with its new lines.
type File struct {
	Path  string // with slashes, below the folder that the tool runs in
	Lines []Lines
}

// Lines is a range of lines, both ends included.
type Lines struct{ First, Last int }

// Fault is a small fault that a tool put into the code.
type Fault struct {
	Path     string
	Line     int
	What     string
	Survived bool // no test noticed it
}

func (f Fault) String() string { return fmt.Sprintf("%s:%d: %s", f.Path, f.Line, f.What) }

// Tool makes faults in one language.
type Tool struct {
	Name    string
	Install string // the command that installs it
	Project string // pattern of the file that a project in its language has
	suffix  *lazyregexp.Regexp
	// command puts faults into files: at most n where the tool knows such a number. test is the command that has to notice them.
	command func(files []File, n int, test string) string
	read    func(report []byte) ([]Fault, error)
}

// Tools are those of all languages.
func Tools() []*Tool {
	return []*Tool{
		{Name: "gremlins", Install: "go install github.com/go-gremlins/gremlins/cmd/gremlins@latest", Project: "go.mod", suffix: lazyregexp.New(`\.go$`), command: gremlins, read: readGremlins},
		{Name: "cosmic-ray", Install: "pip install cosmic-ray", Project: "*.py", suffix: lazyregexp.New(`\.py$`), command: cosmicRay, read: readCosmicRay},
		{Name: "stryker", Install: "npm install --save-dev @stryker-mutator/core", Project: "package.json", suffix: lazyregexp.New(`\.(?:[cm]?[jt]s|[jt]sx|vue|svelte)$`), command: stryker, read: readStryker},
		{Name: "cargo-mutants", Install: "cargo install cargo-mutants", Project: "Cargo.toml", suffix: lazyregexp.New(`\.rs$`), command: cargo, read: readCargo},
	}
}

// Of picks the files in the tool's language.
func (t *Tool) Of(files []File) (out []File) {
	for _, f := range files {
		if t.suffix.MatchString(f.Path) && len(f.Lines) > 0 {
			out = append(out, f)
		}
	}
	return out
}

// Command is for sh, in a copy of the project whose HEAD is the state before the change. It exits with Missing where
// the tool is not installed.
func (t *Tool) Command(files []File, n int, test string) string {
	return "rm -rf " + Report + "\n" + t.command(files, n, test)
}

// Read finds the faults in the changed lines in a tool's report, at most n of them, spread over all.
func (t *Tool) Read(report []byte, files []File, n int) ([]Fault, error) {
	all, err := t.read(report)
	if err != nil {
		return nil, fmt.Errorf("read the report of %s: %w", t.Name, err)
	}
	all = slices.DeleteFunc(all, func(f Fault) bool { return !fresh(f, files) })
	slices.SortStableFunc(all, func(a, b Fault) int { return cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line)) })
	if len(all) <= n {
		return all, nil
	}
	some := make([]Fault, n)
	for i := range some {
		some[i] = all[i*len(all)/n]
	}
	return some, nil
}

// fresh reports whether a fault is in a changed line.
func fresh(f Fault, files []File) bool {
	return slices.ContainsFunc(files, func(c File) bool {
		return c.Path == path.Clean(f.Path) && slices.ContainsFunc(c.Lines, func(l Lines) bool { return f.Line >= l.First && f.Line <= l.Last })
	})
}

var hunk = lazyregexp.New(`^@@ -\d+(?:,\d+)? \+(\d+)`)

// Changed finds the files with new lines in a diff of git's, whose context may be of any length.
func Changed(diff string) (files []File) {
	at, in := 0, false
	for line := range strings.Lines(diff) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.HasPrefix(line, "diff --git "):
			in = false
		case !in && strings.HasPrefix(line, "+++ "):
			name := strings.TrimPrefix(strings.TrimPrefix(line, "+++ "), "b/")
			if text, err := strconv.Unquote(strings.TrimPrefix(line, "+++ ")); err == nil {
				name = strings.TrimPrefix(text, "b/")
			}
			files = append(files, File{Path: strings.TrimSuffix(name, "\t")})
		case hunk.MatchString(line):
			var err error
			at, err = strconv.Atoi(hunk.FindStringSubmatch(line)[1])
			in = err == nil && at < 1<<30
		case !in || len(files) == 0 || strings.HasPrefix(line, "-") || strings.HasPrefix(line, `\`):
		case strings.HasPrefix(line, "+"):
			f := &files[len(files)-1]
			if n := len(f.Lines); n > 0 && f.Lines[n-1].Last == at-1 {
				f.Lines[n-1].Last = at
			} else {
				f.Lines = append(f.Lines, Lines{at, at})
			}
			at++
		default:
			at++
		}
	}
	return slices.DeleteFunc(files, func(f File) bool { return len(f.Lines) == 0 || f.Path == "/dev/null" })
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// aside runs commands of tools that copy the folder which they run in: in a copy without .git and .descartes, whose .git leads to the project's.
func aside(commands string) string {
	return "here=$PWD top=$(git rev-parse --show-toplevel) below=$(git rev-parse --show-prefix) && copy=$(mktemp -d) || exit 1\n" +
		"trap 'rm -rf \"$copy\"' EXIT\n" +
		"git add -AN . && git config diff.context 0\n" +
		"tar -C \"$top\" --exclude=./.git --exclude=./.descartes -cf - . | tar -C \"$copy\" -xf - || exit 1\n" +
		"printf 'gitdir: %s\\n' \"$(git rev-parse --absolute-git-dir)\" >\"$copy/.git\"\n" +
		"cd \"$copy/$below\" || exit 1\n" + commands
}

// gremlins knows which lines changed by itself, of files that git has heard of.
func gremlins([]File, int, string) string {
	return "command -v gremlins >/dev/null || exit " + strconv.Itoa(Missing) + "\n" +
		aside("gremlins unleash --diff HEAD -o \"$here/"+Report+"\"")
}

func readGremlins(report []byte) (list []Fault, err error) {
	var r struct {
		Files []struct {
			Name      string `json:"file_name"`
			Mutations []struct {
				Type, Status string
				Line         int
			}
		}
	}
	if err := json.Unmarshal(report, &r); err != nil {
		return nil, err
	}
	for _, f := range r.Files {
		for _, m := range f.Mutations {
			what := strings.ToLower(strings.ReplaceAll(m.Type, "_", " "))
			switch m.Status {
			case "KILLED", "TIMED OUT":
				list = append(list, Fault{f.Name, m.Line, what, false})
			case "LIVED":
				list = append(list, Fault{f.Name, m.Line, what, true})
			case "NOT COVERED":
				list = append(list, Fault{f.Name, m.Line, what + ", in code that no test runs", true})
			}
		}
	}
	return list, nil
}

func stryker(files []File, _ int, _ string) string {
	var ranges []string
	for _, f := range files {
		for _, l := range f.Lines {
			ranges = append(ranges, fmt.Sprintf("%s:%d-%d", f.Path, l.First, l.Last))
		}
	}
	return "test -x node_modules/.bin/stryker || command -v stryker >/dev/null || exit " + strconv.Itoa(Missing) + "\n" +
		aside("rm -rf reports/mutation/mutation.json\n"+
			"PATH=$PWD/node_modules/.bin:$PATH stryker run --mutate "+quote(strings.Join(ranges, ","))+" --reporters json --allowEmpty\n"+
			"cp reports/mutation/mutation.json \"$here/"+Report+"\"")
}

func readStryker(report []byte) (list []Fault, err error) {
	var r struct {
		Files map[string]struct {
			Mutants []struct {
				MutatorName, Replacement, Status string
				Location                         struct{ Start struct{ Line int } }
			}
		}
	}
	if err := json.Unmarshal(report, &r); err != nil {
		return nil, err
	}
	for name, f := range r.Files {
		for _, m := range f.Mutants {
			what := fmt.Sprintf("%s: %s", m.MutatorName, m.Replacement)
			switch m.Status {
			case "Killed", "Timeout":
				list = append(list, Fault{name, m.Location.Start.Line, what, false})
			case "Survived":
				list = append(list, Fault{name, m.Location.Start.Line, what, true})
			case "NoCoverage":
				list = append(list, Fault{name, m.Location.Start.Line, what + ", in code that no test runs", true})
			}
		}
	}
	return list, nil
}

// cargo takes every so many-th of the faults in what changed, so that there are at most n.
func cargo(_ []File, n int, _ string) string {
	return "cargo mutants --version >/dev/null 2>&1 || exit " + strconv.Itoa(Missing) + "\n" +
		aside("out=$(mktemp -d)\n"+
			"git diff --relative HEAD >\"$out/diff\"\n"+
			"all=$(cargo mutants --list --in-diff \"$out/diff\" | wc -l)\n"+
			fmt.Sprintf("shards=$(( (all + %d) / %d ))\n", n-1, n)+
			"test \"$shards\" -gt 0 || { echo '{\"outcomes\":[]}' >\"$here/"+Report+"\"; exit 0; }\n"+
			"cargo mutants --in-diff \"$out/diff\" --no-shuffle --shard 0/$shards -o \"$out\"\n"+
			"cp \"$out/mutants.out/outcomes.json\" \"$here/"+Report+"\"; rm -rf \"$out\"")
}

func readCargo(report []byte) (list []Fault, err error) {
	var r struct {
		Outcomes []struct {
			Scenario json.RawMessage
			Summary  string
		}
	}
	if err := json.Unmarshal(report, &r); err != nil {
		return nil, err
	}
	for _, o := range r.Outcomes {
		var s struct {
			Mutant struct {
				Name, File  string
				Replacement string
				Line        int // of old versions
				Span        struct{ Start struct{ Line int } }
			}
		}
		if json.Unmarshal(o.Scenario, &s) != nil || s.Mutant.File == "" { // the baseline is a word
			continue
		}
		m := s.Mutant
		what := m.Name
		if i := strings.LastIndex(what, ": "); i >= 0 {
			what = what[i+2:]
		}
		if o.Summary == "MissedMutant" || o.Summary == "CaughtMutant" || o.Summary == "Timeout" {
			list = append(list, Fault{m.File, cmp.Or(m.Span.Start.Line, m.Line), cmp.Or(what, "replaced with "+m.Replacement), o.Summary == "MissedMutant"})
		}
	}
	return list, nil
}

// faults applies to each file what cosmic-ray would, one after the other, and runs the tests. The tool itself knows no number of faults, and its
// filter for changed lines none of new files.
const faults = `
import json, subprocess, sys
wanted, most, test = json.loads(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
found = []
for row in sys.stdin:
    for m in json.loads(row)[0]["mutations"]:
        if any(a <= m["start_pos"][0] <= b for a, b in wanted.get(m["module_path"], [])):
            found.append(m)
found = [found[i * len(found) // min(most, len(found))] for i in range(min(most, len(found)))]
with open(sys.argv[4], "w") as report:
    for m in found:
        with open(m["module_path"], "rb") as f:
            before = f.read()
        try:
            subprocess.run(["cosmic-ray", "apply", m["module_path"], m["operator_name"], str(m["occurrence"])], check=True, stdin=subprocess.DEVNULL)
            code = subprocess.run(["sh", "-c", test], stdin=subprocess.DEVNULL).returncode
        finally:
            with open(m["module_path"], "wb") as f:
                f.write(before)
        report.write(json.dumps([{"mutations": [m]}, {"test_outcome": "survived" if code == 0 else "killed"}]) + "\n")
`

func cosmicRay(files []File, n int, test string) string {
	lines, names := map[string][][2]int{}, make([]string, len(files))
	for i, f := range files {
		names[i] = f.Path
		for _, l := range f.Lines {
			lines[f.Path] = append(lines[f.Path], [2]int{l.First, l.Last})
		}
	}
	wanted, _ := json.Marshal(lines) // of texts and numbers
	paths, _ := json.Marshal(names)
	return "command -v cosmic-ray >/dev/null || exit " + strconv.Itoa(Missing) + "\n" +
		"printf '[cosmic-ray]\\nmodule-path = %s\\ntimeout = 60.0\\nexcluded-modules = []\\ntest-command = \"true\"\\n[cosmic-ray.distributor]\\nname = \"local\"\\n' " + quote(string(paths)) + " >.descartes-faults.toml\n" +
		"rm -f .descartes-faults.sqlite\n" +
		"cosmic-ray init .descartes-faults.toml .descartes-faults.sqlite &&\n" +
		"cosmic-ray dump .descartes-faults.sqlite | PYTHONDONTWRITEBYTECODE=1 python3 -c " + quote(faults) + " " + quote(string(wanted)) + " " + strconv.Itoa(n) + " " + quote(test) + " " + Report
}

func readCosmicRay(report []byte) (list []Fault, err error) {
	rows := bufio.NewScanner(bytes.NewReader(report))
	rows.Buffer(nil, 16<<20)
	for rows.Scan() {
		var row []json.RawMessage
		var item struct {
			Mutations []struct {
				Module   string `json:"module_path"`
				Operator string `json:"operator_name"`
				Start    []int  `json:"start_pos"`
			}
		}
		var result struct {
			Outcome string `json:"test_outcome"`
		}
		if err := json.Unmarshal(rows.Bytes(), &row); err != nil {
			return nil, err
		}
		if len(row) != 2 || json.Unmarshal(row[0], &item) != nil || json.Unmarshal(row[1], &result) != nil || len(item.Mutations) == 0 || len(item.Mutations[0].Start) == 0 {
			return nil, fmt.Errorf("line %d is not a fault with its outcome", len(list)+1)
		}
		m := item.Mutations[0]
		if result.Outcome == "survived" || result.Outcome == "killed" {
			list = append(list, Fault{m.Module, m.Start[0], strings.TrimPrefix(m.Operator, "core/"), result.Outcome == "survived"})
		}
	}
	return list, rows.Err()
}
