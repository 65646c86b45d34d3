package sandbox

import (
	"net/url"
	"strings"
	"testing"
)

// TestOfficeProxy: what another proxy answers is taken as far as it is one, and does not get into ours.
func TestOfficeProxy(t *testing.T) {
	for answer, want := range map[string]string{
		"HTTP/1.1 200 OK\r\nX: y\r\n\r\nbytes":                             "HTTP/1.1 200 Connection established\r\n\r\nbytes",
		"HTTP/1.0 204\r\n\r\nbytes":                                        "HTTP/1.1 200 Connection established\r\n\r\nbytes",
		"HTTP/1.1 407 Who are you?\r\n\r\n":                                "allowed.test:443 be reached: \"407 Who are you?\"\n",
		"HTTP/1.1 407 " + strings.Repeat("a", 5000) + "\r\n\r\n":           strings.Repeat("a", 196) + "\"\n",
		"HTTP/1.1 2000 OK\r\n\r\n":                                         "gave no valid answer\n",
		"HTTP/1.1 2\r\n\r\n":                                               "gave no valid answer\n",
		"SSH-2.0-OpenSSH\r\n\r\n":                                          "gave no valid answer\n",
		"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", 1<<17) + "\r\n\r\n": "gave no valid answer\n",
		"HTTP/1.1 403 a\x1b[2Jb\r\n\r\n":                                   "allowed.test:443 be reached: \"403 a\\x1b[2Jb\"\n",
		"":                                                                 "gave no valid answer\n",
	} {
		t.Run("", func(t *testing.T) {
			o := newOffice(t, []string{"allowed.test"}, answer, func(p *Proxy) {
				p.upstream = func(*url.URL) (*url.URL, error) { return url.Parse("http://u:p@office.test:3128") }
			})
			if got := o.ask(t, "CONNECT allowed.test:443 HTTP/1.1\r\n\r\n"); !strings.HasSuffix(got, want) {
				t.Errorf("%.40q: got %q, want %q", answer, got, want)
			}
			if seen := <-o.got; seen != "CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\nProxy-Authorization: Basic dTpw\r\n\r\n" {
				t.Errorf("the other proxy got %q", seen)
			}
		})
	}
}

// TestDirect: what the user lists of this machine goes through the proxy, the rest of the loopback is the sandbox's
// own.
func TestDirect(t *testing.T) {
	for hosts, want := range map[string]string{
		"allowed.test *.localhost":             "localhost,127.0.0.1,::1",
		"127.0.0.1:8080":                       "localhost,::1",
		"LOCALHOST [::1]:8080":                 "127.0.0.1",
		"::1 127.0.0.1 localhost:11434 a.test": "",
	} {
		if got := direct(strings.Fields(hosts)); got != want {
			t.Errorf("%s: got %q, want %q", hosts, got, want)
		}
	}
}
