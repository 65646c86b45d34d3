package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func start(t *testing.T) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(&server{script: builtin(), def: "ok", given: map[string]*faults{}})
	t.Cleanup(srv.Close)
	return srv
}

func post(t *testing.T, url, body string) (int, http.Header, string) {
	t.Helper()
	r, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, _ := io.ReadAll(r.Body)
	return r.StatusCode, r.Header, string(b)
}

var shellSchema = `{"type":"object","properties":{"command":{"type":"string"},"description":{"type":"string"}},"required":["command","description"]}`

var requests = map[string]struct{ path, first, second string }{
	"anthropic": {"/v1/messages",
		`{"model":"m","stream":true,"max_tokens":9,"tools":[{"name":"Bash","input_schema":` + shellSchema + `}],"messages":[{"role":"user","content":"do it"}]}`,
		`{"model":"m","stream":true,"max_tokens":9,"tools":[{"name":"Bash","input_schema":` + shellSchema + `}],"messages":[{"role":"user","content":"do it"},
		 {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"Bash","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"ok"}]}]}`},
	"chat": {"/v1/chat/completions",
		`{"model":"m","stream":true,"tools":[{"type":"function","function":{"name":"bash","parameters":` + shellSchema + `}}],"messages":[{"role":"user","content":"do it"}]}`,
		`{"model":"m","stream":true,"tools":[{"type":"function","function":{"name":"bash","parameters":` + shellSchema + `}}],"messages":[{"role":"user","content":"do it"},
		 {"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"bash","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"ok"}]}`},
	"responses": {"/v1/responses",
		`{"model":"m","stream":true,"tools":[{"type":"function","name":"exec_command","parameters":{"type":"object","properties":{"cmd":{"type":"string"}},"required":["cmd"]}}],"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"do it"}]}]}`,
		`{"model":"m","stream":true,"tools":[{"type":"function","name":"exec_command","parameters":{"type":"object","properties":{"cmd":{"type":"string"}},"required":["cmd"]}}],"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"do it"}]},
		 {"type":"function_call","name":"exec_command","call_id":"a","arguments":"{}"},{"type":"function_call_output","call_id":"a","output":"ok"}]}`},
	"gemini": {"/v1beta/models/m:streamGenerateContent",
		`{"tools":[{"functionDeclarations":[{"name":"run_shell_command","parametersJsonSchema":` + shellSchema + `}]}],"contents":[{"role":"user","parts":[{"text":"do it"}]}]}`,
		`{"tools":[{"functionDeclarations":[{"name":"run_shell_command","parametersJsonSchema":` + shellSchema + `}]}],"contents":[{"role":"user","parts":[{"text":"do it"}]},
		 {"role":"model","parts":[{"functionCall":{"name":"run_shell_command","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"run_shell_command","response":{"output":"ok"}}}]}]}`},
}

func TestToolThenPromise(t *testing.T) {
	srv := start(t)
	for api, q := range requests {
		st, _, body := post(t, srv.URL+q.path, q.first)
		if st != 200 || !strings.Contains(body, "fake.txt") || strings.Contains(body, "COMPLETE") {
			t.Errorf("%s: first answer is no tool call: %d %s", api, st, body)
		}
		st, _, body = post(t, srv.URL+q.path, q.second)
		if st != 200 || strings.Contains(body, "fake.txt") || !strings.Contains(body, "ETE") {
			t.Errorf("%s: second answer is not the closing text: %d %s", api, st, body)
		}
	}
}

func TestFaultStatuses(t *testing.T) {
	srv := start(t)
	for api, q := range requests {
		for fault, want := range map[string]int{"ratelimit": 429, "usagelimit": 429, "servererror": 500, "nomodel": 404} {
			st, h, body := post(t, srv.URL+"/s/"+fault+q.path, q.first)
			if st != want || !json.Valid([]byte(body)) {
				t.Errorf("%s %s: %d %s", api, fault, st, body)
			}
			if fault == "usagelimit" && api == "anthropic" && h.Get("anthropic-ratelimit-unified-reset") == "" {
				t.Error("no reset header")
			}
		}
	}
}

