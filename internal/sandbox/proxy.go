package sandbox

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Proxy is the only way out of a strict sandbox: an HTTP proxy on a unix
// socket that reaches the hosts of a list and no others. It keeps nothing of
// what passes.
type Proxy struct {
	hosts    []string
	dir      string
	listen   net.Listener
	dial     func(ctx context.Context, network, addr string) (net.Conn, error)
	lookup   func(ctx context.Context, host string) ([]netip.Addr, error)
	up       func(host, port string) (*url.URL, error) // the proxy that leads there from here; nil URL for none
	slots    chan struct{}
	patience time.Duration   // for a head, and for a host to answer
	ctx      context.Context // ends all connections
	stop     context.CancelFunc
	wg       sync.WaitGroup

	mu      sync.Mutex
	refused []string // hosts, since Refused was called
}

const mostRefused = 50

// Refused lists the hosts, with ports other than the usual ones, that were asked for and are not of the list, since it was called last.
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

const (
	proxyConns   = 256      // at the same time
	proxyHeader  = 64 << 10 // bytes of a request's head
	proxyPatient = 30 * time.Second
)

// Hosts are those of an agent's model provider. A word that begins with *. is
// every host below a domain.
func Hosts(agent string) []string {
	table := map[string][]string{
		"claude":   {"api.anthropic.com", "console.anthropic.com", "platform.claude.com", "claude.ai"},
		"codex":    {"api.openai.com", "auth.openai.com", "chatgpt.com", "*.openai.azure.com"},
		"gemini":   {"generativelanguage.googleapis.com", "cloudcode-pa.googleapis.com", "oauth2.googleapis.com", "*.aiplatform.googleapis.com", "aiplatform.googleapis.com", "accounts.google.com"},
		"qwen":     {"dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com", "chat.qwen.ai", "portal.qwen.ai"},
		"copilot":  {"api.github.com", "github.com", "*.githubcopilot.com"},
		"opencode": {"opencode.ai", "models.dev", "openrouter.ai", "api.mistral.ai", "api.groq.com", "api.deepseek.com", "api.x.ai"},
	}
	if agent != "opencode" {
		if list, ok := table[agent]; ok {
			return list
		}
	}
	var all []string
	for _, list := range table {
		all = append(all, list...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// ValidHost reports whether a word of a setting names hosts: a name, *.name,
// or an address, each with a port behind a colon if need be.
func ValidHost(word string) bool {
	host, port := splitPort(word)
	if port != "" && portNumber(port) == 0 {
		return false
	}
	host = strings.TrimPrefix(host, "*.")
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host != "" && strings.Trim(strings.ToLower(host), "abcdefghijklmnopqrstuvwxyz0123456789.-_") == "" && !strings.HasPrefix(host, ".")
}

// StartProxy listens. Close ends it. owner names who starts it: what an owner
// that was killed left lying about goes when it starts another.
func StartProxy(hosts []string, owner string) (*Proxy, error) {
	p, err := newProxy(hosts, owner)
	if err == nil {
		p.wg.Go(p.serve)
	}
	return p, err
}

// newProxy listens, and hears nobody yet.
func newProxy(hosts []string, owner string) (*Proxy, error) {
	sum := sha256.Sum256([]byte(owner))
	dir := filepath.Join(os.TempDir(), "descartes-net-"+hex.EncodeToString(sum[:8])) // short: a socket's path may be no longer
	err := os.RemoveAll(dir)
	if err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	if err != nil { // somebody else's
		dir, err = os.MkdirTemp("", "descartes-net-")
	}
	if err != nil {
		return nil, fmt.Errorf("start the sandbox's proxy: %w", err)
	}
	p := &Proxy{hosts: hosts, dir: dir, slots: make(chan struct{}, proxyConns), patience: proxyPatient, up: ourProxy, dial: (&net.Dialer{Timeout: proxyPatient}).DialContext,
		lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}}
	if p.listen, err = net.Listen("unix", p.Socket()); err != nil {
		return nil, errors.Join(fmt.Errorf("start the sandbox's proxy: %w", err), os.RemoveAll(dir))
	}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p, nil
}

// Socket is where it listens.
func (p *Proxy) Socket() string { return filepath.Join(p.dir, "s") }

// Close ends the proxy and every connection through it.
func (p *Proxy) Close() error {
	p.stop()
	err := p.listen.Close()
	p.wg.Wait()
	return errors.Join(err, os.RemoveAll(p.dir))
}

func (p *Proxy) serve() {
	for {
		c, err := p.listen.Accept()
		if err != nil {
			return
		}
		select {
		case p.slots <- struct{}{}:
		default:
			c.Close() // as many as may be are under way
			continue
		}
		p.wg.Go(func() {
			defer func() { <-p.slots }()
			defer c.Close()
			defer context.AfterFunc(p.ctx, func() { c.Close() })()
			p.client(c)
		})
	}
}

// client serves one connection: one request, or one tunnel.
func (p *Proxy) client(c net.Conn) {
	_ = c.SetReadDeadline(time.Now().Add(p.patience))
	limit := &io.LimitedReader{R: c, N: proxyHeader}
	in := bufio.NewReader(limit)
	r, err := readRequest(in)
	if err != nil {
		if limit.N <= 0 {
			err = &denial{431, "the request's head is too long"}
		}
		p.refuse(c, err)
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, p.patience)
	defer cancel()
	out, err := p.reach(ctx, r.host, r.port)
	if err != nil {
		p.refuse(c, &denial{403, err.Error()})
		return
	}
	defer out.Close()
	defer context.AfterFunc(p.ctx, func() { out.Close() })()
	_ = c.SetReadDeadline(time.Time{})
	if !r.tunnel {
		limit.N = math.MaxInt64 // its body may be as long as it likes
		forward(c, out, r, in)
		return
	}
	if _, err := io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n"); err == nil {
		join(c, out, io.MultiReader(bufferedOf(in), c))
	}
}

// bufferedOf is what was read beyond a request's head.
func bufferedOf(in *bufio.Reader) io.Reader {
	b, _ := in.Peek(in.Buffered())
	return strings.NewReader(string(b))
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

// refuse answers a request that leads nowhere. What still comes of it is read
// for a moment: a connection that is closed on it loses the answer.
func (p *Proxy) refuse(c net.Conn, err error) {
	code, text := 400, err.Error()
	var r *denial
	if errors.As(err, &r) {
		code = r.code
	}
	body := "descartes: " + text + "\n"
	_ = c.SetDeadline(time.Now().Add(min(p.patience, 2*time.Second)))
	fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", code, reason(code), len(body), body)
	closeWrite(c)
	_, _ = io.CopyN(io.Discard, c, 16*proxyHeader)
}

// reach connects to a host of the list. A name of the list that means an
// address of this machine or its networks is refused: names are cheap. An
// address that the list itself holds is not.
func (p *Proxy) reach(ctx context.Context, host, port string) (net.Conn, error) {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if !allowed(p.hosts, host, port) {
		p.note(host, port)
		return nil, fmt.Errorf("%s is not among the hosts that the sandbox may reach; sandbox_domains in descartes.yaml adds it", net.JoinHostPort(host, port))
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return p.dial(ctx, "tcp", netip.AddrPortFrom(addr, portNumber(port)).String())
	}
	if host == "localhost" { // which the list holds itself
		c, err := p.dial(ctx, "tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			c, err = p.dial(ctx, "tcp", net.JoinHostPort("::1", port))
		}
		return c, err
	}
	if up, err := p.up(host, port); err != nil {
		return nil, err
	} else if up != nil {
		return p.through(ctx, up, host, port)
	}
	addrs, err := p.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	err = fmt.Errorf("%s has no address", host)
	for _, addr := range addrs {
		if addr = addr.Unmap(); !public(addr) {
			err = fmt.Errorf("%s is an address of this machine or its network; list %s itself in sandbox_domains if that is meant", host, addr)
			continue
		}
		var c net.Conn
		if c, err = p.dial(ctx, "tcp", netip.AddrPortFrom(addr, portNumber(port)).String()); err == nil {
			return c, nil
		}
	}
	return nil, err
}

func portNumber(port string) uint16 {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return 0
	}
	return uint16(n)
}

// allowed reports whether a list holds a host. A word without a port holds
// the ports of the web. Nothing is below a part of an address.
func allowed(list []string, host, port string) bool {
	_, err := netip.ParseAddr(host)
	isName := err != nil
	return slices.ContainsFunc(list, func(word string) bool {
		name, at := splitPort(strings.ToLower(word))
		if at == "" && port != "443" && port != "80" || at != "" && at != port {
			return false
		}
		suffix, below := strings.CutPrefix(name, "*")
		return name == host || below && isName && strings.HasPrefix(suffix, ".") && strings.HasSuffix(host, suffix) && len(host) > len(suffix)
	})
}

// splitPort parts a host from its port, "" where it has none.
func splitPort(s string) (host, port string) {
	if h, p, err := net.SplitHostPort(s); err == nil {
		return h, p
	}
	return strings.Trim(s, "[]"), ""
}

// public reports whether an address is one of the wide network.
func public(a netip.Addr) bool {
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() {
		return false
	}
	for _, block := range []string{"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "198.18.0.0/15", "240.0.0.0/4", "64:ff9b::/96", "2002::/16", "fec0::/10"} {
		if netip.MustParsePrefix(block).Contains(a) {
			return false
		}
	}
	return true
}
