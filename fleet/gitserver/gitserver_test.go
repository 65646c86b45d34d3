package gitserver

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const secret = "0123456789abcdef"

// start serves a folder. Its URL has the token in it.
func start(t *testing.T, change ...func(*Server)) (remote, dir string) {
	t.Helper()
	dir = t.TempDir()
	s, err := New(dir, secret, os.Environ(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range change {
		c(s)
	}
	l := httptest.NewServer(s)
	t.Cleanup(l.Close)
	return strings.Replace(l.URL, "http://", "http://x:"+secret+"@", 1), dir
}

func bare(remote string) string { return strings.Replace(remote, "x:"+secret+"@", "", 1) }

func git(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	c := exec.Command("git", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "GIT_AUTHOR_NAME=x", "GIT_AUTHOR_EMAIL=x@x", "GIT_COMMITTER_NAME=x", "GIT_COMMITTER_EMAIL=x@x")
	b, err := c.CombinedOutput()
	return string(b), err
}

func must(t *testing.T, dir string, args ...string) string {
	t.Helper()
	said, err := git(t, dir, args...)
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, said)
	}
	return said
}

func project(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must(t, dir, "init", "-q", "-b", "main")
	big := make([]byte, 3<<20) // more than git sends in one piece
	_, _ = rand.Read(big)
	if err := os.WriteFile(filepath.Join(dir, "big"), big, 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, dir, "add", "-A")
	must(t, dir, "commit", "-qm", "start")
	return dir
}

// TestGit: git pushes and fetches what is below refs/descartes, deletes it, and can neither push nor see anything else.
func TestGit(t *testing.T) {
	t.Parallel()
	url, dir := start(t)
	at := project(t)
	remote := url + "/team/tally.git"
	if said, err := git(t, at, "ls-remote", remote); err == nil {
		t.Errorf("a repository that nobody made: %s", said)
	}
	must(t, at, "push", "-q", remote, "HEAD:refs/descartes/loop-1/fleet/orders/1/1")
	for _, ref := range []string{"refs/heads/main", "refs/tags/x", "refs/descartesx/1"} {
		if said, err := git(t, at, "push", remote, "HEAD:"+ref); err == nil || !strings.Contains(said, "hidden ref") {
			t.Errorf("push to %s: %v, %s", ref, err, said)
		}
	}
	must(t, filepath.Join(dir, "team/tally.git"), "update-ref", "refs/heads/own", must(t, at, "rev-parse", "HEAD")[:40])
	for _, version := range []string{"0", "2"} {
		if said := must(t, at, "-c", "protocol.version="+version, "ls-remote", remote); strings.Count(said, "\n") != 1 || !strings.Contains(said, "refs/descartes/loop-1/") {
			t.Errorf("version %s sees %s", version, said)
		}
		other := t.TempDir()
		must(t, other, "init", "-q")
		must(t, other, "-c", "protocol.version="+version, "fetch", "-q", remote, "+refs/descartes/*:refs/descartes/*")
		must(t, other, "fsck", "--strict")
		must(t, other, "cat-file", "-e", "refs/descartes/loop-1/fleet/orders/1/1:big")
	}
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			if said, err := git(t, at, "push", "-q", remote, fmt.Sprintf("HEAD:refs/descartes/loop-1/fleet/results/1/%d", i)); err != nil {
				t.Errorf("push %d: %v, %s", i, err, said)
			}
		})
	}
	wg.Wait()
	must(t, at, "push", "-q", remote, ":refs/descartes/loop-1/fleet/orders/1/1")
	if said := must(t, at, "ls-remote", remote); strings.Count(said, "\n") != 12 {
		t.Errorf("left: %s", said)
	}
}

// TestToken: without the token nothing is served, whatever is asked for; with it by either way of saying it.
func TestToken(t *testing.T) {
	t.Parallel()
	url, dir := start(t)
	url = bare(url)
	at := project(t)
	basic := "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("x-access-token:"+secret))
	for _, header := range []string{"A: b", "Authorization: Bearer " + secret[1:], "Authorization: Basic eDp5", "Authorization: Bearer"} {
		if said, err := git(t, at, "-c", "http.extraHeader="+header, "push", url+"/x.git", "HEAD:refs/descartes/x/1"); err == nil {
			t.Errorf("%s: %s", header, said)
		}
	}
	if names, _ := os.ReadDir(dir); len(names) > 0 {
		t.Errorf("without the token %v was made", names)
	}
	for i, header := range []string{"Authorization: Bearer " + secret, basic} {
		must(t, at, "-c", "http.extraHeader="+header, "push", "-q", url+"/x.git", fmt.Sprintf("HEAD:refs/descartes/x/%d", i))
	}
}