func TestFaultTimesCountsPerTag(t *testing.T) {
	srv := start(t)
	q := requests["chat"]
	for _, tag := range []string{"a", "b"} {
		url := srv.URL + "/s/overloaded-once@" + tag + q.path
		if st, _, _ := post(t, url, q.first); st != 503 {
			t.Errorf("%s: first: %d", tag, st)
		}
		if st, _, body := post(t, url, q.first); st != 200 {
			t.Errorf("%s: second: %d %s", tag, st, body)
		}
	}
}

func TestSideRequestsDoNotAdvance(t *testing.T) {
	srv := start(t)
	st, _, body := post(t, srv.URL+"/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"title?"}]}`)
	if st != 200 || !strings.Contains(body, "Fake title") {
		t.Fatal(st, body)
	}
	st, _, body = post(t, srv.URL+"/v1beta/models/m:generateContent", `{"generationConfig":{"responseJsonSchema":{"type":"object","properties":{"next":{"type":"string","enum":["model","user"]}}}},"contents":[]}`)
	if st != 200 || !strings.Contains(body, `\"next\":\"user\"`) {
		t.Fatal(st, body)
	}
}

func TestUserScript(t *testing.T) {
	f := filepath.Join(t.TempDir(), "s.json")
	os.WriteFile(f, []byte(`{"scenarios":{"mine":{"rules":[{"match":"task 2\\b","turns":[{"text":"two"}]},{"turns":[{"text":"other"}]}]}}}`), 0o644)
	sc, err := loadScript(f)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(&server{script: sc, def: "mine", given: map[string]*faults{}})
	defer srv.Close()
	for prompt, want := range map[string]string{"do task 2 now": "two", "do task 22": "other"} {
		b, _ := json.Marshal(map[string]any{"model": "m", "tools": []any{map[string]any{"name": "Bash"}}, "messages": []any{map[string]any{"role": "user", "content": prompt}}})
		_, _, body := post(t, srv.URL+"/v1/messages", string(b))
		if !bytes.Contains([]byte(body), []byte(`"text":"`+want+`"`)) {
			t.Errorf("%q: %s", prompt, body)
		}
	}
	os.WriteFile(f, []byte(`{"scenarios":{"x":{"rulez":[]}}}`), 0o644)
	if _, err := loadScript(f); err == nil {
		t.Error("an unknown field was taken")
	}
}

func TestBuiltinNamesHaveTurns(t *testing.T) {
	for n, s := range builtin().Scenarios {
		if len(s.Rules) == 0 || len(s.Rules[0].Turns) == 0 {
			t.Error(n)
		}
	}
}

func TestFaultForEnds(t *testing.T) {
	f := filepath.Join(t.TempDir(), "s.json")
	os.WriteFile(f, []byte(`{"scenarios":{"mine":{"rules":[{"turns":[{"fault":"usagelimit","fault_for":1,"text":"again"}]}]}}}`), 0o644)
	sc, err := loadScript(f)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(&server{script: sc, def: "mine", given: map[string]*faults{}})
	defer srv.Close()
	q := requests["anthropic"]
	st, h, _ := post(t, srv.URL+q.path, q.first)
	reset, err := strconv.ParseInt(h.Get("anthropic-ratelimit-unified-reset"), 10, 64)
	if in := reset - time.Now().Unix(); st != 429 || err != nil || in < 0 || in > 2 {
		t.Fatalf("status %d, reset in %d s, %v", st, in, err)
	}
	for end := time.Now().Add(10 * time.Second); st != 200; {
		if time.Now().After(end) {
			t.Fatal("the limit never ends")
		}
		st, _, _ = post(t, srv.URL+q.path, q.first)
	}
}
