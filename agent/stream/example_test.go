package stream_test

import (
	"os"
	"strings"

	"descartes/agent/stream"
)

func ExampleRender() {
	log := `{"type":"init","session_id":"s"}
{"type":"message","role":"assistant","content":"I look at the parser."}
{"type":"tool_use","tool_name":"read_file"}
{"type":"message","role":"assistant","content":"Done."}
{"type":"result","status":"success"}
`
	if err := stream.Render(stream.FormatGemini, strings.NewReader(log), os.Stdout); err != nil {
		panic(err)
	}
	// Output:
	// I look at the parser.
	// Done.
}
