//go:build agents

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"descartes/config"
	"descartes/loop/journal"
)

// client is one real agent program.
type client struct {
	name    string // of its backend
	program string // its file and its folder of AGENTS_PROGRAMS; "" is name
	other   string // the folder of another one's program, which takes over from it; "" for none
	tokens  bool   // it tells them
	dollars bool
	// settings are the project's descartes.yaml, which is trusted; "" for none
	settings string
	// env has what leads it to the model at url, and files what it needs below its home.
	env   func(url string) []string
	files func(url string) map[string]string
}

// modelHost is an address of the loopback that clients ask their proxy for: 127.0.0.1 is exempt from that.
const modelHost = "127.0.0.2"

// clients are those that go through every test.
func clients() []client {
	return []client{claudeClient(), codexClient(), opencodeClient()}
}

// everyClient are all that testdata/test-agents.sh installs, but for those that are spoken with by the protocol.
func everyClient() []client {
	return append(clients(), geminiClient(), qwenClient(), copilotClient())
}

// acpClients are those that speak the Agent Client Protocol: all of npm's.
func acpClients() []client {
	opencode, gemini := opencodeClient(), geminiClient()
	opencode.name, opencode.program = "opencode-acp", "opencode"
	gemini.name, gemini.program = "gemini-acp", "gemini"
	return []client{opencode, gemini,
		byProtocol(claudeClient(), "claude-agent-acp", "claude-agent-acp"),
		byProtocol(codexClient(), "codex-acp", "codex-acp"),
		byProtocol(qwenClient(), "qwen-acp", "qwen --acp --yolo"),
		byProtocol(copilotClient(), "copilot-acp", "copilot --acp --allow-all --no-auto-update")}
}

// byProtocol is a client whose backend a project's settings add.
func byProtocol(c client, name, command string) client {
	program, _, _ := strings.Cut(command, " ")
	c.name, c.program = name, program
	c.settings = "backends:\n  " + name + ":\n    command: " + command + "\n    prompt: stdin\n    parser: acp\n"
	return c
}

// bin is where its program is.
func (c client) bin() string {
	return filepath.Join(os.Getenv("AGENTS_PROGRAMS"), cmp.Or(c.program, c.name), "node_modules", ".bin")
}

// missing reports whether it could not be installed.
func (c client) missing() bool {
	_, err := os.Stat(filepath.Join(c.bin(), cmp.Or(c.program, c.name)))
	return err != nil
}

func geminiClient() client {
	return client{name: "gemini", tokens: true,
		env: func(url string) []string { return []string{"GEMINI_API_KEY=dummy", "GOOGLE_GEMINI_BASE_URL=" + url} },
		files: func(string) map[string]string {
			return map[string]string{
				".gemini/settings.json": `{"security":{"auth":{"selectedType":"gemini-api-key"}}}`}
		}}
}

func qwenClient() client {
	return client{name: "qwen", tokens: true,
		env: func(url string) []string {
			return []string{"OPENAI_API_KEY=dummy", "OPENAI_BASE_URL=" + url + "/v1", "OPENAI_MODEL=fake-model"}
		},
		files: func(string) map[string]string {
			return map[string]string{".qwen/settings.json": `{"security":{"auth":{"selectedType":"openai"}}}`}
		}}
}

func copilotClient() client {
	return client{name: "copilot", env: func(url string) []string {
		return []string{"COPILOT_PROVIDER_BASE_URL=" + url + "/v1", "COPILOT_PROVIDER_API_KEY=dummy",
			"COPILOT_MODEL=fake-model", "COPILOT_OFFLINE=true"}
	}}
}

func claudeClient() client {
	return client{name: "claude", tokens: true, dollars: true, env: func(url string) []string {
		// A token as of a subscription: with a plain key the client does not say when a usage limit resets.
		return []string{"ANTHROPIC_BASE_URL=" + url, "CLAUDE_CODE_OAUTH_TOKEN=dummy", "IS_SANDBOX=1"}
	}}
}

func codexClient() client {
	return client{name: "codex", tokens: true,
		env: func(string) []string { return []string{"OPENAI_API_KEY=dummy"} },
		files: func(url string) map[string]string {
			return map[string]string{".codex/config.toml": `model = "fake-model"
model_provider = "fake"
[model_providers.fake]
name = "fake"
base_url = "` + url + `/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
`}
		}}
}

func opencodeClient() client {
	return client{name: "opencode", tokens: true, dollars: true, env: func(url string) []string {
		return []string{"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1",
			`OPENCODE_CONFIG_CONTENT={"model":"fake/fake-model","provider":{"fake":{` +
				`"npm":"@ai-sdk/openai-compatible","name":"Fake","options":{"baseURL":"` + url +
				`/v1","apiKey":"dummy"},` +
				`"models":{"fake-model":{"name":"Fake","cost":{"input":3,"output":15,"cache_read":0.3},"limit":{"context":200000,"output":8000}}}}}}`}
	}}
}

