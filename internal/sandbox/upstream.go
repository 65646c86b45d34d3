package sandbox

import (
	"bufio"
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"
)

// ourProxy is the proxy that this process itself would take to a host, by its
// variables; nil for none.
func ourProxy(host, port string) (*url.URL, error) {
	return proxyFor(host, port, os.Getenv)
}

// proxyFor is the proxy that variables name for a host.
func proxyFor(host, port string, env func(string) string) (*url.URL, error) {
	name := "HTTPS_PROXY"
	if port == "80" {
		name = "HTTP_PROXY"
	}
	set := func(name string) string { return cmp.Or(env(name), env(strings.ToLower(name))) }
	word := set(name)
	if word == "" || excepted(set("NO_PROXY"), host, port) {
		return nil, nil
	}
	if !strings.Contains(word, "://") {
		word = "http://" + word
	}
	u, err := url.Parse(word)
	if err != nil || u.Hostname() == "" || u.Port() != "" && portNumber(u.Port()) == 0 {
		return nil, fmt.Errorf("%s names no proxy: it should be http://host:port", name) // its value may hold a password
	}
	return u, nil
}

// excepted reports whether NO_PROXY's list has a host: * is all, a name is
// itself and all below it, .name those below it, an address or a block of
// them itself, each with a port behind a colon if need be.
func excepted(list, host, port string) bool {
	addr, err := netip.ParseAddr(host)
	isAddr := err == nil
	if host == "localhost" || isAddr && addr.Unmap().IsLoopback() {
		return true
	}
	for word := range strings.SplitSeq(strings.ToLower(list), ",") {
		if word = strings.TrimSpace(word); word == "*" {
			return true
		}
		if block, err := netip.ParsePrefix(word); err == nil {
			if isAddr && block.Contains(addr.Unmap()) {
				return true
			}
			continue
		}
		name, at := splitPort(word)
		if name == "" || at != "" && at != port {
			continue
		}
		if a, err := netip.ParseAddr(name); err == nil {
			if isAddr && a.Unmap() == addr.Unmap() {
				return true
			}
			continue
		}
		name = strings.TrimPrefix(name, "*")
		if !isAddr && (host == name || strings.HasSuffix(host, "."+strings.TrimPrefix(name, "."))) {
			return true
		}
	}
	return false
}

// through reaches a host by way of another proxy, which then resolves its
// name: networks that have one often resolve no others.
func (p *Proxy) through(ctx context.Context, up *url.URL, host, port string) (net.Conn, error) {
	if up.Scheme != "http" {
		return nil, fmt.Errorf("the proxy %s://%s cannot be used from a strict sandbox, only http:// ones", up.Scheme, up.Host)
	}
	at := up.Port()
	if at == "" {
		at = "80"
	}
	c, err := p.dial(ctx, "tcp", net.JoinHostPort(up.Hostname(), at))
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	target := net.JoinHostPort(host, port)
	login := ""
	if u := up.User; u != nil {
		pass, _ := u.Password()
		login = "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+pass)) + "\r\n"
	}
	if _, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", target, target, login); err != nil {
		c.Close()
		return nil, err
	}
	in := bufio.NewReader(io.LimitReader(c, proxyHeader))
	lines, err := readHead(in)
	if err != nil {
		err = fmt.Errorf("the proxy %s gives no answer that could be understood", up.Host)
	} else if status, ok := connected(lines[0]); !ok {
		err = fmt.Errorf("the proxy %s does not let %s be reached: %s", up.Host, target, status)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return &begun{Conn: c, rest: io.MultiReader(bufferedOf(in), c)}, nil
}

// connected reads the first line of an answer: its status, and whether that
// is one of success.
func connected(line string) (status string, ok bool) {
	version, status, _ := strings.Cut(line, " ")
	if version != "HTTP/1.1" && version != "HTTP/1.0" {
		return "its answer is not HTTP/1", false
	}
	code, _, _ := strings.Cut(status, " ")
	return status[:min(len(status), 200)], len(code) == 3 && code[0] == '2' && portNumber(code) > 0
}

// begun is a connection of which something was read already.
type begun struct {
	net.Conn
	rest io.Reader
}

func (b *begun) Read(p []byte) (int, error) { return b.rest.Read(p) }

// CloseWrite ends our side alone.
func (b *begun) CloseWrite() error {
	if w, ok := b.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}
