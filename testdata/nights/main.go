// Command nights runs a descartes program through random nights: graphs of tasks, agents that get in each other's way,
// kills, and a user at work in the same repository. After each it checks by git and the files alone what may never
// happen. It shares no code with descartes: what both got wrong the same way would pass.
//
//	make test-nights RUNS=20 SEED=1
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

func main() {
	binary := flag.String("binary", "./descartes", "the program")
	runs := flag.Int("runs", 10, "number of nights")
	seed := flag.Uint64("seed", 0, "seed of the first night, the next has the next one; 0: drawn")
	mode := flag.String("mode", "", "kind of all nights: "+fmt.Sprint(modes)+" (default: drawn)")
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64N(1e6) + 1
	}
	broken, err := run(*binary, *seed, *runs, *mode)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
	}
	if err != nil || broken > 0 {
		os.Exit(1)
	}
}

func run(binary string, first uint64, runs int, mode string) (broken int, err error) {
	if binary, err = filepath.Abs(binary); err != nil {
		return 0, err
	}
	if _, err := os.Stat(binary); err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "nights-")
	if err != nil {
		return 0, err
	}
	kills, start := 0, time.Now()
	for seed := first; seed < first+uint64(runs); seed++ {
		n, began := newNight(seed, mode, filepath.Join(dir, fmt.Sprint(seed)), binary), time.Now()
		if err := n.make(); err != nil {
			return broken, fmt.Errorf("night %d: make the project: %w", seed, err)
		}
		n.run()
		n.laws()
		kills += n.kills
		fmt.Printf("night %d: %s; %d kills, exits %v, %.0fs\n", seed, n, n.kills, n.codes, time.Since(began).Seconds())
		for _, b := range n.broken {
			fmt.Println("  BROKEN:", b)
		}
		if len(n.broken) > 0 {
			broken++
			fmt.Printf("  in %s; again: make test-nights SEED=%d\n", n.top, seed)
			continue
		}
		_ = os.RemoveAll(n.top)
	}
	_ = os.Remove(dir)
	fmt.Printf("%d nights, %d kills, %d nights broke a law, %s\n", runs, kills, broken,
		time.Since(start).Round(time.Second))
	return broken, nil
}
