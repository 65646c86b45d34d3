package verify

import (
	"strings"
	"sync"
	"unicode/utf8"

	"descartes/internal/lazyregexp"
)

// whyLimit is the length of the longest line that Why returns.
const whyLimit = 200

// pattern finds the line that says why a tool failed; form combines its groups.
type pattern struct {
	tool string
	find *lazyregexp.Regexp
	form string
}

func tool(name, find, form string) pattern {
	return pattern{name, lazyregexp.New(`(?m)` + find), form}
}

// patterns are tried in this order: compile errors before failed tests, and a tool's own words before those of the program that ran it. They are
// compiled on the first failure.
var patterns = sync.OnceValue(func() []pattern {
	return []pattern{
		tool("go build, go vet", `^(?:vet: )?(\S+\.go:\d+:\d+: .+)$`, "$1"),
		tool("go test with testify", `^\s*(\S+_test\.go:\d+): *\n(?:\s+Error Trace:.*\n)?\s+Error:\s+(Not equal:) *\n\s+(expected *: .+)\n\s+(actual *: .+)$`, "$1: $2 $3, $4"),
		tool("go test with testify", `^\s*(\S+_test\.go:\d+): *\n(?:\s+Error Trace:.*\n)?\s+Error:\s+(\S.*)$`, "$1: $2"),
		tool("go test", `^\s*--- FAIL: .*\n\s+(\S+\.go:\d+: .+)$`, "$1"),
		tool("go test -v", `^\s+(\S+_test\.go:\d+: .+)\n(?:\s+\S.*\n)*--- FAIL: `, "$1"),
		tool("go", `^((?:panic|fatal error): .+?)(?: \[recovered.*)?$`, "$1"),
		tool("go", `^\s*(\S+_test\.go:\d+: .+)$`, "$1"),
		tool("go", `^(go: (?:cannot|error|go\.mod|updates|no |module |\S+@).+)$`, "$1"),
		tool("cargo", `^(error(?:\[E\d+\])?: .+)\n\s*--> (\S+)$`, "$2: $1"),
		tool("cargo test", `^thread '.+' (?:\(\d+\) )?panicked at (\S+:\d+:\d+):\n(.+)\n\s+(left: .+)\n\s+(right: .+)$`, "$1: $2, $3, $4"),
		tool("cargo test", `^thread '.+' (?:\(\d+\) )?panicked at (\S+:\d+:\d+):\n(.+)$`, "$1: $2"),
		tool("cargo test before 1.73", `^thread '.+' panicked at '(.+)', (\S+:\d+:\d+)$`, "$2: $1"),
		tool("pytest", `^(?:FAILED|ERROR) (\S+) - (.+)$`, "$1: $2"),
		tool("pytest", `^(\S+\.py:\d+): in .+\n(?:\s+.*\n)*E\s+(\S.*)$`, "$1: $2"),
		tool("pytest", `^E\s{2,}(\S.*)$`, "$1"),
		tool("unittest", `^(?:FAIL|ERROR): (\w+) .*\n-+\n(?:.*\n)*?((?:\w+\.)*\w*(?:Error|Exception)\b.*)$`, "$1: $2"),
		tool("tsc", `^(\S+\(\d+,\d+\)): (error TS\d+: .+)$`, "$1: $2"),
		tool("tsc --pretty", `^(\S+:\d+:\d+) - (error TS\d+: .+)$`, "$1: $2"),
		tool("eslint", `^(\S+\.\w+)\n(?:\s+\d+:\d+\s+warning.*\n)*\s+(\d+:\d+)\s+error\s+(.+?)\s{2,}(\S+)$`, "$1:$2: $3 ($4)"),
		tool("jest", `^\s*● (.+)\n\n\s+expect\(.*\n\n\s+(Expected.*)\n\s+(Received.*)$`, "$1: $2, $3"),
		tool("jest", `^\s*● (?:Test suite failed to run|(.+))\n\n\s+(.+)$`, "$1: $2"),
		tool("vitest", `^\s*FAIL\s+(\S+ > .+)\n(.+)$`, "$1: $2"),
		tool("vitest", `^\s*FAIL\s+(\S+)(?: \[.*)?\n(\w*(?:Error|Exception)\b.*)$`, "$1: $2"),
		tool("mocha", `^\s+1\) .+\n\s+(.+):\n\n\s+(.+)$`, "$1: $2"),
		tool("node --test", `^\s*✖ (.+?)(?: \([\d.]+ms\))?\n\s+(\w*Error\b.*)$`, "$1: $2"),
		tool("TAP", `^not ok \d+(?: -)? (.+)\n\s+---\n(?:\s+.*\n)*?\s+error: (?:\|-\n\s+|['"])?(.+?)['"]?$`, "$1: $2"),
		tool("TAP", `^not ok \d+(?: -)? (.+)$`, "$1"),
		tool("compilers and linters", `^(\S+:\d+(?::\d+)?: (?:fatal )?error\b.+)$`, "$1"),
		tool("linkers", `^(\S+: undefined reference to .+)$`, "$1"),
		tool("python", `^((?:\w+\.)*\w*(?:Error|Exception): .+)$`, "$1"),
		tool("make", `^(make(?:\[\d+\])?: \*\*\* No rule .+)$`, "$1"),
	}
})

// wrapped are last lines in which a program only says that another one failed.
var wrapped = lazyregexp.New(`^(?:make(?:\[\d+\])?: |npm (?:ERR!|error)|error Command failed|(?:FAIL|ok|\?)(?:\s|$)|exit status \d+$|\W+$|\s*ELIFECYCLE|For more information about this error|error: could not compile|error: test failed)`)

// colours are a terminal's control sequences.
var colours = lazyregexp.New("\x1b\\[[0-?]*[ -/]*[@-~]")

// Why returns the output line that says why a command failed: the first failure in a known tool's format, else the last line that says anything, else
// "".
func Why(output string) string {
	output = strings.ReplaceAll(colours.ReplaceAllString(output, ""), "\r\n", "\n")
	for _, p := range patterns() {
		if at := p.find.FindStringSubmatchIndex(output); at != nil {
			return oneLine(string(p.find.ExpandString(nil, p.form, output, at)))
		}
	}
	last := ""
	lines := strings.Split(output, "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		line := strings.TrimSpace(lines[i])
		if line == "" {
			continue
		}
		if !wrapped.MatchString(line) {
			return oneLine(line)
		}
		if last == "" {
			last = line
		}
	}
	return oneLine(last)
}

// oneLine returns a text with single spaces, shortened, and without what an empty group leaves at its beginning.
func oneLine(s string) string {
	s = strings.TrimPrefix(strings.Join(strings.Fields(s), " "), ": ")
	if len(s) <= whyLimit {
		return s
	}
	cut := whyLimit
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	if at := strings.LastIndexByte(s[:cut], ' '); at > cut/2 {
		cut = at
	}
	return s[:cut] + "…"
}
