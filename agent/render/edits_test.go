package render

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEdits(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		log  string
		want map[string]int
	}{
		"no file": {"", nil},
		"text":    {"I edited \"tool_use\" things\n{\"type\":\"text\"}\n", nil},
		"claude": {`{"type":"assistant","message":{"content":[{"id":"a","type":"tool_use","name":"Edit","input":{"file_path":"/w/x.go"}},{"id":"b","type":"tool_use","name":"Bash","input":{"command":"ls"}}]}}
{"type":"assistant","message":{"content":[{"id":"a","type":"tool_use","name":"Edit","input":{"file_path":"/w/x.go"}},{"id":"c","type":"tool_use","name":"Write","input":{"file_path":"/w/x.go"}}]}}
{"type":"assistant","message":{"content":[{"id":"d","type":"tool_use","name":"NotebookEdit","input":{"notebook_path":"n.ipynb"}},{"id":"e","type":"tool_use","name":"Read","input":{"file_path":"r"}}]}}
`, map[string]int{"/w/x.go": 2, "n.ipynb": 1}},
		"opencode": {`{"type":"tool_use","part":{"type":"tool","tool":"edit","callID":"1","state":{"input":{"filePath":"a.ts"}}}}
{"type":"tool_use","part":{"type":"tool","tool":"write","callID":"2","state":{"input":{"filePath":"a.ts"}}}}
`, map[string]int{"a.ts": 2}},
		"gemini": {`{"type":"tool_use","tool_name":"replace","tool_id":"r1","parameters":{"file_path":"g.py"}}`,
			map[string]int{"g.py": 1}},
		"codex": {`{"type":"item.started","item":{"type":"file_change","changes":[{"path":"c.rs"}]}}
{"type":"item.completed","item":{"type":"file_change","changes":[{"path":"c.rs"},{"path":"d.rs"}]}}
`, map[string]int{"c.rs": 1, "d.rs": 1}},
		"a long line, and one after it": {`{"type":"tool_use","pad":"` + strings.Repeat("x", 3<<20) + "\"}\n" +
			`{"type":"tool_use","tool_name":"write_file","parameters":{"file_path":"after"}}`,
			map[string]int{"after": 1}},
		"cut": {`{"type":"tool_use","tool_name":"write_file","parameters":{"file_path":"af`, nil},
	} {
		path := filepath.Join(t.TempDir(), "log")
		if tc.log != "" {
			if err := os.WriteFile(path, []byte(tc.log), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := Edits(path)
		if err != nil || !maps.Equal(got, tc.want) {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, tc.want)
		}
	}
}
