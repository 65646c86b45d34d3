// Package lazyregexp compiles a regular expression when it is first used. Hundreds of them compiled at start made
// each command wait for what few of them ask.
package lazyregexp

import (
	"os"
	"regexp"
	"strings"
	"sync"
)

// Regexp is a regexp.Regexp that is compiled by the first call of a method. The methods are those of
// regexp.Regexp. Safe for concurrent use.
type Regexp struct{ compiled func() *regexp.Regexp }

// New returns expr, not compiled yet. One that does not parse panics when it is used, and at once in tests.
func New(expr string) *Regexp {
	r := &Regexp{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })}
	if strings.HasSuffix(os.Args[0], ".test") {
		r.compiled()
	}
	return r
}

func (r *Regexp) Match(b []byte) bool {
	return r.compiled().Match(b)
}

// MatchString is false of nil.
func (r *Regexp) MatchString(s string) bool {
	return r != nil && r.compiled().MatchString(s)
}

func (r *Regexp) FindString(s string) string {
	return r.compiled().FindString(s)
}

func (r *Regexp) FindStringIndex(s string) []int {
	return r.compiled().FindStringIndex(s)
}

func (r *Regexp) FindStringSubmatch(s string) []string {
	return r.compiled().FindStringSubmatch(s)
}

func (r *Regexp) FindStringSubmatchIndex(s string) []int {
	return r.compiled().FindStringSubmatchIndex(s)
}

func (r *Regexp) FindAllString(s string, n int) []string {
	return r.compiled().FindAllString(s, n)
}

func (r *Regexp) FindAllStringIndex(s string, n int) [][]int {
	return r.compiled().FindAllStringIndex(s, n)
}

func (r *Regexp) FindAllStringSubmatch(s string, n int) [][]string {
	return r.compiled().FindAllStringSubmatch(s, n)
}

func (r *Regexp) FindAllStringSubmatchIndex(s string, n int) [][]int {
	return r.compiled().FindAllStringSubmatchIndex(s, n)
}

func (r *Regexp) ReplaceAllString(s, with string) string {
	return r.compiled().ReplaceAllString(s, with)
}

func (r *Regexp) ReplaceAllStringFunc(s string, with func(string) string) string {
	return r.compiled().ReplaceAllStringFunc(s, with)
}

func (r *Regexp) Split(s string, n int) []string {
	return r.compiled().Split(s, n)
}

func (r *Regexp) ExpandString(dst []byte, template, s string, match []int) []byte {
	return r.compiled().ExpandString(dst, template, s, match)
}

func (r *Regexp) FindAllIndex(b []byte, n int) [][]int { return r.compiled().FindAllIndex(b, n) }

func (r *Regexp) FindIndex(b []byte) []int { return r.compiled().FindIndex(b) }
