// Command fakemodel is a scripted stand-in for a model service, for tests of
// programs that drive coding agents. It speaks, on 127.0.0.1 only, enough of
// the Anthropic messages API, the OpenAI chat-completions and responses APIs
// and the Gemini generateContent API for the real clients to run against it,
// and follows a script: usually a tool call first and a closing text next.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
)

type server struct {
	script *Script
	def    string
	dump   string

	began time.Time

	mu    sync.Mutex
	logw  io.Writer
	given map[string]*faults // by scenario, rule and turn
	n     int
}

// An entry is one line of the request log. It never holds a credential.
type entry struct {
	N        int      `json:"n"`
	MS       int64    `json:"ms"`
	Method   string   `json:"method"`
	Path     string   `json:"path"`
	Scenario string   `json:"scenario,omitempty"`
	API      string   `json:"api,omitempty"`
	Model    string   `json:"model,omitempty"`
	Stream   bool     `json:"stream,omitempty"`
	Side     bool     `json:"side,omitempty"`
	Tools    int      `json:"tools,omitempty"`
	Done     int      `json:"done"`
	Rule     *int     `json:"rule,omitempty"` // of the script, that the turn is of
	Turn     int      `json:"turn"`
	Fault    string   `json:"fault,omitempty"`
	UserLen  int      `json:"user_len,omitempty"`
	BodyLen  int      `json:"body_len,omitempty"`
	Agent    string   `json:"agent,omitempty"`
	Used     *Usage   `json:"used,omitempty"`
	Names    []string `json:"names,omitempty"`
	Gone     bool     `json:"gone,omitempty"` // the client left before the answer was over
}

func (s *server) log(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.logw != nil {
		e.MS = time.Since(s.began).Milliseconds()
		b, _ := json.Marshal(e)
		s.logw.Write(append(b, '\n'))
	}
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, name := r.URL.Path, s.def
	if rest, ok := strings.CutPrefix(path, "/s/"); ok {
		name, rest, _ = strings.Cut(rest, "/")
		path = "/" + rest
	}
	// NAME@TAG is scenario NAME with fault counts of its own.
	full := name
	name, _, _ = strings.Cut(name, "@")
	s.mu.Lock()
	s.n++
	e := &entry{N: s.n, Method: r.Method, Path: path, Scenario: full, Agent: r.UserAgent(), Turn: -1}
	s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	e.BodyLen = len(body)
	if s.dump != "" && len(body) > 0 {
		var pretty bytes.Buffer
		if json.Indent(&pretty, body, "", " ") != nil {
			pretty.Write(body)
		}
		os.WriteFile(fmt.Sprintf("%s/req-%04d.json", s.dump, e.N), pretty.Bytes(), 0o644)
	}
	c, err := s.parse(path, r, body)
	switch {
	case err != nil:
		s.log(e)
		writeJSON(w, 400, map[string]any{"error": map[string]any{"message": "fakemodel: " + err.Error()}})
		return
	case c == nil:
		s.log(e)
		s.other(w, r, path)
		return
	}
	e.API, e.Model, e.Stream, e.Side, e.Tools, e.Done, e.UserLen = c.API, c.Model, c.Stream, c.side(), len(c.Tools),
		c.Done, len(c.User)
	for _, t := range c.Tools {
		e.Names = append(e.Names, t.Name)
	}
	if c.side() {
		t := Turn{Text: "Fake title"}
		u := t.usage()
		e.Used = &u
		if c.JSON != nil {
			b, _ := json.Marshal(fit(c.JSON))
			t.Text = string(b)
		}
		s.log(e)
		answer(w, c, t)
		return
	}
	sc, ok := s.script.Scenarios[name]
	if !ok {
		s.log(e)
		writeJSON(w, 404, map[string]any{"error": map[string]any{"message": "fakemodel: no scenario " + name}})
		return
	}
	t, rule, i := sc.pick(c.User, c.Done)
	e.Rule, e.Turn = &rule, i
	if s.faulty(fmt.Sprintf("%s/%d/%d", full, rule, i), &t) {
		e.Fault = t.Fault
		s.log(e)
		if !doFault(w, r, c, t) {
			writeJSON(w, 500, map[string]any{"error": map[string]any{"message": "fakemodel: unknown fault " +
				t.Fault}})
		}
		if r.Context().Err() != nil {
			e.Gone = true
			s.log(e)
		}
		return
	}
	u := t.usage()
	e.Used = &u
	s.log(e)
	if t.DelayMS > 0 {
		select {
		case <-time.After(time.Duration(t.DelayMS) * time.Millisecond):
		case <-r.Context().Done():
			return
		}
	}
	answer(w, c, t)
}

