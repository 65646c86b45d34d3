package config

import (
	"slices"
	"testing"
)

func TestSplitCommand(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"":                            nil,
		" \t":                         nil,
		"claude":                      {"claude"},
		"  claude  -p  ":              {"claude", "-p"},
		`"my agent" --note 'a  b'`:    {"my agent", "--note", "a  b"},
		`sh -c 'cat "$1" | x' --`:     {"sh", "-c", `cat "$1" | x`, "--"},
		`sh -c "echo $HOME \"a\" \n"`: {"sh", "-c", `echo $HOME "a" \n`},
		`a\ b c\"d`:                   {"a b", `c"d`},
		"a ${X:-1} $(date) `date`":    {"a", "${X:-1}", "$(date)", "`date`"},
		`a""b '' "" x`:                {"ab", "", "", "x"},
		"run {a,b} ~ *.go X=1":        {"run", "{a,b}", "~", "*.go", "X=1"},
		"one\ntwo":                    {"one", "two"},
		`über "日本 語"`:                 {"über", "日本 語"},
	} {
		got, err := SplitCommand("--command", line)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v, want %q", line, got, err, want)
		}
	}
	for line, want := range map[string]string{
		"a | b":     `--command "a | b": give one program with its arguments`,
		"a; b":      `--command "a; b": give one program with its arguments`,
		"a && b":    `--command "a && b": give one program with its arguments`,
		"a >b":      `--command "a >b": give one program with its arguments`,
		"a &":       `--command "a &": give one program with its arguments`,
		"# nothing": `--command "# nothing": give one program with its arguments`,
		`a "b`:      "--command \"a \\\"b\": 1:3: reached EOF without closing quote `\"`",
	} {
		if got, err := SplitCommand("--command", line); err == nil || err.Error() != want {
			t.Errorf("%q: %q, %v, want the error %s", line, got, err, want)
		}
	}
}
