package journal

import (
	"bytes"
	"testing"
)

// TestEventWithoutCommands: an event's line has no command of a CI system, and its data is the same.
func TestEventWithoutCommands(t *testing.T) {
	t.Parallel()
	const text = `##vso[task.setvariable variable=x]y ###[add-mask]b \##[x] \\## # 1`
	line, err := (&Event{Type: Warning, Message: text}).Line()
	if err != nil || bytes.Contains(line, []byte("##")) {
		t.Errorf("%s %v", line, err)
	}
	if e, err := parse(bytes.TrimSuffix(line, []byte("\n"))); err != nil || e.Message != text {
		t.Errorf("got %q, %v", e.Message, err)
	}
}
