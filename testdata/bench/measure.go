package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"descartes/loop/journal"
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
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(b.dir, "state"))
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
func (b *runner) tag(s shape, agent, sandbox string, flags ...string) (cost, error) {
	dir, err := b.repository(s)
	if err != nil {
		return cost{}, err
	}
	defer os.RemoveAll(dir)
	return b.start(dir, agent, sandbox, flags...)
}

// start runs the loop over the list in a repository.
func (b *runner) start(dir, agent, sandbox string, flags ...string) (cost, error) {
	args := []string{"loop", "start", "--scud-tag", "t", "--no-commit", "--verify", "true", "--sandbox", sandbox,
		"--command", "sh -c '" + agent + "'"}
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

// attempt measures what one attempt costs above the floor in a tree of that many files: the difference of a run with
// many and one with few.
func attempt(files int, sandbox string) func(*runner) (row, error) {
	return func(b *runner) (row, error) {
		const few, many = 2, 22
		s := wide(many).among(files)
		dir, err := b.repository(s)
		if err != nil {
			return row{}, err
		}
		defer os.RemoveAll(dir)
		run := func(tasks int) (cost, error) {
			if err := b.fresh(dir, s); err != nil {
				return cost{}, err
			}
			return b.start(dir, noop, sandbox, "--max-total-iterations", strconv.Itoa(tasks))
		}
		if _, err := run(few); err != nil { // it makes the slot
			return row{}, err
		}
		var ours []float64
		for range b.rounds {
			x, err := run(many)
			if err != nil {
				return row{}, err
			}
			y, err := run(few)
			if err != nil {
				return row{}, err
			}
			z, err := b.floor(wide(many), noop)
			if err != nil {
				return row{}, err
			}
			ours = append(ours, float64(x.wall-y.wall)/(many-few)/1e6-float64(z.wall)/many/1e6)
		}
		return row{wall: fmt.Sprintf("%.0f ms", median(ours)), note: "over the floor"}, nil
	}
}

// noop does as little as an agent can: what changes nothing is not done.
const noop = "echo x >work$DESCARTES_TASK_ID; echo TASK_COMPLETE"

// fresh forgets the runs in a repository, not its slots.
func (b *runner) fresh(dir string, s shape) error {
	cmd := exec.Command("sh", "-c",
		"git for-each-ref --format='delete %(refname)' refs/descartes refs/heads/descartes | git update-ref --stdin")
	cmd.Dir = dir
	return errors.Join(cmd.Run(), os.RemoveAll(filepath.Join(dir, ".descartes")),
		s.write(filepath.Join(dir, ".scud", "tasks", "t.json")))
}

// firstSlot is what a run takes longer where its slot is still to be made.
func firstSlot(files int) func(*runner) (row, error) {
	return func(b *runner) (row, error) {
		s := wide(1).among(files)
		var took []float64
		for range b.rounds {
			dir, err := b.repository(s)
			if err != nil {
				return row{}, err
			}
			x, err := b.start(dir, noop, "off")
			if err == nil {
				err = b.fresh(dir, s)
			}
			var y cost
			if err == nil {
				y, err = b.start(dir, noop, "off")
			}
			if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
				return row{}, err
			}
			took = append(took, (x.wall - y.wall).Seconds())
		}
		return row{wall: fmt.Sprintf("%.1f s", median(took)), note: "over a run that has it"}, nil
	}
}

// judged is how long attempts take with old tests run on their new code, as against checks alone: each check takes a
// second, and every third attempt changes a test that was there.
func judged(tasks int) func(*runner) (row, error) {
	const agent = "echo $DESCARTES_TASK_ID >work$DESCARTES_TASK_ID; test $((DESCARTES_TASK_ID % 3)) != 0 || " +
		"echo true >>tests/$DESCARTES_TASK_ID.test.sh; echo TASK_COMPLETE"
	return func(b *runner) (row, error) {
		run := func(guard string) (cost, error) {
			s := wide(tasks)
			s.tests = true
			dir, err := b.repository(s)
			if err != nil {
				return cost{}, err
			}
			defer os.RemoveAll(dir)
			script := filepath.Join(b.dir, "agent.sh")
			if err := os.WriteFile(script, []byte(agent+"\n"), 0o644); err != nil {
				return cost{}, err
			}
			return b.run(dir, b.binary, "loop", "start", "--scud-tag", "t", "--sandbox", "off", "--no-commit",
				"--command", "sh "+script, "--verify", "sleep 1; for t in tests/*.test.sh; do sh $t || exit 1; done",
				"--set", "guard="+guard)
		}
		wall, _, x, y, err := b.pairs(func() (cost, error) { return run("warn") }, func() (cost, error) { return run("off") })
		return row{wall: ratio(wall), note: fmt.Sprintf("%.1f s, %.1f s", x.wall.Seconds(), y.wall.Seconds())}, err
	}
}