// turn is what the model does when it is asked once, rule what it does in one conversation; testdata/fakemodel says
// more.
type turn struct {
	Text       string  `json:"text,omitempty"`
	Tool       *tool   `json:"tool,omitempty"`
	HTTP       *answer `json:"http,omitempty"` // of the fault "http"
	Shell      string  `json:"shell,omitempty"`
	Fault      string  `json:"fault,omitempty"`
	FaultTimes int     `json:"fault_times,omitempty"`
	FaultFor   int     `json:"fault_for,omitempty"`
	RetryAfter int     `json:"retry_after,omitempty"`
	ResetIn    int     `json:"reset_in,omitempty"`
}

// tool is a call of the first tool that is offered with such a name.
type tool struct {
	Name string         `json:"name"`
	Args map[string]any `json:"args"`
}

type answer struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    any               `json:"body"`
}

type rule struct {
	Match string `json:"match,omitempty"`
	Turns []turn `json:"turns"`
}

const claim = "The file is written.\n\n<promise>COMPLETE</promise>"

// of is a rule for one task; attempt 0 is any.
func of(task string, attempt int, turns ...turn) rule {
	match := `(?m)^# Task ` + task + `: `
	if attempt > 0 {
		match += fmt.Sprintf(`.*attempt %d of`, attempt)
	}
	return rule{Match: match, Turns: turns}
}

// good does a task as it should be done.
func good(task string) rule {
	return of(task, 0, turn{Text: "I write it.", Shell: writes(task)}, turn{Text: claim})
}

// writes is the shell command that does a task.
func writes(task string) string { return "echo good > " + task + ".txt" }

// stage is a repository with three tasks, 3 after 1 and 2, in which a real client works on a model that follows rules.
type stage struct {
	*field
	client client
	home   string
	url    string // of its script
	asked  string // its log
	model  *os.Process
	seen   *family // what the program started
}

// staged skips a test whose clients could not be installed.
func staged(t *testing.T, list ...client) {
	t.Helper()
	if os.Getenv("AGENTS_PROGRAMS") == "" || os.Getenv("AGENTS_MODEL") == "" {
		t.Fatal("no agent programs: make test-agents installs them and runs this test")
	}
	for _, c := range list {
		if c.missing() {
			t.Skipf("%s could not be installed", c.name)
		}
	}
}

// newStage makes one. The first rule that fits counts; good ones for the three tasks stand behind them. {{aside}} in a
// rule is the folder beside the repository.
func newStage(t *testing.T, c client, rules ...rule) *stage {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{client: c, home: filepath.Join(dir, "home"),
		field: &field{root: filepath.Join(dir, "project"), aside: filepath.Join(dir, "aside")}, seen: &family{}}
	s.asked = filepath.Join(s.aside, "requests.ndjson")
	script, err := json.Marshal(map[string]any{"scenarios": map[string]any{
		"main": map[string]any{"rules": append(rules, good("1"), good("2"), good("3"))}}})
	if err != nil {
		t.Fatal(err)
	}
	s.file(t, filepath.Join(s.aside, "script.json"), strings.ReplaceAll(string(script), "{{aside}}", s.aside))
	s.file(t, filepath.Join(s.aside, "tmp", "kept"), "")
	s.file(t, filepath.Join(s.home, "kept"), "")
	s.startModel(t)
	if c.files != nil {
		for name, text := range c.files(s.url) {
			s.file(t, filepath.Join(s.home, name), text)
		}
	}
	s.file(t, filepath.Join(s.root, "mine.txt"), "the user's\n")
	s.file(t, filepath.Join(s.root, ".scud", "tasks", "t.json"), `{"tag":"t","tasks":[
{"id":1,"title":"Write the alpha file","status":"pending","complexity":1},
{"id":2,"title":"Write the beta file","status":"pending","complexity":1},
{"id":3,"title":"Write the gamma file","status":"pending","complexity":1,"depends_on":[1,2]}
]}
`)
	if c.settings != "" {
		s.file(t, filepath.Join(s.root, "descartes.yaml"), c.settings)
	}
	s.git(t, "init", "-q", "-b", "main")
	s.git(t, "config", "user.name", "A U Thor")
	s.git(t, "config", "user.email", "author@example.org")
	s.git(t, "add", ".")
	s.git(t, "commit", "-q", "-m", "start")
	t.Cleanup(func() { s.clear(t) })
	return s
}