// TestHalfRequests: who sends half a request, with the token or without, loses the connection, and more of them than there are places keep
// nobody from being served.
func TestHalfRequests(t *testing.T) {
	t.Parallel()
	url, _ := start(t, func(s *Server) { s.pause = 500 * time.Millisecond })
	at := project(t)
	must(t, at, "push", "-q", url+"/x.git", "HEAD:refs/descartes/x/1")
	host := strings.TrimPrefix(bare(url), "http://")
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("x:"+secret))
	var open []net.Conn
	for i := range 2 * (atOnce + 8) {
		c, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		open = append(open, c)
		login, sent := basic, "0011want" // the beginning of what git asks for
		if i%2 == 1 {
			login = "Basic eDp5"
		}
		fmt.Fprintf(c, "POST /x.git/git-upload-pack HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nContent-Type: application/x-git-upload-pack-request\r\nContent-Length: 100000\r\n\r\n%s", login, sent)
	}
	must(t, at, "fetch", "-q", url+"/x.git", "+refs/descartes/*:refs/descartes/*")
	for _, c := range open {
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("the connection of half a request stays open")
		}
	}
}

// TestNothingElse: no path leads elsewhere, no file of a repository is served, and no page in a browser gets through.
func TestNothingElse(t *testing.T) {
	t.Parallel()
	url, dir := start(t)
	at := project(t)
	must(t, at, "push", "-q", url+"/x.git", "HEAD:refs/descartes/x/1")
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("s"), 0o600); err != nil {
		t.Fatal(err)
	}
	ask := func(method, path string, header ...string) (int, string) {
		r, err := http.NewRequest(method, bare(url)+path, strings.NewReader("0000"))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			if header[i] == "Host" {
				r.Host = header[i+1]
			}
			r.Header.Set(header[i], header[i+1])
		}
		if header == nil || header[0] != "Authorization" {
			r.SetBasicAuth("x", secret)
		}
		a, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		b, _ := io.ReadAll(a.Body)
		return a.StatusCode, string(b)
	}
	const push = "/x.git/info/refs?service=git-receive-pack"
	if code, said := ask("GET", push); code != http.StatusOK || !strings.Contains(said, "refs/descartes/x/1") {
		t.Fatalf("%d %s", code, said)
	}
	for _, c := range []struct {
		method, path string
		header       []string
	}{
		{"GET", "/", nil}, {"GET", "/secret", nil}, {"GET", "/x.git/HEAD", nil}, {"GET", "/x.git/config", nil}, {"GET", "/x.git/objects/info/packs", nil},
		{"GET", "/x.git/info/refs", nil}, {"GET", "/x.git/info/refs?service=git-upload-archive", nil}, {"GET", "/x.git/info/refs?service=--help", nil},
		{"GET", "/../x.git/info/refs?service=git-receive-pack", nil}, {"GET", "/..%2fx.git/info/refs?service=git-receive-pack", nil},
		{"GET", "/a/b/x.git/info/refs?service=git-receive-pack", nil}, {"GET", "/x.git/y.git/info/refs?service=git-receive-pack", nil},
		{"GET", "/.x.git/info/refs?service=git-receive-pack", nil}, {"GET", "/-x.git/info/refs?service=git-receive-pack", nil}, {"GET", "/x/info/refs?service=git-receive-pack", nil},
		{"POST", push, nil}, {"GET", "/x.git/git-upload-pack", nil}, {"POST", "/x.git/git-receive-pack", []string{"Content-Type", "text/plain"}},
		{"POST", "/y.git/git-upload-pack", []string{"Content-Type", "application/x-git-upload-pack-request"}},
		{"GET", push, []string{"Authorization", ""}}, {"GET", push, []string{"Authorization", "", "Origin", "http://evil.example"}},
		{"POST", "/x.git/git-upload-pack", []string{"Content-Type", "application/x-git-upload-pack-request", "Content-Encoding", "gzip"}},
	} {
		if code, said := ask(c.method, c.path, c.header...); code < 400 || strings.Contains(said, "refs/") {
			t.Errorf("%s %s %v: %d %s", c.method, c.path, c.header, code, said)
		}
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 2 {
		t.Errorf("%v, %v", names, err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "x.git", "config"))
	if err != nil || bytes.Contains(b, []byte("extraHeader")) {
		t.Errorf("%s, %v", b, err)
	}
}
