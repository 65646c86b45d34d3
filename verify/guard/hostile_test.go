package guard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Nothing that an agent wrote ends the program, or keeps it: what is too deep for the parser is not followed, what
// grows is not put in, and the context is looked at.
func TestHostile(t *testing.T) {
	t.Parallel()
	for _, open := range []string{"(", "$(", "`", "{ ", "! ", "if ", "$((", "(-", "[[ ! ", "a && ", "a | ", `"$(`, "${a:-", "case x in x) ",
		"while ", "f() ", "a=("} {
		for _, size := range []int{mostShell, MaxFile} {
			follow([]string{"echo " + strings.Repeat(open, size/len(open)), strings.Repeat(open, (size-1)/len(open))}, nil)
		}
	}
	big := "A = " + strings.Repeat("x", 300_000) + "\nB = b\nt:\n\t" + strings.Repeat("$(A)", 150_000) + "\n\techo $(B)\n"
	if got := readMake(big, nil).commands("t"); len(got) != 2 || len(got[0]) > 800_000 || got[1] != "echo b" {
		t.Errorf("got %d commands", len(got))
	}
	var many strings.Builder
	for i := range 200_000 {
		fmt.Fprint(&many, " p", i)
	}
	if got := readMake("t:"+many.String()+"\n", nil).uses([]string{"t"}); len(got) != 200_001 {
		t.Errorf("got %d targets", len(got))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Find(ctx, Input{Changes: []Change{{Path: "a", After: &Version{}}}}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