// checked is how often the checks run for each attempt, with so many agents at a time: each task changes a file of its
// own, and waves are committed.
func checked(tasks int, lanes ...int) func(*runner) (row, error) {
	const agent = "sleep 0.2; " + noop
	return func(b *runner) (row, error) {
		return b.counted(tasks, lanes, float64(tasks), func(log string) (string, string) { return agent, "echo >>" + log })
	}
}

// agents is how many run until as many tasks as there are lanes at most have each added a line to one file.
// Who meets a conflict keeps both sides.
func agents(tasks int, lanes ...int) func(*runner) (row, error) {
	return func(b *runner) (row, error) {
		return b.counted(tasks, lanes, 1, func(log string) (string, string) {
			return "echo >>" + log + `; sleep 0.5; touch all; grep -v "^[<=>|]" all >merged; ` +
				"echo $DESCARTES_TASK_ID >>merged; sort -u merged >all; rm merged; echo TASK_COMPLETE", "true"
		})
	}
}

// counted is how many lines the commands of runs leave in a log, by one, with so many agents at a time; both returns
// the agent and the check.
func (b *runner) counted(tasks int, lanes []int, by float64, both func(log string) (agent, verify string)) (r row, err error) {
	var counts, notes []string
	for _, n := range lanes {
		dir, err := b.repository(wide(tasks))
		if err != nil {
			return r, err
		}
		defer os.RemoveAll(dir)
		b.made++
		log := filepath.Join(b.dir, fmt.Sprintf("lines-%d", b.made))
		agent, verify := both(log)
		c, err := b.run(dir, b.binary, "loop", "start", "--scud-tag", "t", "--sandbox", "off", "--baseline", "off", "-j",
			strconv.Itoa(n), "--command", "sh -c '"+agent+"'", "--verify", verify)
		if err != nil {
			return r, err
		}
		text, err := os.ReadFile(log)
		if err != nil {
			return r, err
		}
		runs := strings.Count(string(text), "\n")
		counts = append(counts, strconv.FormatFloat(float64(runs)/by, 'g', 3, 64))
		notes = append(notes, fmt.Sprintf("%d runs for %d tasks in %.1f s", runs, tasks, c.wall.Seconds()))
	}
	return row{wall: strings.Join(counts, ", "), note: strings.Join(notes, "; ")}, nil
}

// folded is how long the journal of a night takes to be read and folded.
func folded(tasks int) func(*runner) (row, error) {
	return func(b *runner) (row, error) {
		dir, err := b.repository(wide(tasks))
		if err != nil {
			return row{}, err
		}
		defer os.RemoveAll(dir)
		if _, err := b.start(dir, noop, "off", "-j", "8", "--max-total-iterations", strconv.Itoa(2*tasks)); err != nil {
			return row{}, err
		}
		journals, err := filepath.Glob(filepath.Join(dir, ".descartes", "runs", "*", "events.ndjson"))
		if err != nil || len(journals) != 1 {
			return row{}, errors.Join(err, fmt.Errorf("%d journals", len(journals)))
		}
		events, err := journal.ReadEvents(journals[0])
		if err != nil {
			return row{}, err
		}
		var took []float64
		for range max(b.rounds, 5) {
			begun := time.Now()
			journal.Fold(events)
			took = append(took, float64(time.Since(begun))/1e6)
		}
		return row{wall: fmt.Sprintf("%.1f ms", median(took)), note: fmt.Sprintf("%d events", len(events))}, nil
	}
}

