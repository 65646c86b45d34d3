package source

import (
	"slices"
	"strings"
	"time"

	"descartes/loop/store"
	"descartes/specbuild"
)

// answersTo returns the answers for a task's spec. If before is set, later answers are left out.
func (j *Job) answersTo(task string, before time.Time) (out []specbuild.Answer) {
	for _, a := range j.Answers {
		if a.Task == task && a.Text != "" && (before.IsZero() || a.At.Before(before)) {
			out = append(out, specbuild.Answer{Question: a.Question, Text: a.Text})
		}
	}
	return out
}

// Answered reports whether a person answered about a task, or accepted work on it, after a time.
func (j *Job) Answered(task string, after time.Time) bool {
	return slices.ContainsFunc(j.Answers, func(a store.Answer) bool { return a.Task == task && a.At.After(after) })
}

// Allowed returns the questions about a task that a person answered with yes.
func (j *Job) Allowed(task string) (questions []string) {
	for _, a := range j.Answers {
		word, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(a.Text)), " ")
		if a.Task == task && a.Question != "" && strings.Trim(word, ".,!") == "yes" {
			questions = append(questions, a.Question)
		}
	}
	return questions
}

// unasked returns the failure without its question if that has been answered.
func unasked(f *specbuild.Failure, answers []specbuild.Answer) *specbuild.Failure {
	if f == nil || !slices.ContainsFunc(answers, func(a specbuild.Answer) bool { return a.Question == f.Question }) {
		return f
	}
	answered := *f
	answered.Question = ""
	return &answered
}
