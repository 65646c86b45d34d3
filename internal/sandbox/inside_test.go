//go:build linux

package sandbox

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"descartes/agent/process"
	"descartes/internal/plainfile"
	"descartes/internal/proc"
)

// TestEnds runs programs that end in every way: it comes through as it would without a sandbox.
func TestEnds(t *testing.T) {
	w := newWorld(t, Auto)
	if w == nil {
		return
	}
	for _, c := range []struct {
		script string
		why    process.Why
		code   int
		signal int
	}{
		{"exit 3", process.Exited, 3, 0},
		{"exit 173", process.Exited, 173, 0}, // a status of gemini's, and 128 and a signal that kills nobody
		{"kill -9 $$", process.Signaled, 0, 9},
		{"kill -TERM $$", process.Signaled, 0, 15},
	} {
		e, text := w.run("sh", "-c", c.script)
		if e.Why != c.why || e.Code != c.code || e.Signal != c.signal {
			t.Errorf("%s: got %s %d %d, want %s %d %d\n%s", c.script, e.Why, e.Code, e.Signal, c.why, c.code, c.signal,
				text)
		}
	}
	if e, _ := w.run("no-such-program"); e.Why != process.NotStarted || e.Code != 127 {
		t.Errorf("no such program: got %+v", e)
	}
	w.write(w.project+"/broken", "#!/no/such/interpreter\n")
	if err := os.Chmod(w.project+"/broken", 0o755); err != nil {
		t.Fatal(err)
	}
	if e, _ := w.run("./broken"); e.Why != process.NotStarted || !strings.Contains(e.Err, "interpreter") {
		t.Errorf("no such interpreter: got %+v", e)
	}
	if e, text := w.run("sh", "-c",
		"cat; pwd; echo $TMPDIR; echo x >$TMPDIR/y; echo 1 >file; echo err >&2"); e.Code != 0 ||
		text != "the prompt\n"+w.project+"\n/tmp\nerr\n" {
		t.Errorf("got %v, %q", e, text)
	}
	if b, err := os.ReadFile(w.project + "/file"); err != nil || string(b) != "1\n" {
		t.Errorf("the tree: %q, %v", b, err)
	}
}

// TestStatus has programs that take every way to another end than their own.
func TestStatus(t *testing.T) {
	for _, mode := range []Mode{Auto, Strict} {
		t.Run(string(mode), func(t *testing.T) {
			w := newWorld(t, mode)
			if w == nil {
				return
			}
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			e, text := w.run(self, "__attack", "status")
			if !e.Failed() {
				t.Errorf("a program that ends with 1: got %+v\n%s", e, text)
			}
			if !strings.Contains(text, "not to be traced 2") {
				t.Errorf("its supervisor can be traced:\n%s", text)
			}
			if e, _ := w.run(self, "__attack", "silence"); !e.Failed() {
				t.Errorf("a program whose supervisor is killed: got %+v", e)
			}
		})
	}
}

// TestMemory has code under test write into the memory of the shell that started it, which decides about the check. Where
// /proc may be written it can, so that the test shows something.
func TestMemory(t *testing.T) {
	w := newWorld(t, Auto)
	if w == nil {
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		mode   Mode
		change func(*Config)
		ways   int
	}{
		{"a check", Auto, func(*Config) {}, 0},
		{"a strict one", Strict, func(*Config) {}, 0},
		{"a held-out one", Auto, func(c *Config) { c.Role = HeldOut }, 0},
		{"a check that may write /proc", Auto, func(c *Config) { c.Write = []string{"/proc"} }, 4},
		{"an agent", Auto, func(c *Config) { c.Role = Agent }, 4},
	} {
		cfg := w.config(c.mode)
		cfg.Role, cfg.Userns = Verify, w.box.c.Userns
		c.change(&cfg)
		w.use(cfg)
		if !w.box.apart() && c.ways == 0 {
			t.Skip("Yama keeps processes apart here")
		}
		_, text := w.run("sh", "-c", self+" __attack memory; exit 1")
		if got := strings.Count(text, escaped); got != c.ways || strings.Contains(text, "stack") {
			t.Errorf("%s: %d ways into the memory, want %d\n%s", c.name, got, c.ways, text)
		}
		if e, text := w.run("sh", "-c", "echo ok >/dev/stderr; echo ok >/proc/self/fd/1; exit 3"); e.Code != 3 ||
			strings.Count(text, "ok\n") != 2 {
			t.Errorf("%s: got %v\n%s", c.name, e, text)
		}
	}
}

