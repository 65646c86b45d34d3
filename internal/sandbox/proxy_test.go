package sandbox

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"
)

// office is a proxy, and the one host behind it: it says every byte that it gets.
type office struct {
	p    *Proxy
	host net.Listener
	got  chan string // what each connection to the host brought, up to its end
}

// newOffice has a host that gives an answer as soon as a connection brings the first head, and ends it.
func newOffice(t *testing.T, hosts []string, answer string, changes ...func(*Proxy)) *office {
	t.Helper()
	p, err := newProxy(hosts, t.Name()+rand.Text())
	if err != nil {
		t.Fatal(err)
	}
	o := &office{p: p, got: make(chan string, 10)}
	if o.host, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	p.up = func(string, string) (*url.URL, error) { return nil, nil }
	p.lookup = func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("203.0.114.7")}, nil
	}
	p.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, o.host.Addr().String())
	}
	for _, change := range changes {
		change(p)
	}
	p.wg.Go(p.serve)
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			c, err := o.host.Accept()
			if err != nil {
				return
			}
			_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
			var all []byte
			for b := make([]byte, 4096); ; {
				n, err := c.Read(b)
				all = append(all, b[:n]...)
				if text := string(all); err != nil || strings.Contains(text, "END") || !strings.Contains(text, "POST") && strings.Contains(text, "\r\n\r\n") {
					break
				}
			}
			_, _ = io.WriteString(c, answer)
			closeWrite(c)
			rest, _ := io.ReadAll(c)
			c.Close()
			o.got <- string(all) + string(rest)
		}
	}()
	t.Cleanup(func() {
		o.host.Close()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		<-served
	})
	return o
}

// ask sends words and returns all that comes back.
func (o *office) ask(t *testing.T, words string) string {
	t.Helper()
	c, err := net.Dial("unix", o.p.Socket())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.WriteString(c, words)
	}()
	b, err := io.ReadAll(c)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) { // half a body is answered so
		t.Errorf("%.60q: %v", words, err)
	}
	c.Close()
	<-sent
	return string(b)
}

