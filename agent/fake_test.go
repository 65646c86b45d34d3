//go:build unix

package agent

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// fakeCommand makes the test binary a coding agent: fakeCommand DIALECT MANNER.
const fakeCommand = "__agent"

// tongue is how a client says things. What it has no words for is "".
type tongue struct {
	backend                string
	open, begin, end       string
	think, say, tool, echo string // %s is a JSON string
	limit, fail            string // an end; after it the exit status is 1
}

func tongues() map[string]tongue {
	claude := tongue{
		backend: "claude",
		open:    `{"type":"system","subtype":"init","session_id":"s","model":"m"}`,
		think:   `{"type":"assistant","message":{"model":"m","content":[{"type":"thinking","thinking":%s}]},"parent_tool_use_id":null}`,
		say:     `{"message":{"model":"m","content":[{"text":%s,"type":"text"}]},"parent_tool_use_id":null,"type":"assistant"}`,
		tool: `{"type":"assistant","message":{"model":"m","content":[{"type":"tool_use","id":"t","name":"Bash","input":{}}]},"parent_tool_use_id":null}` + "\n" +
			`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":%s}]}}`,
		echo: `{"type":"user","message":{"content":%s}}`,
		end:  `{"type":"result","subtype":"success","is_error":false,"result":"","total_cost_usd":0.01,"usage":{"input_tokens":10,"output_tokens":2}}`,
		limit: `{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1893456000,"rateLimitType":"seven_day"}}` + "\n" +
			`{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"You've hit your weekly limit"}`,
		fail: `{"type":"result","subtype":"success","is_error":true,"api_error_status":529,"result":"API Error: 529 Overloaded"}`,
	}
	qwen := claude
	qwen.backend = "qwen"
	return map[string]tongue{
		"claude": claude,
		"qwen":   qwen,
		"opencode": {
			backend: "opencode",
			open:    `{"type":"step_start","sessionID":"s","part":{"type":"step-start"}}`,
			begin: `{"type":"step_start","sessionID":"s","part":{"type":"step-start"}}` + "\n" +
				`{"type":"step_finish","sessionID":"s","part":{"reason":"unknown","tokens":{"input":0,"output":0}}}`,
			think: `{"type":"reasoning","sessionID":"s","part":{"type":"reasoning","text":%s}}`,
			say:   `{"type":"text","sessionID":"s","part":{"type":"text","text":%s}}`,
			tool:  `{"type":"tool_use","sessionID":"s","part":{"tool":"bash","state":{"status":"completed","output":%s}}}`,
			end:   `{"type":"step_finish","sessionID":"s","part":{"reason":"stop","tokens":{"input":10,"output":2}}}`,
			limit: `{"type":"error","sessionID":"s","error":{"name":"APIError","data":{"message":"The usage limit has been reached","statusCode":429}}}`,
		},
		"codex": {
			backend: "codex",
			open:    `{"type":"thread.started","thread_id":"s"}` + "\n" + `{"type":"turn.started"}`,
			begin:   `{"type":"turn.started"}`,
			think:   `{"type":"item.completed","item":{"type":"reasoning","text":%s}}`,
			say:     `{"type":"item.completed","item":{"type":"agent_message","text":%s}}`,
			tool:    `{"type":"item.completed","item":{"type":"command_execution","aggregated_output":%s,"exit_code":0}}`,
			end:     `{"type":"turn.completed","usage":{"input_tokens":10,"output_tokens":2}}`,
			limit:   `{"type":"turn.failed","error":{"message":"You’ve hit your usage limit. Try again in 2 days 3 hours."}}`,
			fail:    `{"type":"turn.failed","error":{"message":"stream disconnected before completion: gone"}}`,
		},
		"gemini": {
			backend: "gemini",
			open:    `{"type":"init","session_id":"s","model":"m"}`,
			think:   `{"type":"thought","content":%s}`,
			say:     `{"type":"message","role":"assistant","content":%s,"delta":true}`,
			tool: `{"type":"tool_use","tool_name":"shell","tool_id":"t"}` + "\n" +
				`{"type":"tool_result","tool_id":"t","status":"success","output":%s}`,
			echo:  `{"type":"message","role":"user","content":%s}`,
			end:   `{"type":"result","status":"success","stats":{"input_tokens":10,"output_tokens":2}}`,
			limit: `{"type":"result","status":"error","error":{"message":"[API Error: You have exhausted your daily quota on this model.]"}}`,
			fail:  `{"type":"result","status":"error","error":{"message":"[API Error: The model is overloaded.]"}}`,
		},
		"copilot": {
			backend: "copilot",
			open:    `{"type":"session.start","data":{}}`,
			think:   `{"type":"assistant.reasoning","data":{"content":%s}}`,
			say:     `{"type":"assistant.message","data":{"content":%s,"toolRequests":[]}}`,
			tool: `{"type":"tool.execution_start","data":{}}` + "\n" +
				`{"type":"tool.execution_complete","data":{"result":{"content":%s}}}`,
			echo:  `{"type":"user.message","data":{"content":%s}}`,
			end:   `{"type":"result","sessionId":"s","exitCode":0}`,
			limit: `{"type":"session.error","data":{"errorType":"quota","message":"You've hit your usage limit","statusCode":429}}` + "\n" + `{"type":"result","exitCode":1}`,
			fail: `{"type":"session.error","data":{"message":"gone","statusCode":503}}` + "\n" +
				`{"type":"result","exitCode":1}`,
		},
		"text": {backend: "generic", say: "%s"},
	}
}

