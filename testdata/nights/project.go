package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

var (
	//go:embed agent.sh
	agentScript string
	//go:embed verify.sh
	verifyScript string

	modes    = []string{"slots", "one", "step", "rewind", "no-commit", "branch", "tree", "tags", "clones"}
	flavours = []string{"plain", "plain", "plain", "autocrlf", "filter", "hooks", "hooks", "ignorecase", "packed"}
	deeds    = []string{"line", "line", "end", "end", "rename", "delete", "edit", "mode", "link", "crlf", "binary",
		"case_", "ignore", "folder", "define", "call", "call"}
	misdeeds = []string{"", "", "", "", "", "", "commit", "commit", "amend", "reset", "stash", "clean", "switch",
		"force", "litter", "gc", "rmgit", "stay"}
	fates = []string{"", "", "", "", "", "", "", "", "", "fail 1", "fail 1", "fail 99", "die 1", "sleep 1"}
)

const list, other = ".scud/tasks/t.json", ".scud/tasks/u.json" // other: with tags, a second run's

type task struct {
	ID     int    `json:"id"`
	Title  string `json:"title"`
	Status string `json:"status"`
	Needs  []int  `json:"depends_on"`
	fails  bool
}

// night is a project, a run over its tasks, and what happens to both.
type night struct {
	seed                   uint64
	bin, top, dir          string
	mode, flavour, sandbox string
	parallel               int
	env                    []string
	tasks, others          []*task // others: of a second tag
	dirty                  bool    // the user has uncommitted changes at the start
	user                   *user

	refs, settings string // before the first run
	base           string
	kills, turns   int
	codes          []int
	log            *os.File
	broken         []string
}

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

// draws returns one of a night's independent sources: what one of them is asked for does not depend on how long a
// process took.
func draws(seed, which uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, which)) }

func newNight(seed uint64, mode, top, bin string) *night {
	r := draws(seed, 1)
	n := &night{seed: seed, bin: bin, top: top, dir: filepath.Join(top, "repo"),
		mode: pick(r, append(modes, "slots", "slots", "slots", "slots")), flavour: pick(r, flavours),
		sandbox: pick(r, []string{"off", "off", "auto"}), parallel: 2 + r.IntN(3)}
	if mode != "" {
		n.mode = mode
	}
	if n.mode == "one" || n.mode == "step" && r.IntN(2) == 0 {
		n.parallel = 1
	}
	home := filepath.Join(top, "home")
	n.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "LANG=C.UTF-8", "TERM=dumb", n.token()}
	if n.sandbox == "off" { // else agents cannot write there
		n.env = append(n.env, "LEDGER="+filepath.Join(top, "ledger"))
	}
	n.dirty = r.IntN(5) < 3 && n.mode != "clones"
	for id := range 4 + r.IntN(6) {
		t := &task{ID: id + 1, Title: fmt.Sprintf("Task %d", id+1), Status: "pending", Needs: []int{}}
		for need := range id {
			if r.IntN(2*id) == 0 {
				t.Needs = append(t.Needs, need+1)
			}
		}
		n.tasks = append(n.tasks, t)
	}
	if n.mode == "tags" {
		for id := range 3 {
			n.others = append(n.others, &task{ID: 101 + id, Title: fmt.Sprintf("Task %d", 101+id), Status: "pending", Needs: []int{}})
		}
	}
	n.user = &user{night: n, r: draws(seed, 3), files: map[string]string{}, staged: map[string]string{}}
	n.user.works = n.mode != "rewind" && n.mode != "clones" && r.IntN(5) < 3
	n.user.rough = n.user.works && r.IntN(3) == 0
	return n
}

func (n *night) String() string {
	s := fmt.Sprintf("%s, %d tasks, -j %d, %s, sandbox %s", n.mode, len(n.tasks), n.parallel, n.flavour, n.sandbox)
	if n.user.works {
		s += ", a user works"
	}
	if n.user.rough {
		s += " roughly"
	}
	return s
}

func (n *night) bad(format string, args ...any) {
	n.broken = append(n.broken, fmt.Sprintf(format, args...))
}

// try runs git in the project and returns what it printed, without the space around it.
func (n *night) try(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	// who kills the run does not kill the user's own
	cmd.Dir, cmd.Env = n.dir, slices.DeleteFunc(slices.Clone(n.env), func(v string) bool { return v == n.token() })
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), err
}

func (n *night) git(args ...string) string {
	out, err := n.try(args...)
	if err != nil {
		return ""
	}
	return out
}

func (n *night) write(name, text string) {
	path := filepath.Join(n.dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		fmt.Fprintf(n.log, "[write %s: %v]\n", name, err)
	}
}

