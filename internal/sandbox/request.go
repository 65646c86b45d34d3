package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// request is the head of a request to the proxy. It has one meaning only:
// what could be read in two ways is refused, not guessed at.
type request struct {
	method     string
	tunnel     bool // CONNECT
	host, port string
	path       string // of one that is no tunnel
	version    string
	fields     []field // but those that are told here or concern only this connection
	length     int64   // of the body; -1 where it comes in chunks
}

type field struct{ name, value string }

// denial is an answer that is no host's.
type denial struct {
	code int
	text string
}

func (r *denial) Error() string { return r.text }

// reason is what a status is called.
func reason(code int) string {
	switch code {
	case 403:
		return "Forbidden"
	case 431:
		return "Request Header Fields Too Large"
	case 501:
		return "Not Implemented"
	}
	return "Bad Request"
}

var errNoRequest = errors.New("no request for a proxy")

// readRequest reads a head. Whoever gives in bounds it.
func readRequest(in *bufio.Reader) (*request, error) {
	lines, err := readHead(in)
	if err != nil {
		return nil, err
	}
	words := strings.Split(lines[0], " ")
	if len(words) != 3 || !isToken(words[0]) || words[2] != "HTTP/1.1" && words[2] != "HTTP/1.0" {
		return nil, errNoRequest
	}
	r := &request{method: words[0], version: words[2], tunnel: words[0] == "CONNECT"}
	if err := r.target(words[1]); err != nil {
		return nil, err
	}
	for _, line := range lines[1:] {
		name, value, ok := strings.Cut(line, ":")
		if !ok || !isToken(name) {
			return nil, fmt.Errorf("a header field has no proper name")
		}
		r.fields = append(r.fields, field{name, strings.Trim(value, " \t")})
	}
	return r, r.frame()
}

// readHead is the lines of a head, ends taken off, the empty one too. There is
// at least one.
func readHead(in *bufio.Reader) (lines []string, err error) {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, errNoRequest
		}
		text, ok := strings.CutSuffix(line, "\r\n")
		if !ok || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return nil, errors.New("a line of the head holds a control character, or does not end with CR LF")
		}
		if text == "" {
			break
		}
		lines = append(lines, text)
	}
	if len(lines) == 0 {
		return nil, errNoRequest
	}
	return lines, nil
}

// target reads where a request goes: host:port of a tunnel, else an address
// that begins with http://.
func (r *request) target(s string) error {
	authority, standard := s, ""
	if !r.tunnel {
		rest, ok := cutPrefixFold(s, "http://")
		if !ok {
			return errNoRequest
		}
		end := len(rest)
		if i := strings.IndexAny(rest, "/?"); i >= 0 {
			end = i
		}
		authority, r.path, standard = rest[:end], rest[end:], "80"
		if !strings.HasPrefix(r.path, "/") {
			r.path = "/" + r.path
		}
		if strings.ContainsFunc(r.path, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '#' }) {
			return errors.New("the address holds a character that does not belong there")
		}
	}
	var err error
	r.host, r.port, err = hostPort(authority, standard)
	return err
}

func cutPrefixFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

// hostPort parts a host, a name or an address (IPv6 in brackets), from its port.
// standard is for one without; "" if it must have one.
func hostPort(s, standard string) (host, port string, err error) {
	bad := errors.New("the host is neither a name nor an address, each with a port")
	if standard != "" && (!strings.Contains(s, ":") || strings.HasSuffix(s, "]")) {
		s += ":" + standard
	}
	host, port, err = net.SplitHostPort(s)
	if err != nil || len(host) > 255 {
		return "", "", bad
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return "", "", bad
	}
	if strings.HasPrefix(s, "[") {
		if a, err := netip.ParseAddr(host); err != nil || !a.Is6() || a.Zone() != "" {
			return "", "", bad
		}
		return host, port, nil
	}
	if host == "" || strings.Trim(strings.ToLower(host), hostLetters) != "" || strings.HasPrefix(host, ".") {
		return "", "", bad
	}
	return host, port, nil
}

const hostLetters = "abcdefghijklmnopqrstuvwxyz0123456789.-_"

// frame works out how long the body is, and leaves of the fields those that are
// to be passed on. A length told twice, or in two ways, is how one request is
// smuggled in another.
func (r *request) frame() error {
	lengths, codings, hosts := r.values("content-length"), r.values("transfer-encoding"), r.values("host")
	switch {
	case len(hosts) > 1 || len(lengths) > 1 || len(codings) > 1 || len(lengths)+len(codings) > 1:
		return errors.New("the host or the body's length is told twice")
	case len(codings) == 1 && r.version == "HTTP/1.0":
		return errors.New("HTTP/1.0 knows no transfer encodings")
	case len(codings) == 1 && !strings.EqualFold(codings[0], "chunked"):
		return &denial{501, "only the transfer encoding chunked is known"}
	case len(codings) == 1:
		r.length = -1
	case len(lengths) == 1:
		n, err := strconv.ParseUint(lengths[0], 10, 63)
		if err != nil || strings.Trim(lengths[0], "0123456789") != "" {
			return errors.New("the body's length is no number")
		}
		r.length = int64(n)
	}
	dropped := []string{"host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "upgrade", "proxy-connection", "proxy-authorization"}
	for _, v := range r.values("connection") {
		for _, name := range strings.Split(v, ",") {
			dropped = append(dropped, strings.ToLower(strings.TrimSpace(name)))
		}
	}
	r.fields = slices.DeleteFunc(r.fields, func(f field) bool { return slices.Contains(dropped, strings.ToLower(f.name)) })
	return nil
}

// values are those of all fields of a name, which is in lower case.
func (r *request) values(name string) (out []string) {
	for _, f := range r.fields {
		if strings.ToLower(f.name) == name {
			out = append(out, f.value)
		}
	}
	return out
}

func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	})
}

// head is what the host gets. The connection to it is for this request alone.
func (r *request) head() string {
	host := r.host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if r.port != "80" {
		host += ":" + r.port
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s\r\nHost: %s\r\n", r.method, r.path, r.version, host)
	for _, f := range r.fields {
		fmt.Fprintf(&b, "%s: %s\r\n", f.name, f.value)
	}
	switch {
	case r.length < 0:
		b.WriteString("Transfer-Encoding: chunked\r\n")
	case r.length > 0 || r.method == "POST" || r.method == "PUT" || r.method == "PATCH":
		fmt.Fprintf(&b, "Content-Length: %d\r\n", r.length)
	}
	b.WriteString("Connection: close\r\n\r\n")
	return b.String()
}
