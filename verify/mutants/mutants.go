// Package mutants has the mutation tools of languages put small faults into changed code, and reads which of them no
// test noticed.
package mutants

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

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
	// command puts faults into files: at most n where the tool knows such a number. test is the command that has to
	// notice them.
	command func(files []File, n int, test string) string
	report
}

// report has the paths of what is read of a tool's report, as gjson writes them.
type report struct {
	files              string // a list, or an object with the names for keys
	name, faults       string // in a file
	line, status, what string // in a fault
}

// Tools are those of all languages.
func Tools() []*Tool {
	ours := report{"files", "file_name", "mutations", "line", "status", "type"}
	return []*Tool{
		{"gremlins", "go install github.com/go-gremlins/gremlins/cmd/gremlins@latest", "go.mod",
			lazyregexp.New(`\.go$`), gremlins, ours},
		{"cosmic-ray", "pip install cosmic-ray", "*.py", lazyregexp.New(`\.py$`), cosmicRay, ours},
		{"stryker", "npm install --save-dev @stryker-mutator/core", "package.json",
			lazyregexp.New(`\.(?:[cm]?[jt]s|[jt]sx|vue|svelte)$`), stryker,
			report{"files", "name", "mutants", "location.start.line", "status", "[mutatorName,replacement]"}},
		{"cargo-mutants", "cargo install cargo-mutants", "Cargo.toml", lazyregexp.New(`\.rs$`), cargo,
			report{"outcomes", "scenario.Mutant.file", "@this", "scenario.Mutant.span.start.line", "summary",
				"scenario.Mutant.name"}},
	}
}

// fates are the tools' words for what became of a fault.
var fates = map[string]struct{ survived, unrun bool }{
	"KILLED": {}, "TIMED OUT": {}, "LIVED": {survived: true}, "NOT COVERED": {true, true},
	"Killed": {}, "Timeout": {}, "Survived": {survived: true}, "NoCoverage": {true, true},
	"CaughtMutant": {}, "MissedMutant": {survived: true},
}

var place = lazyregexp.New(`^\S+:\d+:\d+: `)

// read lists all faults of a report.
func (r report) read(text []byte) (list []Fault, err error) {
	files := gjson.GetBytes(text, r.files)
	if !gjson.ValidBytes(text) || !files.Exists() {
		return nil, fmt.Errorf("it has no %s", r.files)
	}
	files.ForEach(func(name, file gjson.Result) bool {
		for _, m := range file.Get(r.faults).Array() {
			fate, known := fates[m.Get(r.status).String()]
			if !known {
				continue
			}
			var words []string
			for _, w := range m.Get(r.what).Array() {
				words = append(words, place.ReplaceAllString(w.String(), ""))
			}
			what := strings.Join(words, ": ")
			if fate.unrun {
				what += ", in code that no test runs"
			}
			list = append(list, Fault{cmp.Or(file.Get(r.name).String(), name.String()), int(m.Get(r.line).Int()), what,
				fate.survived})
		}
		return true
	})
	return list, nil
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
	slices.SortStableFunc(all, func(a, b Fault) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line))
	})
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
		return c.Path == path.Clean(f.Path) && slices.ContainsFunc(c.Lines,
			func(l Lines) bool { return f.Line >= l.First && f.Line <= l.Last })
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

// aside runs commands of tools that copy the folder which they run in: in a copy without .git and .descartes, whose
// .git leads to the project's.
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

func stryker(files []File, _ int, _ string) string {
	var ranges []string
	for _, f := range files {
		for _, l := range f.Lines {
			ranges = append(ranges, fmt.Sprintf("%s:%d-%d", f.Path, l.First, l.Last))
		}
	}
	return "test -x node_modules/.bin/stryker || command -v stryker >/dev/null || exit " + strconv.Itoa(Missing) +
		"\n" +
		aside("rm -rf reports/mutation/mutation.json\n"+
			"PATH=$PWD/node_modules/.bin:$PATH stryker run --mutate "+quote(strings.Join(ranges, ","))+
			" --reporters json --allowEmpty\n"+
			"cp reports/mutation/mutation.json \"$here/"+Report+"\"")
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

// faults applies to each file what cosmic-ray would, one after the other, and runs the tests. The tool itself knows no
// number of faults, and its filter for changed lines none of new files.
const faults = `
import json, subprocess, sys
wanted, most, test = json.loads(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
found = []
for row in sys.stdin:
    for m in json.loads(row)[0]["mutations"]:
        if any(a <= m["start_pos"][0] <= b for a, b in wanted.get(m["module_path"], [])):
            found.append(m)
found = [found[i * len(found) // min(most, len(found))] for i in range(min(most, len(found)))]
files = []
for m in found:
    with open(m["module_path"], "rb") as f:
        before = f.read()
    try:
        subprocess.run(["cosmic-ray", "apply", m["module_path"], m["operator_name"], str(m["occurrence"])], check=True, stdin=subprocess.DEVNULL)
        code = subprocess.run(["sh", "-c", test], stdin=subprocess.DEVNULL).returncode
    finally:
        with open(m["module_path"], "wb") as f:
            f.write(before)
    fault = {"type": m["operator_name"].removeprefix("core/"), "line": m["start_pos"][0], "status": "LIVED" if code == 0 else "KILLED"}
    files.append({"file_name": m["module_path"], "mutations": [fault]})
with open(sys.argv[4], "w") as report:
    json.dump({"files": files}, report)
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
		"cosmic-ray dump .descartes-faults.sqlite | PYTHONDONTWRITEBYTECODE=1 python3 -c " + quote(faults) + " " +
		quote(string(wanted)) + " " + strconv.Itoa(n) + " " + quote(test) + " " + Report
}