// line is one of the tongue's sentences.
func (t tongue) line(form, text string) string {
	if form == "" {
		return ""
	}
	if strings.Contains(form, "%s") {
		quoted := []byte(text)
		if form != "%s" {
			quoted, _ = json.Marshal(text)
		}
		form = strings.Replace(form, "%s", string(quoted), 1)
	}
	return form + "\n"
}

const promised = "All is done.\n\n<promise>COMPLETE</promise>"

// fakeAgent does what its manner says, and exits where that is not the end of main.
func fakeAgent(dialect, manner string) {
	t := tongues()[dialect]
	out := func(form, text string) { io.WriteString(os.Stdout, t.line(form, text)) }
	prompt, _ := io.ReadAll(os.Stdin)
	late := make(chan os.Signal, 1)
	switch manner {
	case "hang":
		hang()
	case "mute":
		return
	case "mute, hangs":
		hang()
	case "only stderr":
		fmt.Fprintln(os.Stderr, promised)
		return
	case "only stderr, hangs":
		fmt.Fprintln(os.Stderr, "waiting for a lock")
		hang()
	case "dots, hangs":
		fmt.Print("...")
		hang()
	case "text, hangs":
		fmt.Println("this is no event")
		hang()
	case "ignores TERM":
		signal.Ignore(syscall.SIGTERM)
	case "promises after TERM", "promises after the end and TERM":
		signal.Notify(late, syscall.SIGTERM)
	}
	out(t.open, "")
	switch manner {
	case "says no more":
		hang()
	case "ignores TERM":
		out(t.say, promised)
		hang()
	case "promises after TERM":
		out(t.say, "Working.")
		<-late
		out(t.say, promised)
		out(t.end, "")
		return
	case "promises after the end and TERM":
		out(t.say, "Nothing to say.")
		out(t.end, "")
		<-late
		out(t.begin, "")
		out(t.say, promised)
		out(t.end, "")
		return
	case "orphan":
		orphan()
	case "limit":
		out(t.tool, "half of it is done")
		out(t.limit, "")
		os.Exit(1)
	case "fails, never closes":
		out(t.fail, "")
		hang()
	case "spins":
		for range 25 {
			out(t.begin, "")
		}
		hang()
	case "overflows":
		for range 5 {
			fmt.Println(`{"type":"error","error":{"name":"ContextOverflowError","data":{"message":"Your input exceeds the context window of this model."}}}`)
			out(t.open, "")
			out(t.say, "A summary.")
			out(t.end, "")
		}
		hang()
	}
	fakeWork(t, manner, string(prompt), out)
	out(t.end, "")
	switch manner {
	case "goes on after the end":
		out(t.tool, "ok")
		time.Sleep(1200 * time.Millisecond)
		out(t.say, promised)
		out(t.end, "")
	case "ended, then a limit":
		fmt.Fprintln(os.Stderr, "AI_APICallError: The usage limit has been reached")
		time.Sleep(250 * time.Millisecond)
	}
	if manner == "never closes" {
		hang()
	}
}

