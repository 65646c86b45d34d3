package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// runner is one run of the bench.
type runner struct {
	binary string
	dir    string
	rounds int
	made   int // repositories
}

// cost is what one process and all it waited for took.
type cost struct {
	wall, cpu time.Duration
	rss       int64 // bytes, of the largest process
}

// limitReached is the exit code of a loop that was asked for a part of its list only.
const limitReached = 6

// run measures a program that has to succeed. Its output is thrown away.
func (b *runner) run(dir, program string, args ...string) (cost, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	start := time.Now()
	err := cmd.Run()
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == limitReached {
		err = nil
	}
	c := cost{wall: time.Since(start)}
	if s := cmd.ProcessState; s != nil {
		c.cpu = s.UserTime() + s.SystemTime()
		if u, ok := s.SysUsage().(*syscall.Rusage); ok {
			c.rss = u.Maxrss << 10
		}
	}
	if err != nil {
		return c, fmt.Errorf("%s %v: %w", program, args, err)
	}
	return c, nil
}

// tag measures the real program over a task list, the agent being one shell command.
func (b *runner) tag(s shape, agent, sandbox string) (cost, error) {
	dir, err := b.repository(s)
	if err != nil {
		return cost{}, err
	}
	defer os.RemoveAll(dir)
	return b.start(dir, agent, sandbox)
}

// start runs the loop over the list in a repository.
func (b *runner) start(dir, agent, sandbox string, flags ...string) (cost, error) {
	args := []string{"loop", "start", "--scud-tag", "t", "--no-commit", "--verify", "true", "--sandbox", sandbox, "--command", "sh -c '" + agent + "'"}
	return b.run(dir, b.binary, append(args, flags...)...)
}

func (b *runner) floor(s shape, agent string) (cost, error) {
	self, err := os.Executable()
	if err != nil {
		return cost{}, err
	}
	dir, err := b.repository(s)
	if err != nil {
		return cost{}, err
	}
	defer os.RemoveAll(dir)
	return b.run(dir, self, floorArg, strconv.Itoa(s.tasks), agent)
}

// pairs runs two things in turn and gives the medians of their ratios and of each.
func (b *runner) pairs(x, y func() (cost, error)) (wall, cpu float64, mx, my cost, err error) {
	var walls, cpus, xw, yw, rss []float64
	for range b.rounds {
		cx, err := x()
		if err != nil {
			return 0, 0, mx, my, err
		}
		cy, err := y()
		if err != nil {
			return 0, 0, mx, my, err
		}
		walls = append(walls, float64(cx.wall)/float64(cy.wall))
		cpus = append(cpus, float64(cx.cpu)/float64(cy.cpu))
		xw, yw, rss = append(xw, float64(cx.wall)), append(yw, float64(cy.wall)), append(rss, float64(cx.rss))
	}
	mx = cost{wall: time.Duration(median(xw)), rss: int64(median(rss))}
	my = cost{wall: time.Duration(median(yw))}
	return median(walls), median(cpus), mx, my, nil
}

func overFloor(s shape, agent, sandbox string) func(*runner) (row, error) {
	return func(b *runner) (row, error) {
		wall, cpu, x, y, err := b.pairs(
			func() (cost, error) { return b.tag(s, agent, sandbox) },
			func() (cost, error) { return b.floor(s, agent) })
		n := time.Duration(s.tasks)
		note := fmt.Sprintf("%v, floor %v per task", (x.wall / n).Round(time.Microsecond), (y.wall / n).Round(time.Microsecond))
		return row{wall: ratio(wall), cpu: ratio(cpu), note: note}, err
	}
}

// attempt measures what one attempt costs above the floor, in a tree of that many files.
func attempt(s shape, agent, sandbox string) func(*runner) (row, error) {
	return func(b *runner) (row, error) {
		dir, err := b.repository(s)
		if err != nil {
			return row{}, err
		}
		defer os.RemoveAll(dir)
		_, _, x, y, err := b.pairs(
			func() (cost, error) {
				if err := errors.Join(os.RemoveAll(filepath.Join(dir, ".descartes")), s.write(filepath.Join(dir, ".scud", "tasks", "t.json"))); err != nil {
					return cost{}, err
				}
				return b.start(dir, agent, sandbox)
			},
			func() (cost, error) { return b.floor(wide(s.tasks), agent) })
		n := time.Duration(s.tasks)
		over := float64(x.wall-y.wall) / float64(n) / 1e6
		return row{note: fmt.Sprintf("%.1f ms over the floor's %v, the start and the baseline among them", over, (y.wall / n).Round(time.Microsecond))}, err
	}
}

