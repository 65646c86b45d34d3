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
	find *lazyregexp.Regexp
	form string
}

func line(find, form string) pattern { return pattern{lazyregexp.New(`(?m)` + find), form} }

// patterns are tried in this order: compile errors before failed tests, and a tool's own words before those of the
// program that ran it. They are compiled on the first failure.
var patterns = sync.OnceValue(func() []pattern {
	return []pattern{
		// go build, go vet
		line(`^(?:vet: )?(\S+\.go:\d+:\d+: .+)$`, "$1"),
		// go test with testify
		line(`^\s*(\S+_test\.go:\d+): *\n(?:\s+Error Trace:.*\n)?\s+Error:\s+(Not equal:) *\n\s+(expected *: .+)\n\s+(actual *: .+)$`, "$1: $2 $3, $4"),
		line(`^\s*(\S+_test\.go:\d+): *\n(?:\s+Error Trace:.*\n)?\s+Error:\s+(\S.*)$`, "$1: $2"),
		// go test
		line(`^\s*--- FAIL: .*\n\s+(\S+\.go:\d+: .+)$`, "$1"),
		// go test -v
		line(`^\s+(\S+_test\.go:\d+: .+)\n(?:\s+\S.*\n)*--- FAIL: `, "$1"),
		// go
		line(`^((?:panic|fatal error): .+?)(?: \[recovered.*)?$`, "$1"),
		line(`^\s*(\S+_test\.go:\d+: .+)$`, "$1"),
		line(`^(go: (?:cannot|error|go\.mod|updates|no |module |\S+@).+)$`, "$1"),
		// cargo
		line(`^(error(?:\[E\d+\])?: .+)\n\s*--> (\S+)$`, "$2: $1"),
		// cargo test
		line(`^thread '.+' (?:\(\d+\) )?panicked at (\S+:\d+:\d+):\n(.+)\n\s+(left: .+)\n\s+(right: .+)$`,
			"$1: $2, $3, $4"),
		line(`^thread '.+' (?:\(\d+\) )?panicked at (\S+:\d+:\d+):\n(.+)$`, "$1: $2"),
		// cargo test before 1.73
		line(`^thread '.+' panicked at '(.+)', (\S+:\d+:\d+)$`, "$2: $1"),
		// pytest
		line(`^(?:FAILED|ERROR) (\S+) - (.+)$`, "$1: $2"),
		line(`^(\S+\.py:\d+): in .+\n(?:\s+.*\n)*E\s+(\S.*)$`, "$1: $2"),
		line(`^E\s{2,}(\S.*)$`, "$1"),
		// unittest
		line(`^(?:FAIL|ERROR): (\w+) .*\n-+\n(?:.*\n)*?((?:\w+\.)*\w*(?:Error|Exception)\b.*)$`, "$1: $2"),
		// tsc
		line(`^(\S+\(\d+,\d+\)): (error TS\d+: .+)$`, "$1: $2"),
		// tsc --pretty
		line(`^(\S+:\d+:\d+) - (error TS\d+: .+)$`, "$1: $2"),
		// eslint
		line(`^(\S+\.\w+)\n(?:\s+\d+:\d+\s+warning.*\n)*\s+(\d+:\d+)\s+error\s+(.+?)\s{2,}(\S+)$`, "$1:$2: $3 ($4)"),
		// jest
		line(`^\s*● (.+)\n\n\s+expect\(.*\n\n\s+(Expected.*)\n\s+(Received.*)$`, "$1: $2, $3"),
		line(`^\s*● (?:Test suite failed to run|(.+))\n\n\s+(.+)$`, "$1: $2"),
		// vitest
		line(`^\s*FAIL\s+(\S+ > .+)\n(.+)$`, "$1: $2"),
		line(`^\s*FAIL\s+(\S+)(?: \[.*)?\n(\w*(?:Error|Exception)\b.*)$`, "$1: $2"),
		// mocha
		line(`^\s+1\) .+\n\s+(.+):\n\n\s+(.+)$`, "$1: $2"),
		// node --test
		line(`^\s*✖ (.+?)(?: \([\d.]+ms\))?\n\s+(\w*Error\b.*)$`, "$1: $2"),
		// TAP
		line(`^not ok \d+(?: -)? (.+)\n\s+---\n(?:\s+.*\n)*?\s+error: (?:\|-\n\s+|['"])?(.+?)['"]?$`, "$1: $2"),
		line(`^not ok \d+(?: -)? (.+)$`, "$1"),
		// compilers and linters
		line(`^(\S+:\d+(?::\d+)?: (?:fatal )?error\b.+)$`, "$1"),
		// linkers
		line(`^(\S+: undefined reference to .+)$`, "$1"),
		// python
		line(`^((?:\w+\.)*\w*(?:Error|Exception): .+)$`, "$1"),
		// make
		line(`^(make(?:\[\d+\])?: \*\*\* No rule .+)$`, "$1"),
	}
})

// wrapped are last lines in which a program only says that another one failed.
var wrapped = lazyregexp.New(
	`^(?:make(?:\[\d+\])?: |npm (?:ERR!|error)|error Command failed|(?:FAIL|ok|\?)(?:\s|$)|exit status \d+$|\W+$|\s*ELIFECYCLE|For more information about this error|error: could not compile|error: test failed)`)

// colours are a terminal's control sequences.
var colours = lazyregexp.New("\x1b\\[[0-?]*[ -/]*[@-~]")

// Why returns the output line that says why a command failed: the first failure in a known tool's format, else the
// last line that says anything, else "".
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
