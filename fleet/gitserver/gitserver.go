// Package gitserver serves git repositories over HTTP to the machines of a fleet: the refs below refs/descartes, and nothing else of them.
package gitserver

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"descartes/internal/lazyregexp"
	"descartes/internal/proc"
)

// Server is the handler. A repository is made when somebody first pushes to it.
type Server struct {
	dir   string
	token string
	git   string
	env   []string
	log   io.Writer
	slots chan struct{}
	pause time.Duration // patience, but in tests

	mu   sync.Mutex
	made map[string]bool // repositories that are known to be whole
}

// atOnce bounds the git programs that run at a time; further requests wait.
const atOnce = 32

// Each piece of a request has to arrive within the patience: half a request would hold one of the places for good.
const (
	patience = 10 * time.Second
	piece    = 16 << 10
)

// New serves the repositories in dir to who has the token.
func New(dir, token string, env []string, log io.Writer) (*Server, error) {
	git, err := proc.Look("git", dir, env)
	if err != nil {
		return nil, err
	}
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return strings.HasPrefix(kv, "GIT_") })
	return &Server{dir: dir, token: token, git: git, env: append(env, "LC_ALL=C"), log: log, slots: make(chan struct{}, atOnce), pause: patience, made: map[string]bool{}}, nil
}

// asked is every path that there is: at most one folder, a repository, and one of the three requests of git's protocol.
var asked = lazyregexp.New(`^/((?:[A-Za-z0-9_][A-Za-z0-9_-]{0,99}/)?[A-Za-z0-9_][A-Za-z0-9._-]{0,99}\.git)/(info/refs|git-upload-pack|git-receive-pack)$`)

const receivePack = "git-receive-pack"

// ServeHTTP answers a git client.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m := asked.FindStringSubmatch(r.URL.Path)
	if r.ContentLength != 0 { // for what is refused, unread
		w.Header().Set("Connection", "close")
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.pause))
	}
	switch {
	case !s.knows(r):
		w.Header().Set("WWW-Authenticate", `Basic realm="descartes"`)
		http.Error(w, "the token is missing or wrong", http.StatusUnauthorized)
	case m == nil:
		http.NotFound(w, r)
	case m[2] == "info/refs" && r.Method == http.MethodGet:
		s.advertise(w, r, m[1], r.URL.Query().Get("service"))
	case m[2] != "info/refs" && r.Method == http.MethodPost && r.Header.Get("Content-Type") == "application/x-"+m[2]+"-request":
		s.exchange(w, r, m[1], m[2])
	default:
		http.Error(w, "only git can use this", http.StatusBadRequest)
	}
}

