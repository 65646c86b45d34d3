package tasks

import (
	"strings"
	"testing"
)

func TestParseStatus(t *testing.T) {
	t.Parallel()
	tests := []struct {
		word string
		want Status
		ok   bool
	}{
		{"pending", Pending, true}, {"in-progress", InProgress, true}, {"done", Done, true}, {"review", Review, true},
		{"blocked", Blocked, true}, {"deferred", Deferred, true}, {"cancelled", Cancelled, true}, {"expanded", Expanded, true},
		{"failed", Failed, true},
		{"completed", Done, true}, {"complete", Done, true}, {"todo", Pending, true}, {"in_progress", InProgress, true},
		{"canceled", Cancelled, true}, {"In Progress", InProgress, true}, {" Done ", Done, true},
		{"awaiting-tune", "awaiting-tune", false}, {"", "", false}, {"finished", "finished", false}, {"X", "X", false},
	}
	for _, test := range tests {
		if got, ok := ParseStatus(test.word); got != test.want || ok != test.ok {
			t.Errorf("%q: got %q %v, want %q %v", test.word, got, ok, test.want, test.ok)
		}
	}
}

func TestCanChange(t *testing.T) {
	t.Parallel()
	// A row lists what the status may become, by first letters: Pending In-progress Done Review Blocked deFerred Cancelled eXpanded faiLed.
	letters := map[byte]Status{'P': Pending, 'I': InProgress, 'D': Done, 'R': Review, 'B': Blocked, 'F': Deferred, 'C': Cancelled, 'X': Expanded, 'L': Failed}
	rows := map[Status]string{
		Pending:         "PIDRBFCL",
		InProgress:      "PIDRBFCL",
		Done:            "PDRC",
		Review:          "PIDRBFCL",
		Blocked:         "PIDRBFCL",
		Deferred:        "PDFC",
		Cancelled:       "PDFC",
		Expanded:        "PDFCX",
		Failed:          "PIDRBFCL",
		"awaiting-tune": "PDFC",
	}
	for from, row := range rows {
		for letter, to := range letters {
			err := CanChange(from, to)
			if want := strings.IndexByte(row, letter) >= 0; (err == nil) != want {
				t.Errorf("%s to %s: got %v, want legal %v", from, to, err, want)
			}
		}
		if err := CanChange(from, "awaiting-tune"); err == nil || !strings.Contains(err.Error(), "use one of pending, ") {
			t.Errorf("%s to a foreign word: got %v", from, err)
		}
	}
}