// faults is what was given of one turn's fault.
type faults struct {
	times int
	until time.Time // of a fault that lasts
}

// faulty reports whether a turn is given as its fault this time, and counts it.
func (s *server) faulty(key string, t *Turn) bool {
	if t.Fault == "" {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.given[key]
	if f == nil {
		f = &faults{until: time.Now().Add(time.Duration(t.FaultFor) * time.Second)}
		s.given[key] = f
	}
	left := time.Until(f.until)
	if t.FaultTimes > 0 && f.times >= t.FaultTimes || t.FaultFor > 0 && left <= 0 {
		return false
	}
	if t.FaultFor > 0 && t.ResetIn == 0 {
		t.ResetIn = int(left/time.Second) + 1
	}
	f.times++
	return true
}

func (s *server) parse(path string, r *http.Request, body []byte) (*Conv, error) {
	if r.Method != http.MethodPost {
		return nil, nil
	}
	switch {
	case strings.HasSuffix(path, "/messages"):
		return parseAnthropic(body)
	case strings.HasSuffix(path, "/chat/completions"):
		return parseChat(body)
	case strings.HasSuffix(path, "/responses"):
		return parseResponses(body)
	case strings.HasSuffix(path, ":streamGenerateContent"), strings.HasSuffix(path, ":generateContent"):
		i := strings.LastIndex(path, "/")
		model, verb, _ := strings.Cut(path[i+1:], ":")
		return parseGemini(model, strings.HasPrefix(verb, "stream"), body)
	}
	return nil, nil
}

// other answers what is no model request.
func (s *server) other(w http.ResponseWriter, r *http.Request, path string) {
	switch {
	case strings.HasSuffix(path, "/count_tokens"):
		writeJSON(w, 200, map[string]any{"input_tokens": 1200})
	case strings.HasSuffix(path, ":countTokens"):
		writeJSON(w, 200, map[string]any{"totalTokens": 1200})
	case strings.HasSuffix(path, "/models"):
		mod := map[string]any{"id": "fake-model", "object": "model", "type": "model", "display_name": "Fake",
			"created": 0, "owned_by": "fake",
			"name": "models/fake-model", "slug": "fake-model"}
		writeJSON(w, 200, map[string]any{"object": "list", "data": []any{mod}, "models": []any{}})
	case path == "/__scenarios":
		writeJSON(w, 200, s.script.names())
	default:
		writeJSON(w, 404, map[string]any{"error": map[string]any{"message": "fakemodel: nothing at " + r.Method + " " +
			path}})
	}
}

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "address to listen on; loopback only")
	addrFile := flag.String("addr-file", "", "write the address here when listening")
	def := flag.String("scenario", "ok", "scenario for requests without /s/NAME")
	script := flag.String("script", "", "JSON file of more scenarios")
	logFile := flag.String("log", "", "append a JSON line a request here")
	dump := flag.String("dump", "", "write each request's body to a file in this directory")
	lst := flag.Bool("list", false, "print the scenarios' names")
	flag.Parse()
	log.SetFlags(0)
	log.SetPrefix("fakemodel: ")

	sc, err := loadScript(*script)
	if err != nil {
		log.Fatal(err)
	}
	if *lst {
		fmt.Println(strings.Join(sc.names(), "\n"))
		return
	}
	host, _, err := net.SplitHostPort(*addr)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		log.Fatalf("-addr %q is no loopback address", *addr)
	}
	s := &server{script: sc, def: *def, dump: *dump, began: time.Now(), given: map[string]*faults{}}
	if *logFile != "" {
		f, err := os.OpenFile(*logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			log.Fatal(err)
		}
		defer f.Close()
		s.logw = f
	}
	ln, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	if *addrFile != "" {
		tmp := *addrFile + ".tmp"
		if err := os.WriteFile(tmp, []byte(ln.Addr().String()), 0o644); err != nil {
			log.Fatal(err)
		}
		if err := os.Rename(tmp, *addrFile); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("http://" + ln.Addr().String())
	sig := make(chan os.Signal, 1)
	signal.Notify(sig, os.Interrupt, syscall.SIGTERM)
	srv := &http.Server{Handler: s}
	go func() {
		<-sig
		srv.Close()
	}()
	if err := srv.Serve(ln); err != http.ErrServerClosed {
		log.Fatal(err)
	}
}