// make makes the project, with tasks, agents, and what the user has of his own.
func (n *night) make() (err error) {
	r := draws(n.seed, 4)
	if err := os.MkdirAll(filepath.Join(n.top, "home"), 0o755); err != nil {
		return err
	}
	if n.log, err = os.Create(filepath.Join(n.top, "log")); err != nil {
		return err
	}
	settings := "[user]\n\tname = t\n\temail = t@x\n[advice]\n\tdetachedHead = false\n[gc]\n\tauto = 0\n"
	if err := os.WriteFile(filepath.Join(n.top, "home", ".gitconfig"), []byte(settings), 0o644); err != nil {
		return err
	}
	if err := os.Mkdir(n.dir, 0o755); err != nil {
		return err
	}
	n.git("init", "-q", "-b", "main")
	text, err := json.MarshalIndent(map[string]any{"tag": "t", "tasks": n.tasks}, "", pick(r, []string{"", " ", "  "}))
	if err != nil {
		return err
	}
	n.write(list, string(text))
	if len(n.others) > 0 {
		text, err := json.Marshal(map[string]any{"tag": "u", "tasks": n.others})
		if err != nil {
			return err
		}
		n.write(other, string(text))
		n.tasks = append(n.tasks, n.others...)
	}
	n.write("tools/agent.sh", agentScript)
	n.write("tools/verify.sh", verifyScript)
	for _, t := range n.tasks {
		n.write(fmt.Sprintf("tools/tasks/%d", t.ID), n.part(r, t))
	}
	for k := 1; k <= 3; k++ {
		var sections strings.Builder
		for s := 1; s <= 20; s++ {
			fmt.Fprintf(&sections, "section %d\n", s)
		}
		n.write(fmt.Sprintf("shared/%d.txt", k), fmt.Sprintf("FILE %d\n%s", k, &sections))
		n.write(fmt.Sprintf("misc/%d.txt", k), strings.Repeat(fmt.Sprintf("misc %d\n", k), 5))
		n.write(fmt.Sprintf("case/%d.txt", k), fmt.Sprintf("case %d\n", k))
		n.write(fmt.Sprintf("dir%d/a", k), "a\n")
	}
	n.write("misc/crlf.txt", "crlf\r\n")
	n.write("fn.txt", "fn0\n")
	n.write("calls/base", "fn0\n")
	n.write(".gitignore", "*.ign\n/ignored/\n")
	for k := 1; k <= 6; k++ {
		n.user.save(fmt.Sprintf("user/%d.txt", k), fmt.Sprintf("user %d\n", k))
	}
	switch n.flavour {
	case "autocrlf":
		n.git("config", "core.autocrlf", "input")
	case "ignorecase":
		n.git("config", "core.ignorecase", "true")
	case "filter":
		n.git("config", "filter.up.clean", "tr a-z A-Z")
		n.git("config", "filter.up.smudge", "tr A-Z a-z")
		n.write(".gitattributes", "misc/*.txt filter=up\n")
	case "hooks":
		for _, h := range []string{"pre-commit", "commit-msg", "post-commit", "reference-transaction",
			"post-checkout"} {
			n.write(".git/hooks/"+h, fmt.Sprintf("#!/bin/sh\nsleep 0.%02d\n", r.IntN(15)))
			if err := os.Chmod(filepath.Join(n.dir, ".git/hooks", h), 0o755); err != nil {
				return err
			}
		}
	}
	for _, args := range [][]string{{"add", "-A"}, {"commit", "-qm", "base"}, {"branch", "side"}, {"tag", "v1"},
		{"notes", "add", "-m", "mine"}} {
		if _, err := n.try(args...); err != nil {
			return err
		}
	}
	switch n.mode {
	case "tree": // a linked working tree is the project
		tree := filepath.Join(n.top, "tree")
		n.git("checkout", "-q", "--detach")
		n.git("worktree", "add", "-q", tree, "main")
		n.dir = tree
	case "clones": // of one repository, whose branch they push to
		n.git("clone", "-q", "--bare", ".", n.remote())
		n.clone()
	}
	n.user.begin()
	if n.flavour == "packed" {
		n.git("gc", "-q")
	}
	n.base, n.refs, n.settings = n.git("rev-parse", "HEAD"), n.git("show-ref"), n.git("config", "--local", "--list")
	return nil
}

func (n *night) remote() string { return filepath.Join(n.top, "remote.git") }

// clone makes the project anew, as a nightly job has it.
func (n *night) clone() {
	n.killAll(n.own(), nil)
	at := n.dir
	n.dir = n.top
	for try := 0; os.RemoveAll(at) != nil && try < 50; try++ { // who was killed may have written last
		time.Sleep(20 * time.Millisecond)
	}
	n.git("clone", "-q", n.remote(), at)
	n.dir = at
}

// part is what a task's agent does, in the words of agent.sh.
func (n *night) part(r *rand.Rand, t *task) string {
	wrong := pick(r, misdeeds)
	deed, fate, line := pick(r, deeds), pick(r, fates), ""
	t.fails = fate == "fail 99"
	what := fmt.Sprintf("%s %d", deed, 1+r.IntN(3))
	switch deed {
	case "line":
		what, line = fmt.Sprintf("line %d %d", 1+r.IntN(3), 1+r.IntN(8)), " line"
	case "end":
		what, line = fmt.Sprintf("line %d end", 1+r.IntN(3)), " line"
	}
	return fmt.Sprintf("sleep 0.%02d\n%s\nsleep 0.%02d\n%s\nwork%s\n%s\n", r.IntN(35), early(wrong), r.IntN(20), what,
		line, late(wrong)+fate)
}

// late are the misdeeds that come when the work is there; the others would destroy it.
func late(wrong string) string {
	switch wrong {
	case "commit", "amend", "force", "litter", "gc", "rmgit", "stay":
		return wrong + "\n"
	}
	return ""
}

func early(wrong string) string {
	if late(wrong) != "" {
		return ":"
	}
	return wrong + " :"
}