// TestGrace ends a program that takes its time to say goodbye, and one that does not.
func TestGrace(t *testing.T) {
	w := newWorld(t, Auto)
	if w == nil {
		return
	}
	for _, c := range []struct {
		script, want string
		grace        time.Duration
	}{
		{`trap 'echo bye; exit 5' TERM; touch up; while :; do sleep 0.01; done`, "bye\n", time.Minute},
		{`trap '' TERM; touch up; while :; do sleep 0.01; done`, "", 100 * time.Millisecond},
	} {
		tmp, err := MakeTemp(w.base + "/tmp")
		if err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(w.project + "/up")
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for ctx.Err() == nil {
				if _, err := os.Stat(w.project + "/up"); err == nil {
					cancel()
				}
				time.Sleep(time.Millisecond)
			}
		}()
		log := filepath.Join(t.TempDir(), "log")
		e, err := w.shim.Run(ctx, process.Command{Label: "x", Argv: []string{"sh", "-c", c.script}, Dir: w.project,
			Stdout: log, Stderr: log, Grace: c.grace, Limits: w.box.Limits(tmp)})
		cancel()
		text, _ := os.ReadFile(log)
		if err != nil || e.Why != process.Cancelled || !strings.HasSuffix(string(text), c.want) || c.want == "" &&
			len(text) > 0 {
			t.Errorf("%s: got %+v, %v, %q", c.script, e, err, text)
		}
	}
}

// TestProxy reaches a host of the list from inside, and no other.
func TestProxy(t *testing.T) {
	w := newWorld(t, Strict)
	if w == nil {
		return
	}
	web := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		io.WriteString(rw, "hello "+r.Host)
	}))
	defer web.Close()
	w.proxy.upstream = func(*url.URL) (*url.URL, error) { return nil, nil }
	w.proxy.lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
		switch host {
		case "allowed.test":
			return []netip.Addr{netip.MustParseAddr("203.0.114.7")}, nil
		case "a.below.test": // a name that leads home
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		}
		t.Errorf("the proxy asks for %s", host)
		return nil, io.EOF
	}
	w.proxy.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr != "203.0.114.7:80" && addr != "203.0.114.7:443" {
			t.Errorf("the proxy dials %s", addr)
		}
		return (&net.Dialer{}).DialContext(ctx, network, web.Listener.Addr().String())
	}
	ask := func(text string) string { // through the proxy, with the shell's own means
		return `p=${HTTPS_PROXY##*:}; exec 3<>/dev/tcp/127.0.0.1/$p; printf '` + text +
			`\r\n\r\n' >&3; head -c 300 <&3`
	}
	if _, err := proc.Look("bash", "/", os.Environ()); err != nil {
		t.Log("no bash on this machine")
		return
	}
	for _, c := range []struct{ request, want string }{
		{`GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test`, "hello allowed.test"},
		{`CONNECT allowed.test:443 HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: inner\r\nConnection: close`,
			"hello inner"},
		{`CONNECT other.test:443 HTTP/1.1\r\nHost: x`, "is not among the hosts"},
		{`CONNECT a.below.test:443 HTTP/1.1\r\nHost: x`, "is an address of this machine"},
	} {
		if e, text := w.run("bash", "-c", ask(c.request)); e.Code != 0 || !strings.Contains(text, c.want) {
			t.Errorf("%s: got %v, %q", c.request, e, text)
		}
	}
	c := w.config(Strict)
	c.Role, c.Socket = Verify, w.proxy.Socket()
	w.proxy.dial = (&net.Dialer{}).DialContext
	w.local(c, web.Listener.Addr().String())
	for _, open := range []bool{false, true} {
		c.VerifyNetwork = open
		w.use(c)
		if _, text := w.run("sh", "-c", "echo proxy=${HTTPS_PROXY-none}"); strings.Contains(text, "none") == open {
			t.Errorf("verify, network %v: got %q", open, text)
		}
	}
	if e, _ := w.run("sh", "-c", "exit 3"); e.Why != process.Exited || e.Code != 3 {
		t.Errorf("exit 3 behind the bridge: got %v", e)
	}
	if e, _ := w.run("sh", "-c", "kill -9 $$"); e.Why != process.Signaled || e.Signal != 9 {
		t.Errorf("killed behind the bridge: got %v", e)
	}
}

