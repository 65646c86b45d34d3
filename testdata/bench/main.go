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
	if len(os.Args) > 1 && os.Args[1] == proc.ShimCommand {
		os.Exit(proc.Serve())
	}
	if len(os.Args) == 4 && os.Args[1] == followArg {
		if err := follow(os.Args[2], os.Args[3]); err != nil {
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

// comparisons are DESIGN's bounds, in its order.
func comparisons() []comparison {
	list := []comparison{
		{"one attempt, 10,000 files, no sandbox", "150 ms", attempt(10_000, "off")},
		{"one attempt, 50,000 files, no sandbox", "600 ms", attempt(50_000, "off")},
		{"6 attempts, 2 change old tests: guard / none", "1.3", judged(6)},
		{"runs of the checks per attempt, -j 1, -j 8", "1, 1", checked(8, 1, 8)},
		{"agents for six tasks on one file, -j 1, -j 6", "6, 11", agents(6, 1, 6)},
		{"journal of a night of 100 tasks, folded", "5 ms", folded(100)},
		{"first slot of 10,000 files", "3 s", firstSlot(10_000)},
		{"per task, list of 2,000 / of 100", "1.15", growth(2_000, 100, noop)},
		{"memory, list of 10,000", "64 MB", memory(10_000, noop)},
		{"200 tasks of 1 s, -j 8: slots are busy", "95 %", busy(200, 8)},
		{"20 tasks of 1 s, -j 1 / -j 4", "3.8", parallel(20, 4)},
		{"graph and waves of 10,000 tasks", "50 ms", waves(layered(100, 100))},
		{"graph and waves of 100,000 tasks", "500 ms", waves(layered(1000, 100))},
		{"64 MB of a log, followed / cat | cat", "3", following(64<<20, plainStream())},
		{"list of 200 loops", "200 ms", loops(200)},
		{"descartes version / git --version", "6", startup},
		{"size of the binary", "25 MB", size},
	}
	if _, err := exec.LookPath("bwrap"); err == nil {
		list = slices.Insert(list, 1, comparison{"one attempt, 10,000 files, sandbox", "200 ms",
			attempt(10_000, "auto")})
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
