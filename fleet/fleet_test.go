package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"descartes/agent"
	"descartes/config"
	"descartes/gitops"
	"descartes/loop"
	"descartes/loop/attempt"
	"descartes/loop/slot"
)

// TestGrants: an order has no more of a worker than the worker grants.
func TestGrants(t *testing.T) {
	t.Setenv("HOME", "/home/w")
	g := Grants{Write: []string{"/srv/cache", "/home/w/.cargo"}, Read: []string{"/etc/team"},
		Pass: []string{"TOKEN", "AWS_*"}}
	for want, list := range map[string][]config.SafetyConfig{
		"": {{}, {SandboxWrite: []string{"/srv/cache", "/srv/cache/go", "~/.cargo"}},
			{SandboxRead: []string{"/etc/team/key", "/srv/cache"}}, {EnvPass: []string{"TOKEN", "AWS_*", "AWS_KEY"}},
			{VerifyEnv: "list"}},
		"sandbox_write": {{SandboxWrite: []string{"/srv"}}, {SandboxWrite: []string{"/srv/cache/../.."}},
			{SandboxWrite: []string{"~/.ssh"}}, {SandboxWrite: []string{"/srv/cachet"}},
			{SandboxWrite: []string{"../other"}}, {SandboxWrite: []string{"/etc/team"}}},
		"sandbox_read": {{SandboxRead: []string{"~/.ssh"}}, {SandboxRead: []string{"/srv/cache", "/"}}},
		"env_pass": {{EnvPass: []string{"TOKENS"}}, {EnvPass: []string{"*"}}, {EnvPass: []string{"TEMPORAL_*"}},
			{EnvPass: []string{"AW*"}}},
		"verify_env": {{VerifyEnv: "inherit"}},
	} {
		for _, one := range list {
			got := g.refuses(&config.Config{SafetyConfig: one}, "/var/cache/repo")
			if (got == "") != (want == "") || !strings.Contains(got, want) {
				t.Errorf("%+v: %q, want %q", one, got, want)
			}
		}
	}
	for variable, want := range map[string]string{"TOKEN": "", "TEMPORAL_API_KEY": "env_pass: TEMPORAL_API_KEY"} {
		got := g.refuses(&config.Config{Backends: map[string]agent.Row{"other": {EnvPass: []string{variable}}}},
			"/var/cache/repo")
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("a backend's %s: %q, want %q", variable, got, want)
		}
	}
}

// TestRef: no name of a loop or task leads a ref elsewhere.
func TestRef(t *testing.T) {
	const name = "loop-1.0123abcd"
	const at = "refs/descartes/loop-1/fleet/0123abcd/tasks/"
	for _, c := range []struct{ loop, task, want string }{
		{name, "3", at + "3/2"}, {name, "1.2", at + "1.2/2"}, {name, "auth:7", at + "auth%3a7/2"},
		{name, "1/2", at + "1%2f2/2"}, {name, "1_2", at + "1_2/2"},
		{name, "../x", at + "%2e%2e%2fx/2"}, {name, "a.lock", at + "a%2elock/2"}, {name, "-x", at + "-x/2"},
		{name, "a\nb", at + "a%0ab/2"},
		{name, "", ""}, {name, strings.Repeat("x", 201), at + "%-84a0678c90937f5dcf9994d5866668da/2"},
		{name, strings.Repeat("/", 67), at + "%-3eb1349aab9dc074e2028d6801ffe27e/2"},
		{"../x.0123abcd", "3", ""}, {"", "3", ""}, {"loop-1", "3", ""}, {"loop-1.0123abcd/..", "3", ""},
		{"loop-1.0123ABCD", "3", ""}, {"loop-1.\n123abcd", "3", ""}, {name + "\n", "3", ""},
	} {
		got, err := refOf(c.loop, c.task, 2)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%q %q: got %q, %v, want %q", c.loop, c.task, got, err, c.want)
		}
	}
}

// TestNameLoop: loops of one id that are not the same loop have different names.
func TestNameLoop(t *testing.T) {
	a, b := NameLoop("nightly", "/a\n1"), NameLoop("nightly", "/a\n2")
	if a == b || LoopName(a) != "nightly" || LoopName(b) != "nightly" {
		t.Errorf("got %q and %q", a, b)
	}
}

// TestReadOrder: a worker of another version makes no attempt with settings that it does not know.
func TestReadOrder(t *testing.T) {
	good, err := json.Marshal(Order{Version: version})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		string(good): true,
		strings.Replace(string(good), "{", `{"later":1,`, 1):                   false,
		strings.Replace(string(good), `"config":{`, `"config":{"later":1,`, 1): false,
		strings.Replace(string(good), `"version":4`, `"version":5`, 1):         false,
		string(good[:len(good)/2]):                                             false, "": false,
	} {
		if _, err := readOrder([]byte(text)); (err == nil) != want || !want &&
			!strings.Contains(err.Error(), "another version of descartes") {
			t.Errorf("%.40s: %v", text, err)
		}
	}
}

