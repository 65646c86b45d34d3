package shell

import (
	"os"
	"path/filepath"
	"testing"
)

// A script that runs something of the project is told from one that does not.
func TestRunsBelow(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, name := range []string{"notify.sh", "tools/say", "sub/x"} {
		at := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, nil, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(t.TempDir(), "say")
	if err := os.Symlink(filepath.Join(root, "tools", "say"), link); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]bool{
		"./notify.sh":                   true,
		"sh notify.sh":                  true,
		"jq . | ./notify.sh":            true,
		"true && $(./notify.sh)":        true,
		"cd tools && ./say":             true,
		"sh -c 'cd tools; ./say'":       true,
		"X=1 tools/say --loud":          true,
		"cd sub && ../notify.sh":        true,
		root + "/notify.sh":             true,
		link:                            true,
		"make notify":                   true,
		"python3 -m say":                true,
		"curl --config=tools/say -d @-": true,
		"no shell can read (":           true,
		"cat >>../said":                 false,
		"cat >>notify.log":              false,
		"command -v git-lfs >/dev/null || exit 2\ngit lfs pre-push \"$@\"\n": false,
		"exec \"$HERE/x\" \"${ARGS[@]}\"":                                    true,
		"exit 9":                                                             false,
		"jq -r .message | mail -s x me":                                      false,
		"curl -d @- https://example.org":                                     false,
		"/usr/bin/logger -t descartes":                                       false,
	} {
		if got := RunsBelow(root, root, line); got != want {
			t.Errorf("%s: got %v", line, got)
		}
	}
}
