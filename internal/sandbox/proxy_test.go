package sandbox

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
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
	p, err := StartProxy(hosts)
	if err != nil {
		t.Fatal(err)
	}
	o := &office{p: p, got: make(chan string, 10)}
	if o.host, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	p.upstream = func(*url.URL) (*url.URL, error) { return nil, nil }
	p.lookup = func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("203.0.114.7")}, nil
	}
	p.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, o.host.Addr().String())
	}
	for _, change := range changes {
		change(p)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			c, err := o.host.Accept()
			if err != nil {
				return
			}
			_ = c.SetReadDeadline(time.Now().Add(time.Minute))
			var all []byte
			for b := make([]byte, 4096); ; {
				n, err := c.Read(b)
				all = append(all, b[:n]...)
				// An answer before the end of a body ends the body.
				text := string(all)
				_, rest, whole := strings.Cut(text, "END")
				if strings.Contains(text, "Transfer-Encoding") {
					whole = strings.HasSuffix(rest, "\r\n\r\n")
				}
				if err != nil || whole || !strings.Contains(text, "POST") && strings.Contains(text, "\r\n\r\n") {
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
	_ = c.SetDeadline(time.Now().Add(time.Minute))
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
	words := []string{"\r\n\r\n", "CONNECT " + strings.Repeat("a", 1<<17)}
	for _, target := range []string{"/", "https://allowed.test/", "ftp://allowed.test/", "http:///x",
		"http://allowed.test@other.test/", `http://allowed.test\@other.test/`,
		"http://allowed.test#.other.test/", "http://allowed.test%2eother.test/", "http://allowed.test/\x00",
		"http://other.test/", "http://other.test:443/",
		"http://allowed.test:22/", "http://169.254.169.254/latest/"} {
		words = append(words, "GET "+target+" HTTP/1.1\r\nHost: allowed.test\r\n\r\n")
	}
	for _, target := range []string{
		// a host with the end of a line in it
		"allowed.test\r\nX: y:443", "allowed.test\r:443", "allowed.test\n:443", "allowed.test%0d%0a:443",
		"allowed.test\x00.other.test:443", "allowed.test\t:443",
		// 65979 is 443 and 65536
		"allowed.test", "allowed.test:", ":443", "allowed.test:0", "allowed.test:00443", "allowed.test:+443",
		"allowed.test:65979", "allowed.test:443:443",
		"http://allowed.test:443", "allowed.test:443/", ".allowed.test:443", strings.Repeat("a", 256) + ":443",
		"localhost:443",
		"2001:db8::1:443", "[2001:db8::1:443", "[allowed.test]:443", "[127.0.0.1]:443", "[fe80::1%25lo]:443",
		"[2001:db8::2]:443", "[2001:db8::1]:80", "[::ffff:127.0.0.1]:443"} {
		words = append(words, "CONNECT "+target+" HTTP/1.1\r\n\r\n")
	}
	for _, head := range []string{"Name : x", " folded", "nonsense", "X: a\x00b", "X: a\rHost: b", "Host: other.test",
		"X: " + strings.Repeat("a", 1<<20)} {
		words = append(words, get+head+"\r\n\r\n")
	}
	for _, head := range []string{"Content-Length: 3\r\nContent-Length: 4", "Content-Length: 3, 4",
		"Content-Length: +3", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
		"Transfer-Encoding: gzip, chunked", "Transfer-Encoding: xchunked"} { // one request in another
		words = append(words, post+head+"\r\n\r\n0\r\n\r\n")
	}
	for _, w := range words {
		if got := o.ask(t, w); !strings.HasPrefix(got, "HTTP/1.1 4") && !strings.HasPrefix(got, "HTTP/1.1 501 ") {
			t.Errorf("%.90q: got %q", w, got)
		}
	}
}

// TestUnreachable: a host of the list that cannot be reached is no refusal of ours.
func TestUnreachable(t *testing.T) {
	o := newOffice(t, []string{"127.0.0.2:9"}, "", func(p *Proxy) {
		p.dial = func(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }
	})
	for _, words := range []string{"GET http://127.0.0.2:9/ HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT 127.0.0.2:9 HTTP/1.1\r\n\r\n"} {
		if got := o.ask(t, words); !strings.HasPrefix(got, "HTTP/1.1 502 ") || !strings.Contains(got, "connection refused") {
			t.Errorf("%.30q: got %q", words, got)
		}
	}
}

// TestForward: a host gets one request, whole, its head in one form, and nothing of what follows it.
func TestForward(t *testing.T) {
	const answer = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello"
	o := newOffice(t, []string{"allowed.test", "allowed.test:8080", "[2001:db8::1]", "localhost:11434",
		"127.0.0.1:8080"}, answer)
	next := "GET http://other.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n"
	for _, c := range []struct{ words, want string }{
		{"GET http://allowed.test/a?b=c HTTP/1.1\r\nHost: other.test\r\nA: b\r\n\r\n" + next,
			"GET allowed.test/a?b=c A=b"},
		{"GET HTTP://allowed.test HTTP/1.0\r\n\r\n", "GET allowed.test/"},
		{"GET http://allowed.test?x HTTP/1.1\r\nHost: x\r\n\r\n", "GET allowed.test/?x"},
		{"GET http://allowed.test:8080/ HTTP/1.1\r\nHost: x\r\n\r\n", "GET allowed.test:8080/"},
		{"GET http://[2001:db8::1]/ HTTP/1.1\r\nHost: x\r\n\r\n", "GET [2001:db8::1]/"},
		{"GET http://localhost:11434/ HTTP/1.1\r\nHost: x\r\n\r\n", "GET localhost:11434/"},
		{"GET http://127.0.0.1:8080/ HTTP/1.1\r\nHost: x\r\n\r\n", "GET 127.0.0.1:8080/"},
		// What concerns the connection alone is not passed on; what frames the body cannot be named away.
		{"POST http://allowed.test/ HTTP/1.1\r\nHost: x\r\nConnection: X-Hop, content-length, keep-alive\r\nX-Hop: 1\r\nProxy-Authorization: Basic x\r\n" +
			"Proxy-Connection: keep-alive\r\nKeep-Alive: 5\r\nContent-Length: 3\r\nB: c\r\n\r\nEND" + next,
			"POST allowed.test/ B=c END"},
		{"POST http://allowed.test/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n5;a=\"b\"\r\nfirst\r\n00003\r\nEND\r\n0\r\nTrailer: x\r\nContent-Length: 9\r\n\r\n" + next,
			"POST allowed.test/ firstEND"},
		// A length that is told twice is told once.
		{"POST http://allowed.test/ HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nEND\r\n0\r\n\r\n" + next, "POST allowed.test/ END"},
	} {
		if got := o.ask(t, c.words); !strings.HasPrefix(got, "HTTP/1.") || !strings.Contains(got, " 200 OK\r\n") ||
			!strings.Contains(got, "hello") || strings.Count(got, "HTTP/1") != 1 {
			t.Errorf("%q: got %q", c.words, got)
		}
		seen := bufio.NewReader(strings.NewReader(<-o.got))
		r, err := http.ReadRequest(seen)
		if err != nil {
			t.Errorf("%q: %v", c.words, err)
			continue
		}
		body, err := io.ReadAll(r.Body)
		got := r.Method + " " + r.Host + r.RequestURI
		for _, name := range slices.Sorted(maps.Keys(r.Header)) {
			if name != "Content-Length" && name != "Connection" {
				got += " " + name + "=" + r.Header.Get(name)
			}
		}
		if len(body) > 0 {
			got += " " + string(body)
		}
		if rest, _ := io.ReadAll(seen); err != nil || got != c.want || len(rest) > 0 {
			t.Errorf("%q: the host got %q, %v, then %q, want %q", c.words, got, err, rest, c.want)
		}
	}
	for _, body := range []string{"x\r\n", "-1\r\n", "+3\r\nabc\r\n", "3\r\nabcd\r\n", "ffffffffffffffffff\r\n",
		"\r\n", strings.Repeat("0", 5000) + "\r\n"} {
		o.ask(t, "POST http://allowed.test/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"+body)
		if seen := <-o.got; strings.Contains(seen, "0\r\n\r\n") {
			t.Errorf("a body %.30q is told to be whole: %q", body, seen)
		}
	}
}

// TestTunnel: what stands behind the head of a tunnel's request is the first of what goes through it.
func TestTunnel(t *testing.T) {
	o := newOffice(t, []string{"allowed.test", "[2001:db8::1]"}, "bytes")
	for _, target := range []string{"allowed.test:443", "ALLOWED.test.:443", "[2001:db8::1]:443",
		"[2001:DB8::1]:443"} {
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

// TestPatience: a client that takes its time over a head is sent away, however it keeps at it, and only so many are
// served at once.
func TestPatience(t *testing.T) {
	was := proxyTimeout
	proxyTimeout = 200 * time.Millisecond
	o := newOffice(t, nil, "")
	proxyTimeout = was
	c, err := net.Dial("unix", o.p.Socket())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	start := time.Now()
	ended := make(chan string)
	go func() {
		_ = c.SetReadDeadline(start.Add(time.Minute))
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
			if took := time.Since(start); !strings.HasPrefix(got, "HTTP/1.1 400 ") {
				t.Errorf("got %q after %v", got, took)
			}
		}
	}
	for range proxyConns {
		o.p.slots <- struct{}{}
	}
	if got := o.ask(t, "CONNECT allowed.test:443 HTTP/1.1\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 503 ") {
		t.Errorf("one too many: got %q", got)
	}
}

// The proxy listens where the folder of temporary files has a longer name than a socket can.
func TestProxyLongTemp(t *testing.T) {
	tmp := filepath.Join(t.TempDir(), strings.Repeat("x", 120))
	if err := os.Mkdir(tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", tmp)
	p, err := StartProxy(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
