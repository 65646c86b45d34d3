package agent

import "testing"

func TestLastLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                        "",
		"one\ntwo\n\n":            "two",
		"EROFS: read-only\ntwo\n": "two",
		"EROFS: read-only file system, mkdir '/home/a/.cache'\n    path: \"/home/a/.cache\",\n syscall: \"mkdir\",\n   errno: -30,\n    code: \"EROFS\"\n\n\nBun v1.3.14 (Linux x64 baseline)\n": "EROFS: read-only file system, mkdir '/home/a/.cache'",
		"/x/cli.js:12\n  throw e;\n  ^\n\nTypeError: a is not a function\n    at f (/x/cli.js:12:3)\n    at node:internal/main:1\n\nNode.js v20.1.0\n":                                           "TypeError: a is not a function",
		"Failed to extract bundled package: Error: ENOENT, mkdir '/x' {\n  errno: -2,\n  code: 'ENOENT'\n}\n":                                                                                    "Failed to extract bundled package: Error: ENOENT, mkdir '/x'",
		"Failed query: CREATE TABLE workspace\nparams:\n": "Failed query: CREATE TABLE workspace",
		"it failed: {\n  \"a\": {\n  }\n}":                "it failed:",
		"it did not work\nNode.js v20.1.0":                "it did not work",
		"Node.js vanished":                                "Node.js vanished",
	} {
		if got := lastLine(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