// TestRefused: what no host may see gets an answer, and no host sees it.
func TestRefused(t *testing.T) {
	o := newOffice(t, []string{"allowed.test", "[2001:db8::1]:443"}, "", func(p *Proxy) {
		p.dial = func(_ context.Context, _, addr string) (net.Conn, error) {
			t.Errorf("dialled %s", addr)
			return nil, io.EOF
		}
	})
	get := "GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n"
	post := "POST http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n"
	for _, c := range []struct {
		code  int
		words string
	}{
		{400, "\r\n\r\n"},
		{400, "GET\r\n\r\n"},
		{400, "GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n"},
		{400, "GET https://allowed.test/ HTTP/1.1\r\n\r\n"},
		{400, "GET ftp://allowed.test/ HTTP/1.1\r\n\r\n"},
		{400, "GET http:///x HTTP/1.1\r\nHost: allowed.test\r\n\r\n"},
		{400, "GET http://allowed.test/ HTTP/2.0\r\n\r\n"},
		{400, "GET http://allowed.test/ HTTP/1.1 x\r\n\r\n"},
		{400, "GET  http://allowed.test/ HTTP/1.1\r\n\r\n"},
		{400, "GET http://allowed.test/a b HTTP/1.1\r\n\r\n"},
		{400, "GET http://allowed.test/\x00 HTTP/1.1\r\n\r\n"},
		{400, "GET http://allowed.test/é HTTP/1.1\r\n\r\n"},
		{400, "GET http://allowed.test@other.test/ HTTP/1.1\r\n\r\n"},
		{400, "GET http://allowed.test\\@other.test/ HTTP/1.1\r\n\r\n"},
		{400, "GET http://allowed.test#.other.test/ HTTP/1.1\r\n\r\n"},
		{400, "GET http://allowed.test%2eother.test/ HTTP/1.1\r\n\r\n"},
		{403, "GET http://other.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n"},
		{403, "GET http://other.test:443/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n"},
		{403, "GET http://allowed.test:22/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n"},
		{403, "GET http://169.254.169.254/latest/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n"},
		// A host with the end of a line in it is two lines, of which one is no request.
		{400, "CONNECT allowed.test\r\nX: y:443 HTTP/1.1\r\n\r\n"},
		{400, "CONNECT allowed.test\r:443 HTTP/1.1\r\n\r\n"},
		{400, "CONNECT allowed.test\n:443 HTTP/1.1\r\n\r\n"},
		{400, "CONNECT allowed.test%0d%0a:443 HTTP/1.1\r\n\r\n"},
		{400, "CONNECT allowed.test\x00.other.test:443 HTTP/1.1\r\n\r\n"},
		{400, "CONNECT allowed.test\t:443 HTTP/1.1\r\n\r\n"},
		{400, "CONNECT allowed.test HTTP/1.1\r\n\r\n"},
		{400, "CONNECT allowed.test: HTTP/1.1\r\n\r\n"},
		{400, "CONNECT :443 HTTP/1.1\r\n\r\n"},
		{400, "CONNECT allowed.test:0 HTTP/1.1\r\n\r\n"},
		{400, "CONNECT allowed.test:00443 HTTP/1.1\r\n\r\n"},
		{400, "CONNECT allowed.test:+443 HTTP/1.1\r\n\r\n"},
		{400, "CONNECT allowed.test:65979 HTTP/1.1\r\n\r\n"}, // 443 and 65536
		{400, "CONNECT allowed.test:443:443 HTTP/1.1\r\n\r\n"},
		{400, "CONNECT http://allowed.test:443 HTTP/1.1\r\n\r\n"},
		{400, "CONNECT allowed.test:443/ HTTP/1.1\r\n\r\n"},
		{400, "CONNECT .allowed.test:443 HTTP/1.1\r\n\r\n"},
		{400, "CONNECT 2001:db8::1:443 HTTP/1.1\r\n\r\n"},
		{400, "CONNECT [2001:db8::1:443 HTTP/1.1\r\n\r\n"},
		{400, "CONNECT [allowed.test]:443 HTTP/1.1\r\n\r\n"},
		{400, "CONNECT [127.0.0.1]:443 HTTP/1.1\r\n\r\n"},
		{400, "CONNECT [fe80::1%25lo]:443 HTTP/1.1\r\n\r\n"},
		{403, "CONNECT [2001:db8::2]:443 HTTP/1.1\r\n\r\n"},
		{403, "CONNECT [2001:db8::1]:80 HTTP/1.1\r\n\r\n"},
		{403, "CONNECT [::ffff:127.0.0.1]:443 HTTP/1.1\r\n\r\n"},
		{403, "CONNECT localhost:443 HTTP/1.1\r\n\r\n"},
		{400, "CONNECT " + strings.Repeat("a", 256) + ":443 HTTP/1.1\r\n\r\n"},
		{400, get + "Bad Name: x\r\n\r\n"},
		{400, get + "Name : x\r\n\r\n"},
		{400, get + " folded\r\n\r\n"},
		{400, get + "nonsense\r\n\r\n"},
		{400, get + ": x\r\n\r\n"},
		{400, get + "X: a\x00b\r\n\r\n"},
		{400, get + "X: a\rHost: b\r\n\r\n"},
		{400, get + "X: a\nContent-Length: 3\r\n\r\n"},
		{400, get + "Host: other.test\r\n\r\n"},
		// One request in another.
		{400, post + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{400, post + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"},
		{400, post + "Content-Length: 3\r\ncontent-length: 3\r\n\r\nabc"},
		{400, post + "Content-Length: 3, 4\r\n\r\nabcd"},
		{400, post + "Content-Length: +3\r\n\r\nabc"},
		{400, post + "Content-Length: -3\r\n\r\nabc"},
		{400, post + "Content-Length: 0x3\r\n\r\nabc"},
		{400, post + "Content-Length:\r\n\r\nabc"},
		{400, post + "Content-Length: 99999999999999999999\r\n\r\nabc"},
		{400, post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n"},
		{501, post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
		{501, post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"},
		{400, "POST http://allowed.test/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{431, get + "X: " + strings.Repeat("a", 1<<20) + "\r\n\r\n"},
		{431, get + strings.Repeat("X: a\r\n", 1<<15) + "\r\n"},
		{431, "CONNECT " + strings.Repeat("a", 1<<17)},
	} {
		if got := o.ask(t, c.words); !strings.HasPrefix(got, fmt.Sprintf("HTTP/1.1 %d ", c.code)) || !strings.Contains(got, "\r\n\r\ndescartes: ") {
			t.Errorf("%.90q: got %q, want %d", c.words, got, c.code)
		}
	}
}

// TestForward: a host gets one request, whole, its head in one form, and nothing of what follows it.
func TestForward(t *testing.T) {
	const answer = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello"
	o := newOffice(t, []string{"allowed.test", "allowed.test:8080", "[2001:db8::1]", "localhost:11434", "127.0.0.1:8080"}, answer)
	next := "GET http://other.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n"
	for _, c := range []struct{ words, want string }{
		{"GET http://allowed.test/a?b=c HTTP/1.1\r\nHost: other.test\r\nA: b\r\n\r\n" + next,
			"GET /a?b=c HTTP/1.1\r\nHost: allowed.test\r\nA: b\r\nConnection: close\r\n\r\n"},
		{"GET HTTP://allowed.test HTTP/1.0\r\n\r\n", "GET / HTTP/1.0\r\nHost: allowed.test\r\nConnection: close\r\n\r\n"},
		{"GET http://allowed.test?x HTTP/1.1\r\n\r\n", "GET /?x HTTP/1.1\r\nHost: allowed.test\r\nConnection: close\r\n\r\n"},
		{"GET http://allowed.test:8080/ HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: allowed.test:8080\r\nConnection: close\r\n\r\n"},
		{"GET http://[2001:db8::1]/ HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: [2001:db8::1]\r\nConnection: close\r\n\r\n"},
		{"GET http://localhost:11434/ HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: localhost:11434\r\nConnection: close\r\n\r\n"},
		{"GET http://127.0.0.1:8080/ HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nConnection: close\r\n\r\n"},
		// What concerns the connection alone is not passed on; what frames the body cannot be named away.
		{"POST http://allowed.test/ HTTP/1.1\r\nConnection: X-Hop, content-length, keep-alive\r\nX-Hop: 1\r\nProxy-Authorization: Basic x\r\n" +
			"Proxy-Connection: keep-alive\r\nKeep-Alive: 5\r\nUpgrade: h2c\r\nTE: trailers\r\nContent-Length: 3\r\nB: c\r\n\r\nEND" + next,
			"POST / HTTP/1.1\r\nHost: allowed.test\r\nB: c\r\nContent-Length: 3\r\nConnection: close\r\n\r\nEND"},
		{"POST http://allowed.test/ HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n5 ;a=\"b\"\r\nfirst\r\n00003\r\nEND\r\n0\r\nTrailer: x\r\nContent-Length: 9\r\n\r\n" + next,
			"POST / HTTP/1.1\r\nHost: allowed.test\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nfirst\r\n3\r\nEND\r\n0\r\n\r\n"},
	} {
		got := o.ask(t, c.words)
		if got != answer {
			t.Errorf("%q: got %q", c.words, got)
		}
		if seen := <-o.got; !strings.HasPrefix(c.want, seen) || !strings.Contains(seen, "END") && seen != c.want {
			t.Errorf("%q: the host got %q, want %q", c.words, seen, c.want)
		}
	}
	for _, body := range []string{"x\r\n", "-1\r\n", "+3\r\nabc\r\n", "3\nabc\r\n", "3\r\nabcd\r\n", "ffffffffffffffffff\r\n", "\r\n", strings.Repeat("0", 5000) + "\r\n",
		"0\r\n" + strings.Repeat("A: b\r\n", 200)} {
		o.ask(t, "POST http://allowed.test/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"+body)
		if seen := <-o.got; strings.Contains(seen, "0\r\n\r\n") {
			t.Errorf("a body %.30q is told to be whole: %q", body, seen)
		}
	}
}

// TestTunnel: what stands behind the head of a tunnel's request is the first of what goes through it.
func TestTunnel(t *testing.T) {
	o := newOffice(t, []string{"allowed.test", "[2001:db8::1]"}, "bytes")
	for _, target := range []string{"allowed.test:443", "ALLOWED.test.:443", "[2001:db8::1]:443", "[2001:DB8::1]:443"} {
		got := o.ask(t, "CONNECT "+target+" HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nfirst END")
		if got != "HTTP/1.1 200 Connection established\r\n\r\nbytes" {
			t.Errorf("%s: got %q", target, got)
			continue
		}
		if seen := <-o.got; seen != "first END" {
			t.Errorf("%s: the host got %q", target, seen)
		}
	}
}

// TestPatience: a client that takes its time over a head is sent away, however it keeps at it, and only so many are heard at once.
func TestPatience(t *testing.T) {
	o := newOffice(t, nil, "", func(p *Proxy) { p.patience = 200 * time.Millisecond })
	c, err := net.Dial("unix", o.p.Socket())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	start := time.Now()
	ended := make(chan string)
	go func() {
		_ = c.SetReadDeadline(start.Add(10 * time.Second))
		b, _ := io.ReadAll(c)
		ended <- string(b)
	}()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for done := false; !done; {
		select {
		case <-tick.C:
			_, _ = io.WriteString(c, "X")
		case got := <-ended:
			done = true
			if took := time.Since(start); took > 5*time.Second || !strings.HasPrefix(got, "HTTP/1.1 400 ") {
				t.Errorf("got %q after %v", got, took)
			}
		}
	}
	for range proxyConns {
		o.p.slots <- struct{}{}
	}
	if got := o.ask(t, ""); got != "" {
		t.Errorf("one too many: got %q", got)
	}
	for range proxyConns {
		<-o.p.slots
	}
}

// FuzzRequest: no head makes a panic, and one that is taken is read the same again in the form that hosts get.
func FuzzRequest(f *testing.F) {
	f.Add("GET http://a.org/x HTTP/1.1\r\nA: b\r\nContent-Length: 3\r\n\r\n")
	f.Add("CONNECT [::1]:443 HTTP/1.0\r\n\r\n")
	f.Add("POST http://a.org:8080?x HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: a\r\n\r\n")
	f.Fuzz(func(t *testing.T, s string) {
		r, err := readRequest(bufio.NewReader(strings.NewReader(s)))
		if err != nil || r.tunnel {
			return
		}
		head := r.head()
		again, err := readRequest(bufio.NewReader(strings.NewReader(strings.Replace(head, " /", " http://"+net.JoinHostPort(r.host, r.port)+"/", 1))))
		if err != nil {
			t.Fatalf("%q became %q: %v", s, head, err)
		}
		if got := again.head(); got != head {
			t.Fatalf("%q, read again %q", head, got)
		}
	})
}
