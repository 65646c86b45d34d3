package gate

import (
	"slices"
	"strings"
)

// metrics are what can be improved without a target.
func metrics() []string {
	return []string{"performance", "speed", "latency", "throughput", "memory", "coverage", "size", "security", "accessibility",
		"reliability", "startup", "usability", "quality", "readability", "errors", "warnings"}
}

// verbs begin a change.
func verbs() []string {
	return []string{"add", "implement", "create", "build", "write", "fix", "debug", "repair", "refactor", "clean", "reorganize", "migrate",
		"move", "rename", "replace", "remove", "delete", "update", "upgrade", "improve", "make", "change", "extend", "support", "convert", "split",
		"extract", "document", "port", "handle", "expose", "reduce", "increase", "optimize", "speed", "test", "introduce", "show", "allow"}
}

// target is what a clause's verb of change acts on, without words that name nothing in particular.
func target(ws []string) []string {
	at := slices.IndexFunc(ws, func(w string) bool { return slices.Contains(verbs(), w) })
	if at < 0 {
		return nil
	}
	var out []string
	for _, w := range ws[at+1:] {
		switch w {
		case "a", "an", "the", "this", "that", "it", "its", "my", "our", "your", "all", "every", "of", "in", "to", "for", "and", "up", "new", "some",
			"app", "application", "code", "codebase", "project", "system", "program", "software", "site", "website", "product", "repo", "repository",
			"whole", "entire", "everything", "anything", "thing", "things", "stuff", "problems", "problem", "issues", "bugs", "bug", "feature", "features",
			"better", "faster", "nicer", "cleaner", "good", "great", "best", "modern", "more", "less", "work", "works", "working", "properly", "well", "please", "just":
		default:
			if !slices.Contains(verbs(), w) {
				out = append(out, w)
			}
		}
	}
	return out
}

// located reports whether a clause names a path, a file, or a piece of code.
func located(raw string) bool {
	for _, w := range strings.Fields(raw) {
		bareWord := strings.Trim(w, "\"'.,;:*<>[]{}")
		code := strings.Trim(bareWord, "()`")
		switch {
		case strings.Contains(w, "://") || strings.Contains(w, "</") || code == "":
		case strings.HasPrefix(code, "/") && len(code) > 2, strings.HasPrefix(code, "./") && len(code) > 2, strings.Count(code, "/") > 1:
			return true
		case strings.Contains(code, "/") && (strings.HasSuffix(code, "/") || fileLike(code) || slices.Contains(roots(), code[:strings.IndexByte(code, '/')])):
			return true
		case fileLike(code), strings.HasSuffix(bareWord, "()"), strings.Contains(code, "_") && len(code) > 4, len(bareWord) > 3 && strings.Count(bareWord, "`") == 2:
			return true
		}
	}
	return false
}

func roots() []string {
	return []string{"src", "lib", "cmd", "pkg", "internal", "app", "api", "test", "tests", "docs", "components", "specs"}
}

// fileLike reports whether a word looks like a file name: main.go, but not 1.2 or e.g.
func fileLike(w string) bool {
	at := strings.LastIndexByte(w, '.')
	if at < 2 || len(w)-at-1 < 1 || len(w)-at-1 > 5 {
		return false
	}
	for _, c := range w[at+1:] {
		if c < 'a' || c > 'z' {
			return false
		}
	}
	return w[at-1] != '.'
}
