package sandbox

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
)

// ourProxy is the proxy that this process itself would take to a host, by its
// variables; nil for none.
func ourProxy(host, port string) (*url.URL, error) {
	scheme := "https"
	if port == "80" {
		scheme = "http"
	}
	return http.ProxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: scheme, Host: net.JoinHostPort(host, port)}})
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
	r, err := http.ReadResponse(in, &http.Request{Method: http.MethodConnect})
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("the proxy %s does not let %s be reached: %s", up.Host, target, r.Status)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return &begun{Conn: c, rest: io.MultiReader(bufferedOf(in), c)}, nil
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