// TestSmall: what is said about an attempt is far below what a server takes.
func TestSmall(t *testing.T) {
	b, err := json.Marshal(Ask{Remote: "https://host/" + strings.Repeat("x", 500), Loop: strings.Repeat("l", 64),
		Tag: strings.Repeat("t", 100), Task: strings.Repeat("9", 100),
		Title: strings.Repeat("ü", 500), Commit: strings.Repeat("c", 64)})
	if err != nil || len(b) > 4<<10 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

// TestLimit: an attempt without a time limit of its own has one all the same, so that a worker that hangs is given up
// some day.
func TestLimit(t *testing.T) {
	if n := limit(&attempt.Input{}); n < int((24 * time.Hour).Seconds()) {
		t.Errorf("without a limit: %d seconds", n)
	}
	in := attempt.Input{Agent: attempt.Clocks{Timeout: time.Hour}, Clocks: attempt.Clocks{Timeout: time.Hour},
		Checks: make([]attempt.Command, 2)}
	if n := limit(&in); n < int((5 * time.Hour).Seconds()) {
		t.Errorf("an hour of work and two checks: %d seconds", n)
	}
}

// TestNoSecretInErrors: what a worker says of an attempt that it could not make has neither the values of its
// variables nor logins.
func TestNoSecretInErrors(t *testing.T) {
	dir := t.TempDir()
	gitconfig := filepath.Join(dir, "gitconfig")
	if err := os.WriteFile(gitconfig,
		[]byte("[url \"http://me:hunter2hunter2@127.0.0.1:1/\"]\n\tinsteadOf = http://host/\n[http]\n\tproxy =\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GIT_CONFIG_GLOBAL", gitconfig)
	t.Setenv("MY_API_KEY", "sk-0123456789abcdefghij")
	for _, remote := range []string{"http://host/x.git", "/nowhere/sk-0123456789abcdefghij"} {
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Second) // a remote that does not answer is waited for
		said := ""
		_, err := (&Maker{Cache: dir, Note: func(text string) { said += text }}).Make(ctx,
			Ask{Remote: remote, Loop: "l.0123abcd", Task: "1", Try: 1, Commit: strings.Repeat("c", 40)}, "1-x",
			func(Live) {})
		stop()
		if said += fmt.Sprint(err); err == nil || !strings.Contains(said, "fetch the order") ||
			strings.Contains(said, "hunter2") || strings.Contains(said, "sk-0123") {
			t.Errorf("%s", said)
		}
	}
}

// TestSendsLittle: an order brings what is new since the one before, and a result what the attempt made, however large
// the project is.
func TestSendsLittle(t *testing.T) {
	dir := t.TempDir()
	repos := map[string]*gitops.Repo{}
	for _, name := range []string{"remote", "run", "worker"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		r, err := gitops.Mirror(t.Context(), gitops.Options{Dir: filepath.Join(dir, name), Env: os.Environ()})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		repos[name] = r
	}
	url, run, there := filepath.Join(dir, "remote"), repos["run"], repos["worker"]
	git := func(args ...string) string {
		t.Helper()
		b, err := exec.Command("git", append([]string{"-C", url}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, b)
		}
		return string(b)
	}
	git("config", "receive.unpackLimit", "1") // each push is a pack
	had := 0
	came := func() int {
		t.Helper()
		_, after, _ := strings.Cut(git("count-objects", "-v"), "in-pack: ")
		n, err := strconv.Atoi(strings.TrimSpace(after[:strings.Index(after, "\n")]))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { had = n }()
		return n - had
	}
	files := map[string][]byte{}
	add := func(repo *gitops.Repo, n int) gitops.Tree {
		t.Helper()
		for ; n > 0; n-- {
			files[fmt.Sprintf("file%d", len(files))] = []byte(strconv.Itoa(len(files)))
		}
		tree, err := repo.Bundle(t.Context(), files)
		if err != nil {
			t.Fatal(err)
		}
		return tree
	}
	tree := add(run, 300)
	head, err := run.Keep(t.Context(), "refs/descartes/head", tree, nil, "start")
	if err == nil {
		err = run.Send(t.Context(), url, head+":refs/heads/main")
	}
	if err != nil {
		t.Fatal(err)
	}
	c := &Client{opt: Options{Repo: run}}
	for try, most := range []int{100, 10, 10} { // other tasks have made so many files since HEAD, or one
		tree = add(run, max(1, 50-50*try))
		a := Ask{Remote: url, Loop: "l.0123abcd", Task: "1", Try: try + 1}
		ref, err := refOf(a.Loop, a.Task, a.Try)
		if err != nil {
			t.Fatal(err)
		}
		o := loop.Order{Task: "1", Try: a.Try}
		o.Start.Base = tree
		if head, err = run.Link(t.Context(), head, gitops.Link{Tree: tree, Message: "verified so far",
			When: time.Now()}); err != nil {
			t.Fatal(err)
		}
		o.At.Hash = head
		if a.Commit, err = c.keep(t.Context(), ref, o); err != nil {
			t.Fatal(err)
		}
		came()
		if err := run.Send(t.Context(), url, ref+":"+ref); err != nil {
			t.Fatal(err)
		}
		if got := came(); got > most {
			t.Errorf("order %d brought %d objects, want %d at most", a.Try, got, most)
		}
		s := &making{mirror: &mirror{remote: newRemote(there, url, func(string) {})}, Ask: a, ref: ref, run: "1-x"}
		if kept, err := s.look(t.Context(), fetchFor); err != nil || kept.Commit != "" {
			t.Fatal(kept, err)
		}
		if s.order, err = there.FileAt(t.Context(), a.Commit, orderFile, maxOrder); err != nil {
			t.Fatal(err)
		}
		res := attempt.Result{Work: slot.Result{After: add(there, 1)}}
		if _, err := s.deliver(t.Context(), &res, filepath.Join(dir, "log")); err != nil {
			t.Fatal(err)
		}
		if err := run.Fetch(t.Context(), url, ref+":"+ref); err != nil {
			t.Fatal(err)
		}
		if got := came(); got > 10 {
			t.Errorf("result %d brought %d objects", a.Try, got)
		}
	}
}
