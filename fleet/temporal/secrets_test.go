//go:build fleet

package temporal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"

	enumspb "go.temporal.io/api/enums/v1"
)

// biggest is how many bytes a payload, or a failure, may have.
const biggest = 4 << 10

// stored collects everything that the server has of its workflows: what they were started with, how they stand, what
// their workers said, and their histories.
func (w *town) stored(key string) (all []byte, histories int) {
	w.t.Helper()
	f, err := Server{Address: w.address, KeyFile: key}.Dial(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	c := f.client
	add := func(m proto.Message) {
		b, err := proto.Marshal(m)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, b...)
		err = protorange.Range(m.ProtoReflect(), func(p protopath.Values) error {
			v, ok := p.Index(-1).Value.Interface().(protoreflect.Message)
			if !ok {
				return nil
			}
			switch name := v.Descriptor().FullName(); name {
			case "temporal.api.common.v1.Payload", "temporal.api.failure.v1.Failure":
				if n := proto.Size(v.Interface()); n >= biggest {
					w.t.Errorf("a %s has %d bytes at %v: %.300s", name, n, p.Path, v.Interface())
				}
			}
			return nil
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	for token, first := []byte(nil), true; first || len(token) > 0; first = false {
		list, err := c.ListWorkflow(w.t.Context(), &workflowservice.ListWorkflowExecutionsRequest{PageSize: 100,
			NextPageToken: token})
		if err != nil {
			w.t.Fatal(err)
		}
		token = list.NextPageToken
		for _, e := range list.Executions {
			add(e)
			id, run := e.GetExecution().GetWorkflowId(), e.GetExecution().GetRunId()
			if desc, err := c.DescribeWorkflowExecution(w.t.Context(), id, run); err == nil {
				add(desc)
			}
			for h := c.GetWorkflowHistory(w.t.Context(), id, run, false,
				enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); h.HasNext(); {
				event, err := h.Next()
				if err != nil {
					w.t.Fatal(err)
				}
				add(event)
				histories++
			}
		}
	}
	return all, histories
}

// TestSecrets: no key, token, password or login of anybody's is stored by the server, whatever fails; with a key
// nothing that people wrote is; and everything that is stored is small.
func TestSecrets(t *testing.T) {
	const login, apiKey, agentKey = "hunter2hunter2", "tmprl-0123456789abcdef", "sk-ant-0123456789abcdef"
	secrets := []string{login, apiKey, agentKey}
	for _, sealed := range []bool{false, true} {
		t.Run(fmt.Sprintf("sealed=%v", sealed), func(t *testing.T) {
			dir, key := t.TempDir(), ""
			write := func(name, text string) string {
				path := filepath.Join(dir, name)
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				return path
			}
			for name, value := range map[string]string{"TEMPORAL_API_KEY": apiKey, "TEMPORAL_TLS": "false",
				"ANTHROPIC_API_KEY": agentKey} {
				t.Setenv(name, value)
			}
			if sealed {
				key = write("key", strings.Repeat("0f", 32))
				t.Setenv("DESCARTES_FLEET_KEY_FILE", key)
			}
			w := newTown(t, plan{tasks: 1, width: 1, slots: 1, alone: true})
			with := strings.Replace(w.url, "://", "://me:"+login+"@", 1)
			w.git(w.project, "remote", "set-url", "origin", with)
			tag, id, title := strings.Repeat("t", 100), strings.Repeat("9", 100),
				"Wordsmith "+strings.Repeat("ü", 3000)
			list, err := json.Marshal(map[string]any{"tag": tag,
				"tasks": []map[string]any{{"id": id, "title": title, "status": "pending"},
					{"id": "2", "title": "Other", "status": "pending"}}})
			if err != nil {
				t.Fatal(err)
			}
			agent := strings.Replace(agentText, "sleep 0.4",
				"sleep 5; env; echo '"+agentKey+"'; cat $DESCARTES_FLEET_KEY_FILE", 1)
			for path, text := range map[string]string{".scud/tasks/" + tag + ".json": string(list),
				"agent.sh": agent} {
				if err := os.WriteFile(filepath.Join(w.project, path), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			w.git(w.project, "add", "-A")
			w.git(w.project, "commit", "-qm", "list")
			// A worker looks for the remote elsewhere, where none is, and git says so with the URL that its settings
			// make of it.
			host := strings.TrimSuffix(with, "tally.git")
			t.Setenv("GIT_CONFIG_GLOBAL", write("gitconfig",
				"[url \""+host+strings.Repeat("long/", 100)+"\"]\n\tinsteadOf = "+w.url+"\n"))
			w.workers = append(w.workers, nil)
			w.work(0)
			if err := os.Unsetenv("GIT_CONFIG_GLOBAL"); err != nil {
				t.Fatal(err)
			}
			p := w.start(w.project, "descartes", "loop", "start", "--scud-tag", tag, "--command", "./agent.sh",
				"--verify", "test -d out", "--fleet", "-j", "2", "--plain")
			t.Cleanup(p.kill)
			var all []byte
			until := func(what string, there func() bool) {
				t.Helper()
				for deadline := time.Now().Add(4 * time.Minute); !there(); time.Sleep(100 * time.Millisecond) {
					select {
					case <-p.over:
						if what != "the run's end" {
							t.Fatalf("%s: the run ended before:\n%s", what, p.out)
						}
					default:
					}
					if time.Now().After(deadline) {
						t.Fatalf("%s: never", what)
					}
				}
			}
			until("a failure is stored", func() bool {
				b, _ := w.stored(key)
				all = append(all, b...)
				return bytes.Contains(b, []byte("could not make the attempt")) ||
					bytes.Contains(b, []byte("Encoded failure"))
			})
			w.workers = append(w.workers, nil)
			w.slots = 2
			w.work(1)
			until("the run's end", func() bool {
				b, _ := w.stored(key)
				all = append(all, b...)
				select {
				case <-p.over:
					return true
				default:
					return false
				}
			})
			if !p.cmd.ProcessState.Success() {
				t.Fatalf("the run ended with %v:\n%s", p.cmd.ProcessState, p.out)
			}
			b, events := w.stored(key)
			if all = append(all, b...); events < 20 {
				t.Errorf("only %d events are stored", events)
			}
			for _, s := range secrets {
				if i := bytes.Index(all, []byte(s)); i >= 0 {
					t.Errorf("the server stores %s: %q", s, all[max(0, i-200):i+20])
				}
			}
			for _, plain := range []string{"Wordsmith", strings.TrimPrefix(w.url, "http://"),
				"could not make the attempt"} {
				if got := bytes.Contains(all, []byte(plain)); got == sealed {
					t.Errorf("%.40q is stored: %v", plain, got)
				}
			}
			for _, said := range append(w.workers, p) {
				for _, s := range secrets {
					if strings.Contains(said.out.String(), s) {
						t.Errorf("%v printed %s", said.cmd.Args, s)
					}
				}
			}
		})
	}
}
