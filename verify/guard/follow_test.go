package guard

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// What decides whether a check passes: the scripts, targets and package scripts that its command leads to. What is
// only looked at by a check is not.
func TestFollow(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"run.sh":           "#!/bin/sh\nset -e\n. tests/lib.sh\ngo vet ./... && bin/app --self-test\n",
		"tests/lib.sh":     "sh ci/lint.sh\n",
		"ci/lint.sh":       "golangci-lint run\n",
		"bin/app":          "#!/usr/bin/env python3\nprint('ok')\n",
		"tests/loop.sh":    "sh tests/loop.sh\n",
		"Makefile":         "include mk/common.mk\nT = tests\n\nall: test\n\ntest: lint\n\tsh $(T)/lib.sh\n\nunit:\n\t@-cd sub && sh check.sh\n\nclean:\n\trm -rf out\n",
		"mk/common.mk":     "lint:\n\tsh ci/lint.sh\n",
		"sub/Makefile":     "check: ; sh check.sh\n",
		"sub/check.sh":     "true\n",
		"sub/other.mk":     "other:\n\tsh run.sh \\\n\t  now\n",
		"justfile":         "fast arg='x':\n  sh ci/lint.sh\n",
		"package.json":     `{"scripts": {"pretest": "sh ci/lint.sh", "test": "node tests/all.js", "build": "sh run.sh"}}`,
		"tests/all.js":     "0\n",
		"web/package.json": `{"scripts": {"test": "vitest"}}`,
	}
	base := func(path string) ([]byte, bool) { s, ok := files[path]; return []byte(s), ok }
	for command, want := range map[string]string{
		"go test ./...":                         "",
		"./run.sh":                              "bin/app ci/lint.sh run.sh tests/lib.sh",
		"sh -ec 'cd sub && ./check.sh'":         "sub/check.sh",
		"cd sub; sh check.sh":                   "sub/check.sh",
		"(cd sub && sh check.sh) && sh run.sh":  "bin/app ci/lint.sh run.sh sub/check.sh tests/lib.sh",
		"env CI=1 timeout 10 bash ci/lint.sh":   "ci/lint.sh",
		"poetry run python3 bin/app":            "bin/app",
		"python3 -m pytest":                     "",
		"sh ci/lint.sh | tee log":               "ci/lint.sh",
		"sh ci/lint.sh | grep -q ok":            "",
		`test "$(sh ci/lint.sh)" = ok`:          "",
		"sh ci/lint.sh >log; grep ok log":       "",
		"sh tests/loop.sh":                      "tests/loop.sh",
		"sh missing.sh":                         "",
		"sh /etc/profile":                       "",
		"make":                                  "Makefile:lint ci/lint.sh",
		"make -j 4 V=1 test":                    "Makefile:test ci/lint.sh tests/lib.sh",
		"make unit clean":                       "Makefile:clean Makefile:unit sub/check.sh",
		"make -C sub check":                     "sub/Makefile:check sub/check.sh",
		"make -f sub/other.mk other":            "bin/app ci/lint.sh run.sh sub/other.mk:other tests/lib.sh",
		"make --directory sub -f other.mk":      "sub/other.mk:other",
		"make nothing":                          "Makefile:nothing",
		"just fast":                             "ci/lint.sh justfile:fast",
		"npm test":                              "ci/lint.sh package.json:pretest package.json:test tests/all.js",
		"npm run --silent build":                "bin/app ci/lint.sh package.json:build run.sh tests/lib.sh",
		"cd web && npm t":                       "web/package.json:test",
		"run-s test build":                      "bin/app ci/lint.sh package.json:build package.json:pretest package.json:test run.sh tests/all.js tests/lib.sh",
		"if true; then":                         "",
		strings.Repeat("sh -c ", 20) + "run.sh": "",
	} {
		c := follow([]string{command}, base)
		got := slices.AppendSeq(slices.Collect(maps.Keys(c.scripts)), maps.Keys(c.product))
		for _, named := range []map[string][]string{c.targets, c.packages} {
			for file, names := range named {
				for _, name := range names {
					got = append(got, file+":"+name)
				}
			}
		}
		slices.Sort(got)
		if list := strings.Join(got, " "); list != want {
			t.Errorf("%s\ngot  %s\nwant %s", command, list, want)
		}
	}
}

// What a makefile says: line numbers count joined lines, a target's recipe is the last one given, what holds for all
// rules stands by itself.
func TestReadMake(t *testing.T) {
	t.Parallel()
	m := readMake("A = 1\nSHELL = /bin/bash\n\none two: dep | order # why\n\tfirst \\\n second\n# a remark\n\n\tthird $(A) $$x\n\none: ; again\n\tmore\nifdef A\nendif\n\tfourth\nthree: export GOFLAGS = -run=x\n%.o: %.c\n\tcc\n.PHONY: one two\n-include *.mk\n",
		func(string) (string, bool) { return "", false })
	for _, row := range []struct{ about, got, want string }{
		{"first target", m.first, "one"},
		{"recipe", strings.Join(m.commands("two"), "; "), "first   second; third 1 $x"},
		{"recipe with more below", strings.Join(m.commands("one"), "; "),
			"first   second; third 1 $x; again; more; fourth"},
		{"what is needed", strings.Join(m.uses([]string{"two"}), " "), "two dep order"},
		{"of no target", strings.Join(m.commands("three"), "; "), ""},
	} {
		if row.got != row.want {
			t.Errorf("%s: got %q, want %q", row.about, row.got, row.want)
		}
	}
	if r := m.rules["one"]; r.bodies != 2 || m.rules["two"].bodies != 1 {
		t.Errorf("bodies: got %d and %d, want 2 and 1", r.bodies, m.rules["two"].bodies)
	}
	var special []int
	for _, l := range m.special {
		special = append(special, l.n)
	}
	if !slices.Equal(special, []int{2, 16, 20}) || !m.phony["one"] {
		t.Errorf("got %v for all rules, phony %v", special, m.phony)
	}
}
