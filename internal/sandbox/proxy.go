package sandbox

import (
	"bufio"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/http/httpproxy"
)

// Proxy is the only way out of a strict sandbox: an HTTP proxy on a unix
// socket that reaches the hosts of a list and no others. It keeps nothing of
// what passes.
type Proxy struct {
	hosts    []string
	dir      string
	server   *http.Server
	plain    *httputil.ReverseProxy // for requests that are not encrypted
	dial     func(ctx context.Context, network, addr string) (net.Conn, error)
	lookup   func(ctx context.Context, host string) ([]netip.Addr, error)
	upstream func(*url.URL) (*url.URL, error) // the proxy that leads there from here; nil URL for none
	slots    chan struct{}                    // one for each request under way
	ctx      context.Context                  // ends all tunnels
	stop     context.CancelFunc
	wg       sync.WaitGroup

	mu      sync.Mutex
	refused []string // hosts, since Refused was called
}

const (
	proxyConns  = 256      // at the same time
	proxyHeader = 64 << 10 // bytes of a request's head
	mostRefused = 50

	longestSocket = 103 // bytes of a socket's path on macOS; Linux takes 107
)

// proxyTimeout is how long a client may take over a head, and a host over a connection.
var proxyTimeout = 30 * time.Second

// StartProxy listens. Close ends it.
func StartProxy(hosts []string) (*Proxy, error) {
	const name = "descartes-net-"
	tmp := os.TempDir()
	if len(tmp)+len("/"+name+"1234567890/s") > longestSocket {
		tmp = "/tmp"
	}
	dir, err := os.MkdirTemp(tmp, name)
	if err != nil {
		return nil, fmt.Errorf("start the sandbox's proxy: %w", err)
	}
	p := &Proxy{hosts: hosts, dir: dir, slots: make(chan struct{}, proxyConns),
		upstream: httpproxy.FromEnvironment().ProxyFunc(), dial: (&net.Dialer{Timeout: proxyTimeout}).DialContext,
		lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}}
	listen, err := net.Listen("unix", p.Socket())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the sandbox's proxy: %w", err), os.RemoveAll(dir))
	}
	p.ctx, p.stop = context.WithCancel(context.Background())
	silent := log.New(io.Discard, "", 0)
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: proxyTimeout, MaxHeaderBytes: proxyHeader, ErrorLog: silent,
		BaseContext: func(net.Listener) context.Context { return p.ctx }}
	p.server.SetKeepAlivesEnabled(false)
	p.plain = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.Host = r.Out.URL.Host }, // whatever host the client told
		Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true,
			DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) { return p.reach(ctx, addr) }},
		FlushInterval: -1,
		ErrorLog:      silent,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			refuse(w, status(err), err)
		},
	}
	p.wg.Go(func() { _ = p.server.Serve(listen) })
	return p, nil
}

// Socket is where it listens.
func (p *Proxy) Socket() string { return filepath.Join(p.dir, "s") }

// Close ends the proxy and every connection through it.
func (p *Proxy) Close() error {
	p.stop()
	err := p.server.Close()
	p.wg.Wait()
	return errors.Join(err, os.RemoveAll(p.dir))
}

// Refused lists the hosts, with ports other than the usual ones, that were asked for and are not of the list, since it
// was called last.
func (p *Proxy) Refused() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.refused
	p.refused = nil
	slices.Sort(list)
	return list
}

func (p *Proxy) note(host, port string) {
	if port != "80" && port != "443" {
		host = net.JoinHostPort(host, port)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.refused) < mostRefused && !slices.Contains(p.refused, host) {
		p.refused = append(p.refused, host)
	}
}

// ServeHTTP serves one request, or one tunnel.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	default:
		refuse(w, http.StatusServiceUnavailable, errors.New("too many requests are under way"))
		return
	}
	switch tunnel := r.Method == http.MethodConnect; {
	case r.URL.User != nil || tunnel && r.URL.Path != "" || !tunnel && (r.URL.Scheme != "http" || r.URL.Host == ""):
		refuse(w, http.StatusBadRequest, errors.New("not a proxy request"))
		return
	case !tunnel:
		p.plain.ServeHTTP(w, r)
		return
	}
	out, err := p.reach(r.Context(), r.URL.Host)
	if err != nil {
		refuse(w, status(err), err)
		return
	}
	defer out.Close()
	c, in, err := http.NewResponseController(w).Hijack()
	if err != nil {
		refuse(w, http.StatusInternalServerError, err)
		return
	}
	defer c.Close()
	defer context.AfterFunc(p.ctx, func() { c.Close(); out.Close() })()
	if _, err := io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n"); err == nil {
		join(c, out, buffered(in.Reader, c))
	}
}