// local reaches a server of this machine that the list of hosts has, and no other, with a client that heeds NO_PROXY.
func (w *world) local(c Config, server string) {
	w.tb.Helper()
	if _, err := proc.Look("curl", "/", os.Environ()); err != nil {
		w.tb.Log("no curl on this machine")
		return
	}
	_, port, _ := net.SplitHostPort(server)
	hosts := w.proxy.hosts
	defer func() { w.proxy.hosts = hosts }()
	c.VerifyNetwork = true
	for _, try := range []struct {
		host   string
		listed bool
	}{{"127.0.0.1:" + port, true}, {"localhost:" + port, true}, {"127.0.0.1:" + port, false}} {
		c.Hosts, w.proxy.hosts = nil, hosts
		if try.listed {
			c.Hosts = []string{try.host}
			w.proxy.hosts = append(slices.Clone(hosts), try.host)
		}
		w.use(c)
		e, text := w.run("curl", "-s", "-S", "http://"+try.host+"/")
		if got := e.Code == 0 && text == "hello "+try.host; got != try.listed {
			w.tb.Errorf("%s, listed %v: got %v, %q", try.host, try.listed, e, text)
		}
	}
}

// TestPlaces makes sandboxes of odd places: links, worktrees, a tree below what is hidden, TMPDIR in the tree.
func TestPlaces(t *testing.T) {
	w := newWorld(t, Auto)
	if w == nil {
		return
	}
	link := w.base + "/link"
	if err := os.Symlink(w.base, link); err != nil {
		t.Fatal(err)
	}
	tree := w.base + "/wt"
	w.write(tree+"/.git", "gitdir: "+w.project+"/.git/worktrees/wt\n")
	w.write(w.project+"/.git/worktrees/wt/commondir", "../..\n")
	w.write(w.project+"/.git/worktrees/wt/HEAD", "x\n")
	w.write(w.home+"/.aws/deep/file", "x\n")
	w.write(w.project+"/tmp/x", "x\n")
	for _, c := range []struct {
		name   string
		change func(*Config)
		script string
	}{
		{"links", func(c *Config) { c.Top, c.Root, c.Env[1] = link+"/project", link+"/project", "HOME="+link+"/home" },
			`echo 1 >file && ! echo 1 2>/dev/null >.git/config && ! cat "$HOME/.ssh/id_ed25519" 2>/dev/null && echo 1 >"$HOME/.cache/y"`},
		{"a worktree", func(c *Config) { c.Top, c.Root = tree, tree },
			`cd ` + tree + ` && echo 1 >file && cat .git ` + w.project + `/.git/config ` + w.project + `/.git/worktrees/wt/HEAD && ! echo 1 2>/dev/null >.git &&
			! echo 1 2>/dev/null >` + w.project + `/.git/config && ! echo 1 2>/dev/null >` + w.project + `/.git/worktrees/wt/commondir && ! echo 1 2>/dev/null >` + w.project + `/.git/worktrees/wt/index`},
		{"a tree below what is hidden", func(c *Config) { c.Top, c.Root = w.home+"/.aws/deep", w.home+"/.aws/deep" },
			`cd ` + w.home + `/.aws/deep && echo 1 >file && ! cat ../credentials 2>/dev/null && ! echo 1 2>/dev/null >../credentials`},
		{"TMPDIR in the tree", func(c *Config) { c.Env = append(c.Env, "TMPDIR="+w.project+"/tmp") },
			`echo 1 >tmp/y && test -e tmp/x && echo 1 >"$TMPDIR/z" && ! test -e tmp/z`},
		{"the home is the tree", func(c *Config) { c.Env[1] = "HOME=" + w.project },
			`echo 1 >x && ! echo 1 2>/dev/null >.git/config`},
		{"a home that is missing", func(c *Config) { c.Env[1] = "HOME=/nonexistent" }, `echo 1 >file`},
		{"granted places", func(c *Config) {
			c.Write, c.Read = []string{w.other}, []string{w.home + "/.config/gh"}
		}, `echo 1 >../other/new && cat "$HOME/.config/gh/hosts.yml" >/dev/null && ! echo 1 2>/dev/null >"$HOME/.config/gh/hosts.yml"`},
		{"verify sees no login", func(c *Config) { c.Role = Verify },
			`! cat "$HOME/.claude/settings.json" 2>/dev/null && echo 1 >file`},
	} {
		for _, mode := range []Mode{Auto, Strict} {
			cfg := w.config(mode)
			c.change(&cfg)
			w.use(cfg)
			script := c.script
			if mode == Strict { // its caches and other trees are not to be written, or not there
				script = strings.NewReplacer(` && echo 1 >"$HOME/.cache/y"`, "").Replace(script)
			}
			if e, text := w.run("sh", "-ec", script); e.Code != 0 || e.Signal != 0 {
				t.Errorf("%s, %s: got %v\n%s", c.name, mode, e, text)
			}
			if b, err := os.ReadFile(w.other + "/file"); err != nil || string(b) != "text\n" {
				t.Errorf("%s, %s: the other repository: %q, %v", c.name, mode, b, err)
			}
		}
	}
}