// growth compares what an attempt costs in a long list and in a short one: the first attempts of each are
// taken away, and the start of the program with them. A loop over all of a long list takes minutes.
func growth(long, short int, agent string) func(*runner) (row, error) {
	return func(b *runner) (row, error) {
		const few, many = 50, 250
		var ratios, longs, shorts, rss []float64
		for range b.rounds {
			x, peak, err := b.between(wide(long), few, many, agent)
			if err != nil {
				return row{}, err
			}
			y, _, err := b.between(wide(short), few, many, agent)
			if err != nil {
				return row{}, err
			}
			ratios, longs, shorts, rss = append(ratios, x/y), append(longs, x), append(shorts, y), append(rss, float64(peak))
		}
		note := fmt.Sprintf("%.2f ms, %.2f ms per task; peak memory %.1f MB", median(longs)*1e3, median(shorts)*1e3, median(rss)/1e6)
		return row{wall: ratio(median(ratios)), note: note}, nil
	}
}

// between is the time of one attempt, in seconds, from the few to the many first ones of a list, and the most memory
// of the largest process: a child that starts out of this one counts with what this one had.
func (b *runner) between(s shape, few, many int, agent string) (seconds float64, peak int64, err error) {
	var took [2]time.Duration
	for n, attempts := range []int{few, many} {
		dir, err := b.repository(s)
		if err != nil {
			return 0, 0, err
		}
		c, err := b.start(dir, agent, "off", "--max-total-iterations", strconv.Itoa(attempts))
		os.RemoveAll(dir)
		if err != nil {
			return 0, 0, err
		}
		took[n], peak = c.wall, c.rss
	}
	return (took[1] - took[0]).Seconds() / float64(many-few), peak, nil
}

func waves(s shape) func(*runner) (row, error) {
	return func(b *runner) (row, error) {
		dir, err := b.repository(s)
		if err != nil {
			return row{}, err
		}
		defer os.RemoveAll(dir)
		wall, cpu, x, y, err := b.pairs(
			func() (cost, error) { return b.run(dir, b.binary, "waves", "--scud-tag", "t") },
			func() (cost, error) { return b.run(dir, b.binary, "version") })
		note := fmt.Sprintf("%.1f ms over the start of the program", float64(x.wall-y.wall)/1e6)
		return row{wall: ratio(wall), cpu: ratio(cpu), note: note}, err
	}
}

func startup(b *runner) (row, error) {
	git, err := exec.LookPath("git")
	if err != nil {
		return row{}, err
	}
	wall, cpu, x, y, err := b.pairs(
		func() (cost, error) { return b.often(b.binary, "version") },
		func() (cost, error) { return b.often(git, "--version") })
	note := fmt.Sprintf("%.2f ms, git %.2f ms", float64(x.wall)/1e6, float64(y.wall)/1e6)
	return row{wall: ratio(wall), cpu: ratio(cpu), note: note}, err
}

// often is the mean of many runs of a program too short to measure once.
func (b *runner) often(program string, args ...string) (cost, error) {
	const times = 20
	var sum cost
	for range times {
		c, err := b.run(b.dir, program, args...)
		if err != nil {
			return c, err
		}
		sum.wall, sum.cpu, sum.rss = sum.wall+c.wall, sum.cpu+c.cpu, max(sum.rss, c.rss)
	}
	return cost{sum.wall / times, sum.cpu / times, sum.rss}, nil
}

func size(b *runner) (row, error) {
	fi, err := os.Stat(b.binary)
	if err != nil {
		return row{}, err
	}
	return row{note: fmt.Sprintf("%.1f MB", float64(fi.Size())/1e6)}, nil
}

func ratio(f float64) string { return fmt.Sprintf("%.2f", f) }
