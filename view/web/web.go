// Package web owns the page that shows the loops of a project in a browser: what runs, what is blocked and why, where
// the time went. It reads the journals and the task lists, as every other view does, and never a run's own memory; so
// it works for a loop in another terminal, in the background, or over. What a button does is a command that a person
// could have typed.
package web

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"descartes/agent/render"
	"descartes/loop/store"
)

//go:embed assets
var assets embed.FS

// Options say what is served, and how it is reached.
type Options struct {
	Root string  // of the project
	Host string  // that the page is reached by; the browser's Host header has to name it, or this machine
	Open bool    // others than this machine reach it, by any of its addresses
	Repo Patcher // nil where there is no repository: no diffs then

	// Read makes items of the log of an attempt that a backend ran, without what is secret.
	Read func(s *store.State, backend string, show func(render.Item)) (io.WriteCloser, error)
	// Run runs this program with arguments in the project's folder, and returns what it printed. An error says why it
	// refused.
	Run func(ctx context.Context, stdin string, args ...string) (string, error)
}

// Server is the page. It is safe for concurrent use.
type Server struct {
	opt     Options
	home    store.Home
	key     string
	pages   *template.Template
	streams atomic.Int32 // that are open
}

// New makes a server with a key of its own.
func New(opt Options) (*Server, error) {
	var secret [24]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return nil, fmt.Errorf("draw a key: %w", err)
	}
	s := &Server{opt: opt, home: store.NewHome(opt.Root), key: base64.RawURLEncoding.EncodeToString(secret[:])}
	var err error
	s.pages, err = template.New("").Funcs(funcs()).ParseFS(assets, "assets/*.html")
	return s, err
}

// Path is where a browser is sent first. The key stands where no browser sends it to any server; the page's script
// takes it from there.
func (s *Server) Path() string { return "/#key=" + s.key }

// Handler serves the page.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	static, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err) // the folder is embedded
	}
	mux.HandleFunc("GET /{$}", s.showLoops)
	mux.HandleFunc("GET /loops/{id}", s.showLoop("loop.html"))
	mux.HandleFunc("GET /loops/{id}/parts", s.showLoop("parts"))
	mux.HandleFunc("GET /loops/{id}/live", s.streamLoop)
	mux.HandleFunc("GET /loops/{id}/tasks/{task}", s.showTask("task.html"))
	mux.HandleFunc("GET /loops/{id}/tasks/{task}/parts", s.showTask("taskhead"))
	mux.HandleFunc("GET /loops/{id}/tasks/{task}/{attempt}/diff", s.showDiff)
	mux.HandleFunc("GET /loops/{id}/tasks/{task}/{attempt}/log", s.streamLog)
	mux.HandleFunc("POST /loops/{id}/{action}", s.act)
	all := http.NewServeMux()
	all.Handle("GET /assets/", http.StripPrefix("/assets/", http.FileServerFS(static))) // the same for everybody
	all.Handle("/", s.keyed(mux))
	return s.guard(all)
}

// guard has browsers keep pages of other origins away, and refuses names that are not ours.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy",
			"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !s.knownHost(r.Host) {
			http.Error(w, "this page is not served under that name", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// keyHeader has the key. It is no cookie, because a browser sends those of a host to each of its ports: whoever serves
// a page on another one would get it.
const keyHeader = "Descartes-Key"

// keyed answers who has the key. A browser that opens an address cannot have sent it: it gets the shell, whose script
// asks again.
func (s *Server) keyed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead
		switch given := r.Header.Values(keyHeader); {
		case len(given) == 0 && reads:
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.WriteHeader(http.StatusForbidden)
			_ = s.pages.ExecuteTemplate(w, "shell.html", nil) // a reader that went away
			return
		case len(given) != 1 || subtle.ConstantTimeCompare([]byte(given[0]), []byte(s.key)) != 1:
			http.Error(w, "open the address that descartes serve has printed: it has the key to this page",
				http.StatusForbidden)
			return
		case !reads && !sameOrigin(r):
			http.Error(w, "this request comes from another page", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// knownHost refuses names that lead here without being ours: a page of somebody else's may have its own name lead to
// this machine.
func (s *Server) knownHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	if ip := net.ParseIP(name); ip != nil {
		return s.opt.Open || ip.IsLoopback()
	}
	return name == "localhost" || name == strings.ToLower(s.opt.Host)
}

// sameOrigin reports whether a request comes from one of our own pages.
func sameOrigin(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return false
	}
	u, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && u.Host == r.Host
}

// page renders a page, or says what is wrong with it.
func (s *Server) page(w http.ResponseWriter, r *http.Request, name string, data any, err error) {
	if err != nil {
		s.fail(w, r, err)
		return
	}
	var b bytes.Buffer
	if err := s.pages.ExecuteTemplate(&b, name, data); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte(plain(b.String()))) // a reader that went away
}

// plain takes out of a page what would turn the text after it around, and a terminal's escapes: titles and outputs are
// of others.
func plain(page string) string {
	return strings.Map(func(r rune) rune {
		if r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069 || unicode.IsControl(r) && r != '\n' && r != '\t' {
			return '\uFFFD'
		}
		return r
	}, page)
}

// notFound says that there is no such thing.
type notFound string

func (e notFound) Error() string { return string(e) }

func (s *Server) fail(w http.ResponseWriter, _ *http.Request, err error) {
	code := http.StatusInternalServerError
	if _, ok := errors.AsType[notFound](err); ok {
		code = http.StatusNotFound
	}
	http.Error(w, err.Error(), code)
}

// Serve answers on a listener until ctx ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	streams, end := context.WithCancel(context.Background())
	srv := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10,
		BaseContext:    func(net.Listener) context.Context { return streams }}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	select {
	case err := <-done:
		end()
		return err
	case <-ctx.Done():
	}
	end() // a stream would never end by itself
	late, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	err := srv.Shutdown(late)
	<-done
	if errors.Is(err, context.DeadlineExceeded) {
		err = srv.Close()
	}
	return err
}