// BenchmarkSpawn runs a no-op inside and outside in turn.
func BenchmarkSpawn(b *testing.B) {
	w := newWorld(b, Auto)
	if w == nil {
		return
	}
	log := w.base + "/bench"
	run := func(bounds process.Limits) time.Duration {
		start := time.Now()
		if e, err := w.shim.Run(b.Context(), process.Command{Label: "x", Argv: []string{"/bin/sh", "-c", "true"},
			Dir: w.project, Stdout: log, Stderr: log, Limits: bounds}); err != nil || e.Code != 0 {
			b.Fatal(e, err)
		}
		return time.Since(start)
	}
	var plain, held []time.Duration
	for b.Loop() {
		plain = append(plain, run(process.Limits{}))
		start := time.Now()
		tmp, err := MakeTemp(w.base + "/tmp")
		if err != nil {
			b.Fatal(err)
		}
		run(w.box.Limits(tmp))
		if err := plainfile.RemoveAll(tmp); err != nil {
			b.Fatal(err)
		}
		held = append(held, time.Since(start))
	}
	slices.Sort(plain)
	slices.Sort(held)
	p, h := plain[len(plain)/2], held[len(held)/2]
	b.ReportMetric(float64(p.Microseconds())/1000, "plain-p50-ms")
	b.ReportMetric(float64(h.Microseconds())/1000, "sandbox-p50-ms")
	b.ReportMetric(float64((h-p).Microseconds())/1000, "more-p50-ms")
	b.ReportMetric(float64(h)/float64(p), "ratio-p50")
}

// TestFreshHome: in a home in which no program ever ran, those that keep a cache there find a place for it, which is
// the run's. In a strict sandbox it is the agent's own alone.
func TestFreshHome(t *testing.T) {
	for mode, place := range map[Mode]string{Auto: ".cache/go-build", Strict: ".cache/opencode/bin"} {
		w := newWorld(t, mode)
		if w == nil {
			return
		}
		if err := os.RemoveAll(w.home + "/.cache"); err != nil {
			t.Fatal(err)
		}
		w.agent = "opencode"
		w.start(mode)
		if e, text := w.run("sh", "-c", "mkdir -p ~/"+place+" && echo x >~/"+place+"/x"); e.Code != 0 {
			t.Errorf("%s: %s: %s", mode, e, text)
		}
		if _, err := os.Stat(w.home + "/" + place + "/x"); (err == nil) != (mode == Strict) {
			t.Errorf("%s: in the home: %v", mode, err)
		}
	}
}