// knows reports whether a request has the token, as the password of any user or as a bearer.
func (s *Server) knows(r *http.Request) bool {
	_, given, ok := r.BasicAuth()
	if !ok {
		given = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	}
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(s.token))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// advertise lists the refs of a repository.
func (s *Server) advertise(w http.ResponseWriter, r *http.Request, repo, service string) {
	if service != "git-upload-pack" && service != receivePack {
		http.Error(w, "only git's smart protocol is served", http.StatusForbidden)
		return
	}
	there, err := s.open(r.Context(), repo, service == receivePack)
	if err != nil {
		s.fail(w, repo, err)
		return
	}
	if !there {
		http.Error(w, "there is no such repository; the first push makes it", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/x-"+service+"-advertisement")
	first := "# service=" + service + "\n"
	first = fmt.Sprintf("%04x%s0000", len(first)+4, first)
	if strings.Contains(r.Header.Get("Git-Protocol"), "version=2") && service != receivePack {
		first = ""
	}
	s.answer(w, r, repo, service, first, http.NoBody, "--advertise-refs")
}

// exchange has git read a request, and write the answer.
func (s *Server) exchange(w http.ResponseWriter, r *http.Request, repo, service string) {
	there, err := s.open(r.Context(), repo, false)
	if err != nil {
		s.fail(w, repo, err)
		return
	}
	if !there {
		http.NotFound(w, r)
		return
	}
	body := io.Reader(&paced{r: r.Body, c: http.NewResponseController(w), pause: s.pause})
	if r.Header.Get("Content-Encoding") == "gzip" {
		if body, err = gzip.NewReader(body); err != nil {
			http.Error(w, "the request is not compressed as it says", http.StatusBadRequest)
			return
		}
	}
	w.Header().Set("Content-Type", "application/x-"+service+"-result")
	s.answer(w, r, repo, service, "", body)
}

// open finds a repository; a push makes it.
func (s *Server) open(ctx context.Context, repo string, push bool) (there bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir := filepath.Join(s.dir, filepath.FromSlash(repo))
	if s.made[repo] {
		return true, nil
	}
	if _, err := os.Stat(filepath.Join(dir, "HEAD")); err != nil && !push {
		return false, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false, err
	}
	// of one that is there it changes nothing, and one that a kill left half made it completes
	reply, err := proc.Output(ctx, proc.Call{Argv: []string{s.git, "init", "-q", "--bare", "--template=", dir}, Dir: s.dir, Env: s.env})
	if err == nil && reply.Code != 0 {
		err = fmt.Errorf("git init: %s", strings.TrimSpace(string(reply.Stderr)))
	}
	s.made[repo] = err == nil
	return err == nil, err
}

// settings are those of every git program here. What is not below refs/descartes can neither be seen nor be pushed to; what no ref names is
// removed after a day.
func settings() []string {
	return []string{"-c", "transfer.hideRefs=refs", "-c", "transfer.hideRefs=!refs/descartes", "-c", "core.hooksPath=" + os.DevNull, "-c", "receive.maxInputSize=16g",
		"-c", "receive.autogc=true", "-c", "gc.autoDetach=false", "-c", "maintenance.autoDetach=false", "-c", "gc.cruftPacks=true", "-c", "gc.pruneExpire=1.day.ago"}
}

// paced reads a request that has to arrive at some pace. The time in which nobody reads does not count.
type paced struct {
	r     io.Reader
	c     *http.ResponseController
	pause time.Duration
	need  int           // bytes of this piece
	left  time.Duration // for it
}

func (p *paced) Read(b []byte) (int, error) {
	if p.need <= 0 {
		p.need, p.left = piece, p.pause
	}
	began := time.Now()
	_ = p.c.SetReadDeadline(began.Add(p.left))
	n, err := p.r.Read(b)
	p.need -= n
	p.left -= time.Since(began)
	return n, err
}

// answer runs a git program on a request, and sends what it prints.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, repo, service, first string, body io.Reader, options ...string) {
	c := http.NewResponseController(w)
	w.Header().Del("Connection")
	_ = c.SetReadDeadline(time.Time{}) // waiting for a place is no fault of the client's
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-r.Context().Done():
		return
	}
	w.Header().Set("Cache-Control", "no-cache")
	env := s.env
	if v := r.Header.Get("Git-Protocol"); protocol.MatchString(v) {
		env = append(slices.Clip(env), "GIT_PROTOCOL="+v)
	}
	argv := append(append([]string{s.git}, settings()...), strings.TrimPrefix(service, "git-"), "--stateless-rpc")
	argv = append(append(argv, options...), filepath.Join(s.dir, filepath.FromSlash(repo)))
	var said strings.Builder
	p, err := proc.StartCompanion(argv, env, &limited{w: &said, left: 1000})
	if err != nil {
		s.fail(w, repo, err)
		return
	}
	_ = c.EnableFullDuplex() // over HTTP/2 it is so anyway
	var half error
	read, killed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(p.In, body) // half a request is none for git
		_ = p.In.Close()
		_ = c.SetReadDeadline(time.Now().Add(s.pause))
		if _, half = io.Copy(io.Discard, r.Body); half == nil { // what git did not want to read
			_ = c.SetReadDeadline(time.Time{})
		}
	}()
	stop := context.AfterFunc(r.Context(), func() {
		defer close(killed)
		_, _ = p.End(0)
	})
	if _, err = io.WriteString(w, first); err == nil {
		_, err = io.Copy(flushing{w, c}, p.Out)
	}
	if err != nil { // the client has gone
		_, _ = io.Copy(io.Discard, p.Out)
	}
	<-read
	if stop() {
		if code, err := p.Wait(); err != nil || code != 0 {
			fmt.Fprintf(s.log, "%s: %s for %s: exit status %d: %s\n", repo, service, r.RemoteAddr, code, strings.TrimSpace(said.String()))
		}
	} else {
		<-killed
	}
	if half != nil {
		panic(http.ErrAbortHandler) // nothing more can come by this connection
	}
}

// protocol is what a client may ask for as the version of git's protocol.
var protocol = lazyregexp.New(`^[a-z0-9=:]{1,100}$`)

func (s *Server) fail(w http.ResponseWriter, repo string, err error) {
	fmt.Fprintf(s.log, "%s: %v\n", repo, err)
	http.Error(w, "the server could not do it; its log says why", http.StatusInternalServerError)
}

// flushing sends at once what git prints, so that a client sees that something goes on.
type flushing struct {
	w io.Writer
	c *http.ResponseController
}

func (f flushing) Write(b []byte) (int, error) {
	n, err := f.w.Write(b)
	return n, errors.Join(err, f.c.Flush())
}

// limited keeps the beginning of a text.
type limited struct {
	w    io.Writer
	left int
}

func (l *limited) Write(b []byte) (int, error) {
	n := min(len(b), l.left)
	l.left -= n
	_, _ = l.w.Write(b[:n])
	return len(b), nil
}
