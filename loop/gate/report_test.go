package gate

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

const seedBlock = `---RALPH_STATUS---
STATUS: IN_PROGRESS
TASKS_COMPLETED_THIS_LOOP: 1
FILES_MODIFIED: 4
TESTS_STATUS: PASSING
WORK_TYPE: IMPLEMENTATION
EXIT_SIGNAL: false
RECOMMENDATION: Next: implement API rate limiting (P1)
---END_RALPH_STATUS---`

func TestParseReportOfTheExample(t *testing.T) {
	t.Parallel()
	got, ok := ParseReport("I did it.\n\n" + seedBlock)
	want := Report{Status: InProgress, Tests: Passing, Recommendation: "Next: implement API rate limiting (P1)"}
	if !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, ok, want)
	}
}

func TestParseReportForms(t *testing.T) {
	t.Parallel()
	done := "STATUS: COMPLETE\nEXIT_SIGNAL: true\n"
	for _, c := range []struct {
		name, text string
		status     string
		exit       bool
		problem    string // a part of one, "" for none
	}{
		{"plain", "---RALPH_STATUS---\n" + done + "---END_RALPH_STATUS---", Complete, true, ""},
		{"fenced", "```\n---RALPH_STATUS---\n" + done + "---END_RALPH_STATUS---\n```\nbye", Complete, true, ""},
		{"fenced, no end", "```\n---RALPH_STATUS---\n" + done + "```\nEXIT_SIGNAL: false", Complete, true,
			"no ---END"},
		{"bold", "**---RALPH_STATUS---**\n**STATUS:** COMPLETE\n**EXIT_SIGNAL**: **true**\n**---END_RALPH_STATUS---**",
			Complete, true, ""},
		{"heading", "### ---RALPH_STATUS---\n" + done + "### ---END_RALPH_STATUS---", Complete, true, ""},
		{"quoted", "> ---RALPH_STATUS---\n> STATUS: COMPLETE\n> EXIT_SIGNAL: true\n> ---END_RALPH_STATUS---", Complete,
			true, ""},
		{"list", "---RALPH_STATUS---\n- STATUS: COMPLETE\n- EXIT_SIGNAL: true\n---END_RALPH_STATUS---", Complete, true,
			""},
		{"blanks and case", "  --- ralph_status ---  \n status :  complete \nexit signal = TRUE\n--- End Ralph Status ---", Complete, true, ""},
		{"carriage returns", "---RALPH_STATUS---\r\nSTATUS: COMPLETE\r\nEXIT_SIGNAL: true\r\n---END_RALPH_STATUS---\r\n", Complete, true, ""},
		{"short end", "---RALPH_STATUS---\n" + done + "---END_STATUS---", Complete, true, ""},
		{"no end", "---RALPH_STATUS---\n" + done, Complete, true, "no ---END"},
		{"no end, words after it", "---RALPH_STATUS---\n" + done + "\nSo it is: done.", Complete, true, "no ---END"},
		{"the last of two counts", "---RALPH_STATUS---\n" + done + "---END_RALPH_STATUS---\n" + seedBlock, InProgress,
			false, ""},
		{"the choices are no values",
			"---RALPH_STATUS---\nSTATUS: IN_PROGRESS | COMPLETE | BLOCKED\nEXIT_SIGNAL: false | true\n---END_RALPH_STATUS---", "", false, "not true or false"},
		{"out of range", "---RALPH_STATUS---\nSTATUS: SUPERB\nEXIT_SIGNAL: true\n---END_RALPH_STATUS---", "", true,
			`STATUS is "SUPERB"`},
		{"signal twice", "---RALPH_STATUS---\nSTATUS: COMPLETE\nEXIT_SIGNAL: true\nEXIT_SIGNAL: false\n---END_RALPH_STATUS---", Complete, false, "twice"},
		{"signal missing", "---RALPH_STATUS---\nSTATUS: COMPLETE\n---END_RALPH_STATUS---", Complete, false,
			"EXIT_SIGNAL is missing"},
		{"signal not clear", "---RALPH_STATUS---\nSTATUS: COMPLETE\nEXIT_SIGNAL: true, almost\n---END_RALPH_STATUS---",
			Complete, false, "not true or false"},
		{"the other name", "---LOOP_STATUS---\n" + done + "---END_LOOP_STATUS---", Complete, true, ""},
		{"empty", "---RALPH_STATUS---\n---END_RALPH_STATUS---", "", false, "STATUS is missing"},
	} {
		r, ok := ParseReport(c.text)
		if !ok || r.Status != c.status || r.ExitSignal != c.exit {
			t.Errorf("%s: got %+v, %v, want %q, %v", c.name, r, ok, c.status, c.exit)
		}
		named := slices.ContainsFunc(r.Problems, func(p string) bool {
			return c.problem != "" && strings.Contains(p, c.problem)
		})
		if named != (c.problem != "") || c.problem == "" && len(r.Problems) > 0 {
			t.Errorf("%s: problems %q, want one with %q", c.name, r.Problems, c.problem)
		}
	}
	for _, text := range []string{"", "RALPH_STATUS\nSTATUS: COMPLETE", "I will print ---RALPH_STATUS--- later"} {
		if r, ok := ParseReport(text); ok {
			t.Errorf("%q: got %+v, want none", text, r)
		}
	}
}

