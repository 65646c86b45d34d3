package main

import (
	"fmt"
	"os"
	"os/exec"
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

// run measures a program that has to succeed. Its output is thrown away.
func (b *runner) run(dir, program string, args ...string) (cost, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	start := time.Now()
	err := cmd.Run()
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
func (b *runner) tag(s shape, agent string) (cost, error) {
	dir, err := b.repository(s)
	if err != nil {
		return cost{}, err
	}
	defer os.RemoveAll(dir)
	return b.run(dir, b.binary, "loop", "start", "--scud-tag", "t", "--no-commit", "--verify", "true", "--sandbox", "off",
		"--command", "sh -c '"+agent+"'")
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

func overFloor(s shape, agent string) func(*runner) (row, error) {
	return func(b *runner) (row, error) {
		wall, cpu, x, y, err := b.pairs(
			func() (cost, error) { return b.tag(s, agent) },
			func() (cost, error) { return b.floor(s, agent) })
		n := time.Duration(s.tasks)
		note := fmt.Sprintf("%v, floor %v per task", (x.wall / n).Round(time.Microsecond), (y.wall / n).Round(time.Microsecond))
		return row{wall: ratio(wall), cpu: ratio(cpu), note: note}, err
	}
}

func growth(agent string) func(*runner) (row, error) {
	return func(b *runner) (row, error) {
		wall, cpu, x, y, err := b.pairs(
			func() (cost, error) { return b.tag(wide(10_000), agent) },
			func() (cost, error) { return b.tag(wide(1000), agent) })
		note := fmt.Sprintf("%v, %v per task", (x.wall / 10_000).Round(time.Microsecond), (y.wall / 1000).Round(time.Microsecond))
		return row{wall: ratio(wall / 10), cpu: ratio(cpu / 10), note: note}, err
	}
}

// peak is that of the largest process of the run: a child that starts out of this one counts with what
// this one had, so it is an upper bound.
func peak(agent string) func(*runner) (row, error) {
	return func(b *runner) (row, error) {
		c, err := b.tag(wide(10_000), agent)
		return row{note: fmt.Sprintf("%.1f MB", float64(c.rss)/1e6)}, err
	}
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
	const times = 50
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
