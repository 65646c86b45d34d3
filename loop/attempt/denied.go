package attempt

import (
	"cmp"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"descartes/agent"
	"descartes/internal/lazyregexp"
	"descartes/internal/oneline"
	"descartes/internal/plainfile"
	"descartes/verify"
)

// MaxDenied limits the lines about one attempt, and MaxDeniedLine the bytes of each; longer ones are left out.
const (
	MaxDenied     = 8
	MaxDeniedLine = 600
)

// deniedTail limits how many bytes at the end of a log are searched for refusals.
const deniedTail = 1 << 20

var (
	beforeReadOnly = lazyregexp.New("(?i)([^\\s'\"`‘’:\\\\]+)['\"`’\\\\]*: read-only file system")
	noConnection   = lazyregexp.New(`(?i)connection ?refused|econnrefused|permission denied|(?:cannot|can't|could not) connect`)
	afterReadOnly  = lazyregexp.New(`(?i)read-only file system[:,]? *(?:\w+ )?['"\\]*(/[^\s'"\\:,]+)`)
)

// Denied lists what the sandbox refused an attempt, each with the setting that allows it: hosts that its proxy
// refused, sockets, and paths that a program called read-only in the log. Agents have sandboxes of their own: in the project
// ours keeps no more than .git, .scud and what is protected (a folder ends in a slash), and a refusal elsewhere is not
// ours. One that no program printed is unknown.
func Denied(root string, protected []string, log string, hosts []string) (list []string) {
	for _, host := range hosts {
		list = append(list, "the network to "+host+"; sandbox_domains: ["+host+"] in descartes.yaml opens it")
	}
	text := tailOf(log)
	for _, path := range refusedSockets(text) {
		list = append(list, "the socket "+path+"; sandbox_read: ["+path+"] in descartes.yaml opens it")
	}
	for _, path := range readOnlyPaths(text) {
		if !filepath.IsAbs(path) {
			path = filepath.Join(root, path)
		}
		if rel, err := filepath.Rel(root, path); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			parts := strings.Split(rel, "/")
			if parts[0] == ".scud" || slices.Contains(parts, ".git") ||
				slices.ContainsFunc(protected, func(p string) bool { return below(path, p) }) {
				list = append(list, "writing to "+rel+", which no attempt may change")
			}
			continue
		}
		open, missing := path, ""
		for open != filepath.Dir(open) {
			if _, err := os.Lstat(open); err == nil {
				break
			}
			open, missing = filepath.Dir(open), open
		}
		once := ""
		if missing != "" && below(os.Getenv("HOME"), open) { // nobody is to open the whole home
			open, once = missing, " once it exists"
		}
		list = append(list, "writing to "+path+"; sandbox_write: ["+open+"] in descartes.yaml opens it"+once)
	}
	for i := range list {
		list[i] = oneline.Text(list[i])
	}
	slices.Sort(list)
	list = slices.DeleteFunc(slices.Compact(list), func(s string) bool { return len(s) > MaxDeniedLine })
	return list[:min(len(list), MaxDenied)]
}

// below reports whether a path is dir or in it.
func below(path, dir string) bool {
	dir = strings.TrimSuffix(dir, "/")
	return path == dir || strings.HasPrefix(path, dir+"/")
}

// tailOf is the end of a log.
func tailOf(log string) string {
	f, err := plainfile.Open("", log)
	if err != nil {
		return ""
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || fi.Size() > deniedTail {
		_, serr := f.Seek(-deniedTail, io.SeekEnd)
		if errors.Join(err, serr) != nil {
			return ""
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, deniedTail))
	if err != nil {
		return ""
	}
	return string(text)
}

// refusedSockets are the sockets of services that a log names where something in it could not be connected: those that
// are there when a command starts are hidden.
func refusedSockets(text string) (paths []string) {
	if !noConnection.MatchString(text) {
		return nil
	}
	list, _ := os.ReadFile("/proc/net/unix") // elsewhere none is known
	for line := range strings.Lines(string(list)) {
		if fields := strings.Fields(line); len(fields) == 8 && filepath.IsAbs(fields[7]) && strings.Contains(text, fields[7]) {
			paths = append(paths, fields[7])
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// readOnlyPaths are the paths that programs in a log reported as read-only, as they printed them.
func readOnlyPaths(text string) (paths []string) {
	for _, m := range slices.Concat(beforeReadOnly.FindAllStringSubmatch(text, 100),
		afterReadOnly.FindAllStringSubmatch(text, 100)) {
		if path := m[1]; strings.Contains(path, "/") || !strings.EqualFold(path, "EROFS") &&
			strings.Contains(path, ".") {
			paths = append(paths, filepath.Clean(path))
		}
	}
	slices.SortFunc(paths, cmp.Compare[string])
	return slices.Compact(paths)
}

// Withheld names the caller's variables that are not passed on.
type Withheld struct {
	Agents []string
	Verify []string
}

// Missed says which withheld variables an attempt may have failed for: those that its failed verification, or its
// crashed agent, mentions. Each is reported once in a run; said records that.
func (w *Withheld) Missed(said map[string]bool, res agent.Result, check *verify.Result) (message string) {
	var names []string
	look := func(text string, among []string) {
		for _, word := range regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]{3,}`).FindAllString(text, -1) {
			if slices.Contains(among, word) && !said[word] {
				said[word] = true
				names = append(names, word)
			}
		}
	}
	if check != nil && !check.Passed {
		look(check.Tail, w.Verify)
	}
	if res.End == agent.Crashed {
		look(res.Reason+"\n"+res.Final, w.Agents)
	}
	if len(names) == 0 {
		return ""
	}
	return "the failure names variables of yours that were withheld: " + oneline.List(names) +
		"; pass them on with --env-pass, or with env_pass in descartes.yaml"
}