// busy is the part of the time in which slots have an attempt, from its start to its verdict, by the journal.
func busy(tasks, slots int) func(*runner) (row, error) {
	return func(b *runner) (row, error) {
		dir, err := b.repository(wide(tasks))
		if err != nil {
			return row{}, err
		}
		defer os.RemoveAll(dir)
		c, err := b.start(dir, "sleep 1; "+noop, "off", "-j", strconv.Itoa(slots))
		if err != nil {
			return row{}, err
		}
		journals, err := filepath.Glob(filepath.Join(dir, ".descartes", "runs", "*", "events.ndjson"))
		if err != nil || len(journals) != 1 {
			return row{}, errors.Join(err, fmt.Errorf("%d journals", len(journals)))
		}
		events, err := journal.Load(journals[0])
		if err != nil {
			return row{}, err
		}
		var sum time.Duration
		for _, a := range events.Attempts {
			sum += a.Ended.Sub(a.Started)
		}
		part := func(d time.Duration) float64 { return 100 * d.Seconds() / float64(slots) / c.wall.Seconds() }
		return row{wall: fmt.Sprintf("%.0f %%", part(sum)), note: fmt.Sprintf("%.1f s; agents %.0f %%",
			c.wall.Seconds(), part(time.Duration(tasks)*time.Second))}, nil
	}
}

// parallel is how many times as fast several slots are as one.
func parallel(tasks, slots int) func(*runner) (row, error) {
	return func(b *runner) (row, error) {
		one, err := b.tag(wide(tasks), "sleep 1; "+noop, "off")
		if err != nil {
			return row{}, err
		}
		all, err := b.tag(wide(tasks), "sleep 1; "+noop, "off", "-j", strconv.Itoa(slots))
		return row{wall: ratio(float64(one.wall) / float64(all.wall)),
			note: fmt.Sprintf("%.1f s, %.1f s", one.wall.Seconds(), all.wall.Seconds())}, err
	}
}

// loops is the list of many that have ended.
func loops(n int) func(*runner) (row, error) {
	return func(b *runner) (row, error) {
		dir, err := b.repository(wide(1))
		if err != nil {
			return row{}, err
		}
		defer os.RemoveAll(dir)
		for i := range n {
			if err := b.fresh(dir, wide(1)); i == 0 && err != nil {
				return row{}, err
			}
			if _, err := b.run(dir, b.binary, "loop", "start", "--prompt", "x", "--name", fmt.Sprint("l", i),
				"--max-iterations", "1", "--ok-exit", "6", "--command", "true", "--sandbox", "off"); err != nil {
				return row{}, err
			}
		}
		wall, cpu, x, _, err := b.pairs(
			func() (cost, error) { return b.run(dir, b.binary, "loop", "list") },
			func() (cost, error) { return b.run(dir, b.binary, "version") })
		return row{wall: fmt.Sprintf("%.0f ms", float64(x.wall)/1e6), cpu: ratio(cpu),
			note: ratio(wall) + " times the start of the program"}, err
	}
}

// growth compares what an attempt costs in a long list and in a short one: the first attempts of each are
// taken away, and the start of the program with them. A loop over all of a long list takes minutes.
func growth(long, short int, agent string) func(*runner) (row, error) {
	return func(b *runner) (row, error) {
		const few, many = 20, 80
		var ratios, longs, shorts []float64
		for range b.rounds {
			x, _, err := b.between(wide(long), few, many, agent)
			if err != nil {
				return row{}, err
			}
			y, _, err := b.between(wide(short), few, many, agent)
			if err != nil {
				return row{}, err
			}
			ratios, longs, shorts = append(ratios, x/y), append(longs, x), append(shorts, y)
		}
		note := fmt.Sprintf("%.1f ms, %.1f ms per task", median(longs)*1e3, median(shorts)*1e3)
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

// memory is the most of the largest process.
func memory(tasks int, agent string) func(*runner) (row, error) {
	return func(b *runner) (row, error) {
		_, peak, err := b.between(wide(tasks), 1, 2, agent)
		return row{wall: fmt.Sprintf("%.0f MB", float64(peak)/1e6)}, err
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
		note := ratio(wall) + " times the start of the program, which is left out"
		return row{wall: fmt.Sprintf("%.0f ms", float64(x.wall-y.wall)/1e6), cpu: ratio(cpu), note: note}, err
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
	return row{wall: fmt.Sprintf("%.1f MB", float64(fi.Size())/1e6)}, nil
}

func ratio(f float64) string { return fmt.Sprintf("%.2f", f) }
