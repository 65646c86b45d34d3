package source

import (
	"testing"

	"descartes/gitops"
)

// What a commit says of the attempt that it keeps comes back as it was, and the words of its reason decide nothing.
func TestKept(t *testing.T) {
	list := gitops.Named{Tag: "t"}
	for _, k := range []Kept{
		{Loop: "night", Task: "1", Attempt: 2, Verdict: "failed", Reason: "exit status 1", Output: "one\ntwo\n"},
		{Loop: "night", Task: "1", Attempt: 2, Verdict: "blocked", Reason: "which one?", Asks: true},
		{Loop: "night", Task: "1", Attempt: 2, Verdict: "blocked", Reason: "it asks: too much of me", Same: true},
	} {
		ref := gitops.Ref{Name: "refs/descartes/night/tasks/1/2", Message: k.Message(list)}
		got, ok := ReadKept(ref, list, "1")
		if got.Same = !KeepsWork(ref); !ok || got != k {
			t.Errorf("got %+v, %t, want %+v", got, ok, k)
		}
	}
}
