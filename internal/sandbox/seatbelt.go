package sandbox

import (
	"path/filepath"
	"strings"
)

// On macOS the sandbox is sandbox-exec with a profile made of the same places. A profile can only forbid: what
// bubblewrap hides is refused there, and nothing can be seen at another place than its own, so a slot is worked in
// where it lies.

// seatbelt is the command line up to the program where macOS holds it in.
func (b *Box) seatbelt(tmp string) []string {
	v := []string{"/usr/bin/env"}
	for _, name := range unset() {
		v = append(v, "-u", name)
	}
	v = append(v, b.variables(filepath.Join(tmp, "tmp"))...)
	return append(v, b.c.Seatbelt, "-p", b.Profile(tmp))
}

// Profile is what sandbox-exec is given, rule by rule: of those that fit a call the last one decides. tmp is the
// command's folder of temporary files.
func (b *Box) Profile(tmp string) string {
	p := rules
	if b.c.Mode == Strict {
		p += strictRules
	} else {
		p += autoRules
	}
	for _, m := range b.mounts {
		switch {
		case m.how.writes():
			p += rule("allow file* network-outbound", m.path)
			if m.sealed {
				p += rule("deny file-write* file-link", m.path)
			}
			p += "(deny file-write-unlink (literal " + quote(m.path) + "))\n" // it stays where it is, as a mount does
		case m.how == hidden:
			p += rule("deny file* network-outbound", m.path)
		default:
			p += rule("allow file-read* network-outbound", m.path)
			p += rule("deny file-write* file-link", m.path)
		}
	}
	if b.c.Mode == Auto {
		p += nameRules
	}
	if b.forwarded() {
		p += rule("allow file-read* network-outbound", b.c.Socket)
		p += rule("allow file-read*", b.c.Self)
	}
	p += rule("allow file* network-outbound", tmp)
	return p + "(allow file-read-metadata (vnode-type DIRECTORY))\n" // a path through a hidden folder can be followed
}

// rules stand first. Writing, and a second name by which something could be written, is for the places named later;
// nobody is asked to do something outside, and the user's other programs keep their variables to themselves.
const rules = `(version 1)
(allow default)
(deny file-write* file-link)
(allow file-write-data file-ioctl (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (literal "/dev/ptmx") (literal "/dev/dtracehelper") (regex #"^/dev/ttys[0-9]+$") (regex #"^/dev/fd/"))
(deny appleevent-send)
(deny lsopen)
(deny job-creation)
(deny signal)
(allow signal (target same-sandbox))
(deny process-info*)
(allow process-info* (target same-sandbox))
`

// autoRules open folders of temporary files, and what compilers keep by themselves.
const autoRules = `(allow file-write* file-link (subpath "/private/tmp"))
(allow file-write* file-link (subpath "/private/var/tmp"))
(allow file-write* file-link (regex #"^/private/var/folders/[^/]+/[^/]+/C/"))
`

// nameRules let names of hosts be looked up.
const nameRules = `(allow file-read* (literal "/private/var/run/resolv.conf"))
(allow network-outbound (literal "/private/var/run/mDNSResponder"))
`

// strictRules close the network, but for the machine's own loopback, and what belongs to people and not to the system.
const strictRules = `(deny network*)
(allow network-bind network-inbound (local ip "*:*"))
(allow network-outbound (remote ip "localhost:*"))
(deny file-read* (subpath "/Users"))
(deny file-read* (subpath "/Volumes"))
(deny file-read* (subpath "/private/tmp"))
(deny file-read* (subpath "/private/var/tmp"))
(deny file-read* (subpath "/private/var/folders"))
`

// rule is one for a place and all below it. What is connected to is named as a socket besides.
func rule(what, path string) (lines string) {
	place := " (subpath " + quote(path) + ")"
	if rest, ok := strings.CutSuffix(what, " network-outbound"); ok {
		verb, _, _ := strings.Cut(what, " ")
		lines = "(" + verb + " network-outbound (remote unix-socket" + place + "))\n"
		what = rest
	}
	return lines + "(" + what + place + ")\n"
}

// quote is a path as a string of a profile, whose strings end as in Scheme and hold any byte else.
func quote(path string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(path) + `"`
}