// banned is what the sandbox does not let through, as opposed to what cannot be reached.
type banned struct{ error }

// status is what a client is told: one that hears 403 takes it that its login is wrong, and tries no more.
func status(err error) int {
	if _, ok := errors.AsType[banned](err); ok {
		return http.StatusForbidden
	}
	return http.StatusBadGateway
}

func refuse(w http.ResponseWriter, code int, err error) {
	w.Header().Set("Connection", "close")
	http.Error(w, "descartes: "+err.Error(), code)
}

// buffered is what was read beyond a head, and then the rest.
func buffered(in *bufio.Reader, c io.Reader) io.Reader {
	return io.MultiReader(io.LimitReader(in, int64(in.Buffered())), c)
}

// join copies both ways until both have ended.
func join(c, out net.Conn, fromClient io.Reader) {
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(out, fromClient)
		closeWrite(out)
	})
	_, _ = io.Copy(c, out)
	closeWrite(c)
	wg.Wait()
}

func closeWrite(c net.Conn) {
	if w, ok := c.(interface{ CloseWrite() error }); ok {
		_ = w.CloseWrite()
	}
}

// reach connects to a host of the list. A name of the list that means an
// address of this machine or its networks is refused: names are cheap. An
// address that the list itself holds is not.
func (p *Proxy) reach(ctx context.Context, target string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, proxyTimeout)
	defer cancel()
	host, port, err := hostPort(target)
	if err != nil {
		return nil, banned{err}
	}
	target = net.JoinHostPort(host, port)
	if !allowed(p.hosts, host, port) {
		p.note(host, port)
		return nil, banned{fmt.Errorf("%s is not among the hosts that the sandbox may reach; to allow it, add it to sandbox_domains in descartes.yaml", target)}
	}
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" { // which the list holds itself
		return p.dial(ctx, "tcp", target)
	}
	u := &url.URL{Scheme: "https", Host: target}
	if port == "80" {
		u.Scheme = "http"
	}
	if up, err := p.upstream(u); err != nil {
		// its value may hold a password
		return nil, errors.New("HTTP_PROXY or HTTPS_PROXY names no proxy: it should be http://host:port")
	} else if up != nil {
		return p.through(ctx, up, target)
	}
	addrs, err := p.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	err = fmt.Errorf("%s has no address", host)
	for _, addr := range addrs {
		if addr = addr.Unmap(); !public(addr) {
			err = banned{fmt.Errorf("%s is an address of this machine or its network; to allow it, list %s itself in sandbox_domains", host, addr)}
			continue
		}
		var c net.Conn
		if c, err = p.dial(ctx, "tcp", net.JoinHostPort(addr.String(), port)); err == nil {
			return c, nil
		}
	}
	return nil, err
}

// through reaches a host by way of another proxy, which then resolves its
// name: networks that have one often resolve no others.
func (p *Proxy) through(ctx context.Context, up *url.URL, target string) (net.Conn, error) {
	if up.Scheme != "http" || up.Hostname() == "" {
		return nil, fmt.Errorf("the proxy %s://%s cannot be used from a strict sandbox, only http:// ones", up.Scheme,
			up.Host)
	}
	c, err := p.dial(ctx, "tcp", net.JoinHostPort(up.Hostname(), cmp.Or(up.Port(), "80")))
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { c.Close() })()
	r := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: target}, Host: target,
		Header: http.Header{"User-Agent": {""}}}
	if u := up.User; u != nil {
		pass, _ := u.Password()
		r.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+pass)))
	}
	head := bufio.NewReader(io.LimitReader(c, proxyHeader))
	var answer *http.Response
	if err = r.Write(c); err == nil {
		answer, err = http.ReadResponse(head, r)
	}
	if err != nil {
		err = fmt.Errorf("the proxy %s gave no valid answer", up.Host)
	} else if answer.StatusCode/100 != 2 {
		err = fmt.Errorf("the proxy %s does not let %s be reached: %.200q", up.Host, target, answer.Status)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return &begun{Conn: c, rest: buffered(head, c)}, nil
}

// begun is a connection of which something has already been read.
type begun struct {
	net.Conn
	rest io.Reader
}

func (b *begun) Read(p []byte) (int, error) { return b.rest.Read(p) }

// CloseWrite ends our side alone.
func (b *begun) CloseWrite() error {
	closeWrite(b.Conn)
	return nil
}
