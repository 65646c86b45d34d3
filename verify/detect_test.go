package verify

import (
	"os"
	"path/filepath"
	"testing"
)

func TestDetect(t *testing.T) {
	t.Parallel()
	const cargo, gomod = "cargo check && cargo test", "go build -o /dev/null ./... && go test ./..."
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"nothing", nil, ""},
		{"cargo", map[string]string{"Cargo.toml": ""}, cargo},
		{"cargo first", map[string]string{"Cargo.toml": "", "Makefile": "test:\n", "go.mod": ""}, cargo},
		{"make both", map[string]string{
			"Makefile": ".PHONY: test check\n\ntest: build\n\tgo test\ncheck:\n\tgo vet\n"}, "make check test"},
		{"make one rule for both", map[string]string{"Makefile": "test check: x\n"}, "make check test"},
		{"make test", map[string]string{"makefile": "all: test\ntest::\n\techo\n"}, "make test"},
		{"make check", map[string]string{"GNUmakefile": "check : x # y\r\n"}, "make check"},
		{"make before go", map[string]string{"Makefile": "test:\n", "go.mod": ""}, "make test"},
		{"make continued", map[string]string{"Makefile": "test \\\n  lint: x\n"}, "make test"},
		{"make reads one file", map[string]string{"GNUmakefile": "all:\n", "Makefile": "test:\n"}, ""},
		{"make without targets",
			map[string]string{"Makefile": "all:\n\ttest: no\n# check:\ntest := 1\ncheck ::= 2\ntest:=3\nX = test: y\n",
				"go.mod": ""}, gomod},
		{"go", map[string]string{"go.mod": "module x\n", "package.json": `{"scripts":{"test":"jest"}}`}, gomod},
		{"npm", map[string]string{"package.json": `{"scripts":{"test":"jest"}}`, "pyproject.toml": ""}, "npm test"},
		{"npm init's", map[string]string{
			"package.json": `{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}`}, ""},
		{"npm none", map[string]string{"package.json": `{"scripts":{"build":"x"}}`, "pyproject.toml": ""}, "pytest"},
		{"npm odd", map[string]string{"package.json": `{"scripts":{"test":3}}`}, ""},
		{"npm broken", map[string]string{"package.json": `{`}, ""},
		{"python", map[string]string{"pyproject.toml": ""}, "pytest"},
	} {
		dir := t.TempDir()
		for name, text := range tt.files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, why, ok := Detect(dir)
		if got != tt.want || ok != (tt.want != "") || ok == (why == "") {
			t.Errorf("%s: got %q (%s) %v, want %q", tt.name, got, why, ok, tt.want)
		}
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "go.mod"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := Detect(dir); ok {
		t.Error("a directory named go.mod was taken for a project")
	}
}
