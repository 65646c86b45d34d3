// Package trace plays the files of testdata that show what a machine decides: a command says what happens, and what
// stands below it is what the machine does then. go test -rewrite writes what is so now, and that is read like code.
package trace

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// Epoch is when every trace starts.
var Epoch = time.Unix(0, 0).UTC()

// Player is a machine that is played.
type Player interface {
	// Happen tells it what a command says, and returns what it does then; false: there is no such command.
	Happen(command string, a Args, input string) (lines []string, ok bool)
}

// Play plays each file of testdata that ends in .txt by a player of its own.
func Play(t *testing.T, player func(t *testing.T) Player) {
	t.Helper()
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if !strings.HasSuffix(path, ".txt") {
			return
		}
		p := player(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var fields []string
			for _, a := range d.CmdArgs {
				f := a.Key
				if len(a.Vals) > 0 {
					f += "=" + strings.Join(a.Vals, ",")
				}
				fields = append(fields, f)
			}
			lines, ok := p.Happen(d.Cmd, Split(fields), d.Input)
			if !ok {
				d.Fatalf(t, "what is %q?", d.Cmd)
			}
			return strings.Join(lines, "\n") + "\n"
		})
	})
}

// Args are a command's words: plain ones in order, key=value by key.
type Args struct {
	Plain []string
	key   map[string]string
}

// Split sorts the words of a command.
func Split(fields []string) Args {
	a := Args{key: map[string]string{}}
	for _, f := range fields {
		if k, v, ok := strings.Cut(f, "="); ok {
			a.key[k] = v
		} else {
			a.Plain = append(a.Plain, f)
		}
	}
	return a
}

// Has reports whether a plain word is there.
func (a Args) Has(word string) bool {
	for _, p := range a.Plain {
		if p == word {
			return true
		}
	}
	return false
}

// Value is what a key has, or "".
func (a Args) Value(key string) string { return a.key[key] }

// List is what a key has, by commas.
func (a Args) List(key string) []string {
	if a.key[key] == "" {
		return nil
	}
	return strings.Split(a.key[key], ",")
}

// Number is what a key has, or what stands for one that is not there.
func (a Args) Number(key string, or int) int {
	if n, err := strconv.Atoi(a.key[key]); err == nil {
		return n
	}
	return or
}

// Duration is what a key has, or 0.
func (a Args) Duration(key string) time.Duration {
	d, _ := time.ParseDuration(a.key[key])
	return d
}

// At is the time a key says, from the start of a trace on; zero without it.
func (a Args) At(key string) time.Time {
	if d, err := time.ParseDuration(a.key[key]); err == nil {
		return Epoch.Add(d)
	}
	return time.Time{}
}
