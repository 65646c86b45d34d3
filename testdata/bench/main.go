// Command bench measures descartes against the goals for its speed, beside the cheapest program that
// could do the same, and prints a table. It judges nothing: absolute times depend on the machine, and
// ratios are only good to a few percent on a busy one.
//
//	go run ./testdata/bench -binary ./descartes
//
// What is compared runs in turn, round after round, and each ratio is the median of the rounds' ratios.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"descartes/internal/proc"
)

func main() {
	if len(os.Args) == 4 && os.Args[1] == floorArg {
		if err := floor(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, "floor:", err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 2 && os.Args[1] == proc.ShimCommand {
		os.Exit(proc.Serve())
	}
	if len(os.Args) > 2 && (os.Args[1] == followArg || os.Args[1] == shortArg) {
		if err := asked(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, os.Args[1]+":", err)
			os.Exit(1)
		}
		return
	}
	binary := flag.String("binary", "./descartes", "the program to measure")
	rounds := flag.Int("rounds", 3, "rounds of each comparison")
	only := flag.String("only", "", "run only comparisons whose name contains this")
	flag.Parse()
	if err := bench(*binary, max(*rounds, 1), *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// row is one line of the table.
type row struct{ what, goal, wall, cpu, note string }

func bench(binary string, rounds int, only string) error {
	binary, err := filepath.Abs(binary)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "descartes-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &runner{binary: binary, dir: dir, rounds: rounds}
	var rows []row
	for _, c := range comparisons() {
		if !strings.Contains(c.what, only) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s ...\n", c.what)
		r, err := c.measure(b)
		if err != nil {
			return fmt.Errorf("%s: %w", c.what, err)
		}
		r.what, r.goal = c.what, c.goal
		rows = append(rows, r)
	}
	fmt.Printf("medians of %d interleaved rounds\n\n", rounds)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "what\tgoal\twall\tCPU\tmedians")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.what, r.goal, r.wall, r.cpu, r.note)
	}
	return w.Flush()
}

// comparison is one goal and how it is measured.
type comparison struct {
	what, goal string
	measure    func(*runner) (row, error)
}

func comparisons() []comparison {
	// One changes nothing, so there is nothing to snapshot; the other changes one of the repository's 50 files.
	const quiet, writes = "echo TASK_COMPLETE", `echo "$DESCARTES_TASK_ID" >file7.txt; echo TASK_COMPLETE`
	list := []comparison{
		{"200 independent tasks / floor", "<= 1.25", overFloor(wide(200), quiet, "off")},
		{"200 independent tasks, each changes a file / floor", "<= 1.35", overFloor(wide(200), writes, "off")},
		{"chain of 100, each changes a file / floor", "<= 1.35", overFloor(chain(100), writes, "off")},
		{"one attempt, 10,000 files, no sandbox", "<= 25 ms", attempt(wide(40).among(10_000), quiet, "off")},
		{"per task, list of 10,000 / of 300", "<= 1.15, 64 MB", growth(10_000, 300, quiet)},
		{"graph and waves of 10,000 tasks", "<= 60 ms", waves(layered(100, 100))},
		{"64 MB of events, followed / cat | cat", "<= 2.5", following(64<<20, plainStream())},
		{"16 MB of hostile ones, the worst / cat | cat", "<= 7.5", following(16<<20, hostileStreams()...)},
		{"an agent that does nothing / starting it", "<= 0.3 ms", supervision},
		{"descartes version / git --version", "<= 5", startup},
		{"size of the binary", "<= 30 MB", size},
	}
	if _, err := exec.LookPath("bwrap"); err == nil {
		boxed := comparison{"one attempt, 10,000 files, sandbox", "<= 70 ms", attempt(wide(40).among(10_000), quiet, "auto")}
		list = slices.Insert(list, 4, boxed)
	}
	return list
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	if n == 0 {
		return 0
	}
	return (v[(n-1)/2] + v[n/2]) / 2
}