func (s *stage) file(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// startModel starts the model's server, which ends with the test.
func (s *stage) startModel(t *testing.T) {
	t.Helper()
	address := filepath.Join(s.aside, "address")
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	path := os.Getenv("AGENTS_MODEL")
	s.model, err = os.StartProcess(path, []string{path, "-addr", modelHost + ":0", "-addr-file", address, "-script",
		filepath.Join(s.aside, "script.json"), "-log", s.asked},
		&os.ProcAttr{Files: []*os.File{null, null, os.Stderr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.model.Kill()
		_, _ = s.model.Wait()
	})
	if err := await(address); err != nil {
		t.Fatal(err)
	}
	s.url = "http://" + readText(t, address) + "/s/main"
}

// env is the whole environment of the program.
func (s *stage) env() []string {
	path := s.client.bin() + ":" + os.Getenv("PATH")
	if s.client.other != "" {
		path = s.client.other + ":" + path
	}
	env := []string{"PATH=" + path, "HOME=" + s.home,
		"TMPDIR=" + filepath.Join(s.aside, "tmp"),
		// lines stay whole
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C", "TERM=dumb", "COLUMNS=1000",
		"DESCARTES_BASELINE=off"} // verify fails until a task is done
	if s.client.env != nil {
		env = append(env, s.client.env(s.url)...)
	}
	return env
}

// begin starts a loop command: start over the tag, with the client's row of the table as it is, or resume.
func (s *stage) begin(t *testing.T, verb string, flags ...string) *launched {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	argv := []string{path, "loop", verb}
	if verb != "resume" {
		argv = append(argv, "--tag", "t", "--backend", s.client.name, "--verify",
			`test "$(cat "$SCUD_TASK_ID.txt")" = good`)
	}
	if s.client.settings != "" {
		f, err := config.ReadFile(filepath.Join(s.root, "descartes.yaml"), true)
		if err != nil {
			t.Fatal(err)
		}
		argv = append(argv, "--trust", config.TrustDigest(f.Demands(s.root)))
	}
	r := s.launch(t, append(argv, flags...), s.env())
	s.seen.follow(t, r)
	return r
}

// does runs a loop command to its end, which has to be this one, with nothing left running.
func (s *stage) does(t *testing.T, code int, verb string, flags ...string) *launched {
	t.Helper()
	return s.ends(t, s.begin(t, verb, flags...), code)
}

// ends waits for the end of a launch.
func (s *stage) ends(t *testing.T, r *launched, code int) *launched {
	t.Helper()
	got := r.wait(t)
	s.nothingLeft(t)
	if got != code {
		t.Fatalf("exit %d, want %d\n%s", got, code, s.story(t))
	}
	t.Logf("%s: %v", strings.Join(r.argv[1:3], " "), time.Since(r.began).Round(100*time.Millisecond))
	return r
}

// story is what a failed test tells.
func (s *stage) story(t *testing.T) string {
	var b strings.Builder
	for n := 1; n <= s.runs; n++ {
		for _, ext := range []string{"out", "err"} {
			b.WriteString(readText(t, fmt.Sprintf("%s/run-%d.%s", s.aside, n, ext)))
		}
	}
	logs, _ := filepath.Glob(s.root + "/.descartes/runs/*/logs/*.log")
	for _, log := range logs {
		text := readText(t, log)
		b.WriteString("--- " + filepath.Base(log) + "\n" + text[max(0, len(text)-3000):])
	}
	return b.String() + "--- requests\n" + readText(t, s.asked)
}

// logOf is the path of an attempt's log: "1-2" is of task 1's second.
func (s *stage) logOf(t *testing.T, attempt string) string {
	t.Helper()
	logs, err := filepath.Glob(s.root + "/.descartes/runs/*/logs/" + attempt + ".log")
	if err != nil || len(logs) != 1 {
		t.Fatalf("logs of %s: %q, %v", attempt, logs, err)
	}
	return logs[0]
}

// ended are the attempts' ends as the journal has them: "task attempt verdict".
func (s *stage) ended(t *testing.T) (list []string) {
	t.Helper()
	for _, e := range s.journal(t) {
		if e.Type == journal.AttemptFinished {
			list = append(list, fmt.Sprintf("%s %d %s", e.Task, e.Attempt, e.Verdict))
		}
	}
	return list
}

// calm says that the repository is clean, but for statuses that no wave's commit holds yet, and holds these files with
// the right text, and no other new ones.
func (s *stage) calm(t *testing.T, done ...string) {
	t.Helper()
	if out := s.git(t, "status", "--porcelain"); out != "" && (len(done) > 0 || out != " M .scud/tasks/t.json\n") {
		t.Errorf("git status:\n%s", out)
	}
	want := ".scud/tasks/t.json\n"
	for _, task := range done {
		want = want + task + ".txt\n"
		if text := readText(t, filepath.Join(s.root, task+".txt")); text != "good\n" {
			t.Errorf("%s.txt holds %q", task, text)
		}
	}
	got := s.git(t, "ls-files")
	for line := range strings.Lines(want + "mine.txt\n") {
		if !strings.Contains(got, line) {
			t.Errorf("%q is not in git:\n%s", strings.TrimSpace(line), got)
		}
	}
	files := len(done) + 2
	if s.client.settings != "" {
		files++
	}
	if n := strings.Count(got, "\n"); n != files {
		t.Errorf("git has %d files, want %d:\n%s", n, files, got)
	}
}

// clear kills what a failed test leaves.
func (s *stage) clear(t *testing.T) {
	for _, p := range s.left(t) {
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
	}
}
