package sandbox

import (
	"path/filepath"
	"strings"
)

// On macOS the sandbox is sandbox-exec with a profile made of the same places. A profile can only forbid: what bubblewrap hides is
// refused there, and nothing can be seen at another place than its own, so a slot is worked in where it lies.

// seatbelt is the command line up to the program where macOS holds it in.
func (b *Box) seatbelt(tmp string) []string {
	v := []string{"/usr/bin/env"}
	for _, name := range unset() {
		v = append(v, "-u", name)
	}
	v = append(v, b.variables(filepath.Join(tmp, "tmp"))...)
	return append(v, b.c.Seatbelt, "-p", b.Profile(tmp))
}

// Profile is what sandbox-exec is given, rule by rule: of those that fit a call the last one decides. tmp is the command's folder of
// temporary files.
func (b *Box) Profile(tmp string) string {
	p := &profile{}
	p.line(rules)
	if b.c.Mode == Strict {
		b.strictly(p)
	} else {
		p.allow("file-write* file-link", "/private/tmp")
		p.allow("file-write* file-link", "/private/var/tmp")
		p.line(`(allow file-write* file-link (regex #"^/private/var/folders/[^/]+/[^/]+/C/"))`) // what compilers keep by themselves
	}
	for _, m := range b.mounts {
		switch {
		case m.how.writes():
			p.allow("file* network-outbound", m.path)
			if m.sealed {
				p.deny("file-write* file-link", m.path)
			}
			p.line("(deny file-write-unlink (literal " + quote(m.path) + "))") // it stays where it is, as a mount does
		case m.how == hidden:
			p.deny("file* network-outbound", m.path)
		default:
			p.allow("file-read* network-outbound", m.path)
			p.deny("file-write* file-link", m.path)
		}
	}
	if b.c.Mode == Auto { // names are looked up there
		p.line(`(allow file-read* (literal "/private/var/run/resolv.conf"))`)
		p.line(`(allow network-outbound (literal "/private/var/run/mDNSResponder"))`)
	}
	if b.forwarded() {
		p.allow("file-read* network-outbound", b.c.Socket)
		p.allow("file-read*", b.c.Self)
	}
	p.allow("file* network-outbound", tmp)
	p.line("(allow file-read-metadata (vnode-type DIRECTORY))") // a path through a hidden folder can be followed
	return p.String()
}

// rules stand first. Writing, and a second name by which something could be written, is for the places named later; nobody is asked to do something
// outside, and the user's other programs keep their variables to themselves.
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
(allow process-info* (target same-sandbox))`

// strictly closes the network, but for the machine's own loopback, and what belongs to people and not to the system.
func (b *Box) strictly(p *profile) {
	p.line("(deny network*)")
	p.line(`(allow network-bind network-inbound (local ip "*:*"))`)
	p.line(`(allow network-outbound (remote ip "localhost:*"))`)
	for _, dir := range []string{"/Users", "/Volumes", "/private/tmp", "/private/var/tmp", "/private/var/folders"} {
		p.deny("file-read*", dir)
	}
}

// profile is one as it grows.
type profile struct{ strings.Builder }

func (p *profile) line(text string) { p.WriteString(text + "\n") }

func (p *profile) allow(what, path string) { p.rule("allow", what, path) }
func (p *profile) deny(what, path string)  { p.rule("deny", what, path) }

// rule is one for a place and all below it. What is connected to is named as a socket besides.
func (p *profile) rule(verb, what, path string) {
	files := what
	if rest, ok := strings.CutSuffix(what, " network-outbound"); ok {
		files = rest
		p.line("(" + verb + " network-outbound (remote unix-socket (subpath " + quote(path) + ")))")
	}
	p.line("(" + verb + " " + files + " (subpath " + quote(path) + "))")
}

// quote is a path as a string of a profile, whose strings end as in Scheme and hold any byte else.
func quote(path string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(path) + `"`
}