func TestIndicators(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want int
	}{
		{"All tasks are done. The project is complete.", 2},
		{"All tasks done, everything finished!", 2},
		{"Everything is done and the implementation is complete.", 2},
		{"Nothing left to do. Ready for review.", 2},
		{"No remaining tasks; all work is completed.", 2},
		{"**All tasks completed** 🎉\n\n- Pages: 34 tests passing ✅\n\nThe implementation is complete and ready for review.", 3},
		{"There is nothing left to be done.", 1},
		{"There are no errors and all tasks are done.", 1},
		{"not all tasks are done yet", 0},
		{"The work isn't done, and the tests aren't finished.", 0},
		{"The work isn’t complete.", 0},
		{"Not everything is done and complete.", 0},
		{"It is not broken, all tasks are done.", 1},
		{"The API is done but the page is not complete.", 1},
		{"Once this is done and complete, I will say so.", 0},
		{"It will be done. It is to be completed.", 0},
		{"I am almost done. 80% complete.", 0},
		{"100% complete.", 1},
		{"Is it done? Is it complete?", 0},
		{"Next: complete the API. Complete this task.", 0},
		{"I need to complete the page.", 0},
		{"incomplete, undone, completeness", 0},
		{"```\nall done, complete, finished\n```", 0},
		{"- [ ] done and complete", 0},
		{"- [x] done", 1},
		{"---RALPH_STATUS---\nSTATUS: COMPLETE\nRECOMMENDATION: all done, complete\n---END_RALPH_STATUS---", 0},
		{"---RALPH_STATUS---\nSTATUS: COMPLETE\n---END_RALPH_STATUS---\nAll done. Complete.", 2},
		{"", 0},
	} {
		if got := Indicators(c.text); got != c.want {
			t.Errorf("Indicators(%q) = %d, want %d", c.text, got, c.want)
		}
	}
}

func FuzzParseReport(f *testing.F) {
	f.Add(seedBlock)
	f.Add("```\n---RALPH_STATUS---\nEXIT_SIGNAL: true\n```\nAll done. Complete.")
	f.Fuzz(func(t *testing.T, text string) {
		r, ok := ParseReport(text)
		if !ok && r.ExitSignal {
			t.Error("a signal without a block")
		}
		if Indicators(text) < 0 {
			t.Error("a negative number of indicators")
		}
		closed := text + "\n" + seedBlock
		if r, ok := ParseReport(closed); !ok || r.ExitSignal || r.Status != InProgress {
			t.Errorf("the last block does not count: %+v", r)
		}
	})
}
