package loop

import (
	"testing"

	"descartes/loop/attempt"
	"descartes/verify"
)

// What a check printed that passed is not what an attempt failed with.
func TestOutputOfFailure(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		res  attempt.Result
		want string
	}{
		{attempt.Result{Verify: &verify.Result{Tail: "FAIL: sum"}}, "FAIL: sum"},
		{attempt.Result{Verify: &verify.Result{Passed: true, Tail: "ok"}, Verdict: verify.Failed,
			Reason: "conflict markers are left in list.txt"}, ""},
		{attempt.Result{Verify: &verify.Result{Passed: true, Tail: "ok"},
			Objection: &attempt.Objection{Detail: "sum_test.go lost a test"}}, "sum_test.go lost a test"},
	} {
		if got := Output(&c.res); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.res, got, c.want)
		}
	}
}
