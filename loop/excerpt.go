package loop

import (
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"descartes/loop/workspace"
)

// grace is what a process is given between the request to end and the kill.
const grace = 5 * time.Second

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// gitErr marks what git refused, so that the run ends with that and not as an error of our own.
func gitErr(what string, err error) error { return &workspace.GitError{What: what, Err: err} }

func isGit(err error) bool {
	_, git := errors.AsType[*workspace.GitError](err)
	return git
}

// maxWords bounds, in bytes, what the journal keeps of an agent's last words; its log has all of them.
const maxWords = 4 << 10

// maxFinal bounds, in bytes, what the journal keeps of the final message, which a resumed loop looks for
// the promise in: all that is read of it.
const maxFinal = 16 << 10

// head is the beginning of s, at most n bytes of whole characters.
func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

// tail is the end of s, at most n bytes of whole characters.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[len(s)-n:]
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return s
}