// fakeWork is the middle of a run that ends well.
func fakeWork(t tongue, manner, prompt string, out func(form, text string)) {
	out(t.tool, "ok")
	switch manner {
	case "thinks it":
		out(t.think, promised)
	case "reads it":
		out(t.tool, promised)
		out(t.say, "That is what the file says.")
	case "shows it":
		out(t.say, "Print this:\n\n```\n"+"<promise>COMPLETE</promise>\n"+"```\n")
	case "echoes the prompt":
		out(t.echo, prompt)
		out(t.say, prompt+"\n\nI have not begun.")
	case "in pieces", "in three events":
		fakePieces(t, manner, out)
	case "takes it back":
		out(t.say, promised)
		out(t.tool, "FAIL")
		out(t.say, "Not yet: a test fails.")
	case "twice":
		out(t.say, promised)
		out(t.tool, "FAIL")
		out(t.say, "Not yet: a test fails.")
		out(t.tool, "ok")
		out(t.say, promised)
	case "goes on after the end":
		out(t.say, "So far, so good.")
	case "reads of a limit":
		out(t.tool, "You've hit your weekly limit · resets 9:32pm (UTC). Error: usage limit reached")
		out(t.say, promised)
	case "large line":
		before, after, _ := strings.Cut(t.line(cmp.Or(t.tool, t.say), "@"), "@")
		io.Copy(os.Stdout, endless(before, "words ", after, 100<<20))
		out(t.say, promised)
	case "large output":
		fakeFlood(t)
		out(t.say, promised)
	default:
		out(t.say, promised)
	}
}

// fakePieces says it with pauses in its middle, so that a reader sees the parts.
func fakePieces(t tongue, manner string, out func(form, text string)) {
	const pause = 130 * time.Millisecond
	time.Sleep(pause)
	if manner == "in three events" {
		out(t.say, "Done.\n\n<prom")
		time.Sleep(pause)
		out(t.say, "ise>COMPL")
		out(t.say, "ETE</promise>")
		return
	}
	line := t.line(t.say, promised)
	at := strings.Index(line, "COMPLETE")
	for _, part := range []string{line[:at-4], line[at-4 : at+3], line[at+3:]} {
		io.WriteString(os.Stdout, part)
		time.Sleep(pause)
	}
}

// fakeFlood prints a gigabyte: long lines and short ones.
func fakeFlood(t tongue) {
	long := bytes.Repeat([]byte("0123456789abcde\\n"), 10<<20/17)
	before, after, _ := strings.Cut(t.line(cmp.Or(t.tool, t.say), "@"), "@")
	short := bytes.Repeat([]byte(t.line(cmp.Or(t.think, t.say), "a thought of some length")), 64)
	size := 1 << 30
	if t.end == "" { // text
		size >>= 2
	}
	for n := 0; n < size; {
		io.WriteString(os.Stdout, before)
		os.Stdout.Write(long)
		io.WriteString(os.Stdout, after)
		for range 256 {
			os.Stdout.Write(short)
		}
		n += len(long) + 256*len(short)
	}
}

// orphan leaves a process in a session of its own that holds the output open.
func orphan() {
	exe, err := os.Executable()
	if err == nil {
		var p *os.Process
		p, err = os.StartProcess(exe, []string{exe, fakeCommand, "text", "hang"}, &os.ProcAttr{
			Files: []*os.File{nil, os.Stdout, os.Stderr}, Sys: &syscall.SysProcAttr{Setsid: true}})
		if err == nil {
			err = os.WriteFile(orphanFile(os.Getenv(PromptFileVar)), []byte(strconv.Itoa(p.Pid)), 0o600)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(9)
	}
}

// orphanFile holds the process id of the orphan of a run.
func orphanFile(promptFile string) string { return filepath.Clean(promptFile) + ".orphan" }

func hang() {
	for {
		time.Sleep(time.Hour)
	}
}
