package store

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"descartes/internal/atomicfile"
)

func TestAnswersAccumulate(t *testing.T) {
	t.Parallel()
	home := NewHome(t.TempDir())
	if got, err := home.Answers("x"); got != nil || err != nil {
		t.Fatalf("without a file: %v, %v", got, err)
	}
	say := func(task, text string) error {
		return home.Answer(t.Context(), atomicfile.OS(), "x",
			Answer{Task: task, Question: "why?", Text: text, At: time.Unix(1, 0)})
	}
	for n := range maxAnswers + 5 {
		for range 2 { // the second time is none
			if err := say("1", fmt.Sprint(n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := say("2", "two"); err != nil {
		t.Fatal(err)
	}
	got, err := home.Answers("x")
	if err != nil || len(got) != maxAnswers+1 || got[0].Text != "5" ||
		got[maxAnswers-1].Text != fmt.Sprint(maxAnswers+4) || got[maxAnswers].Task != "2" {
		t.Errorf("%d answers, first %+v, %v", len(got), got[0], err)
	}
	if fi, err := os.Stat(home.AnswerFile("x")); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
	for _, text := range []string{strings.Repeat("x", MaxAnswer+1), "\xff"} {
		if say("1", text) == nil {
			t.Errorf("%.9q was taken", text)
		}
	}
	for _, text := range []string{"{", `{"version":"9"}`} {
		if err := os.WriteFile(home.AnswerFile("x"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := home.Answers("x"); err == nil || say("1", "lost") == nil {
			t.Errorf("%s: read", text)
		}
	}
}

// Several people may answer at once.
func TestAnswersAtOnce(t *testing.T) {
	t.Parallel()
	home := NewHome(t.TempDir())
	var all sync.WaitGroup
	for n := range 16 {
		all.Go(func() {
			if err := home.Answer(t.Context(), atomicfile.OS(), "x",
				Answer{Task: fmt.Sprint(n), Text: "yes", At: time.Unix(1, 0)}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got, err := home.Answers("x"); err != nil || len(got) != 16 {
		t.Errorf("%d answers, %v", len(got), err)
	}
}
