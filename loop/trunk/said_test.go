package trunk

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/loop/store"
)

// clone is a clone of a bare repository, with what people and runs said in it.
type clone struct {
	t    *testing.T
	dir  string
	repo *gitops.Repo
	home store.Home
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	c := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b.c"}, args...)...)
	c.Dir, c.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// origin is a bare repository with one commit.
func origin(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	git(t, dir, "init", "-q", "-b", "main", "seed")
	git(t, dir+"/seed", "commit", "-q", "--allow-empty", "-m", "start")
	git(t, dir, "clone", "-q", "--bare", "seed", "origin.git")
	return dir + "/origin.git"
}

func newClone(t *testing.T, from string) *clone {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	git(t, dir, "clone", "-q", from, ".")
	repo, err := gitops.Open(t.Context(), gitops.Options{Dir: dir, Env: []string{"HOME=" + dir,
		"PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := repo.Close(); err != nil {
			t.Error(err)
		}
	})
	return &clone{t, dir, repo, store.NewHome(dir)}
}

func (c *clone) answer(task, text string, at time.Time) {
	c.t.Helper()
	if err := c.home.Answer(c.t.Context(), atomicfile.OS(), "x", store.Answer{Task: task, Text: text, At: at}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *clone) push() {
	c.t.Helper()
	says := Sayings{Repo: c.repo, Home: c.home, FS: atomicfile.OS(), Tag: "x", List: "x", Key: "x", Now: time.Now}
	if err := says.Push(c.t.Context(), "origin"); err != nil {
		c.t.Fatal(err)
	}
}

// says is what the clone has: answers, and questions.
func (c *clone) says() string {
	c.t.Helper()
	said, err := c.home.Said("x")
	if err != nil {
		c.t.Fatal(err)
	}
	var words []string
	for _, a := range said.Answers {
		words = append(words, a.Task+"="+a.Text)
	}
	for _, a := range said.Asked {
		words = append(words, a.Task+"?"+a.Question)
	}
	return strings.Join(words, " ")
}

// What is asked and answered in one clone reaches each other one by way of the remote, whoever comes first, and a ref
// that others moved is never forced.
func TestSaidReachesOtherClones(t *testing.T) {
	t.Parallel()
	from := origin(t)
	night, one, two := newClone(t, from), newClone(t, from), newClone(t, from)
	begin := time.Now().Add(-time.Hour)
	if err := night.home.EditSaid(t.Context(), atomicfile.OS(), "x", func(s *store.Said) bool {
		s.Asked = []store.Asked{{Loop: "night", Task: "2", Reason: "it asks: Tabs?", Question: "Tabs?", At: begin}}
		s.AskedAt = begin
		return true
	}); err != nil {
		t.Fatal(err)
	}
	night.push()
	one.answer("2", "Tabs", begin.Add(time.Minute))
	one.push()
	two.answer("3", "no", begin.Add(2*time.Minute))
	two.push() // the remote has moved on since
	one.push()
	night.push()
	for name, c := range map[string]*clone{"night": night, "one": one, "two": two} {
		if got := c.says(); got != "2=Tabs 3=no 2?Tabs?" {
			t.Errorf("%s has %q", name, got)
		}
	}
	before := git(t, from, "rev-parse", store.SaidRef("x"))
	two.push()
	if after := git(t, from, "rev-parse", store.SaidRef("x")); after != before {
		t.Error("a push of nothing new moved the ref")
	}
}

// Nothing said makes no ref and no file.
func TestSaidOfNobody(t *testing.T) {
	t.Parallel()
	c := newClone(t, origin(t))
	c.push()
	if refs := git(t, c.dir, "for-each-ref", "refs/descartes/"); refs != "" {
		t.Errorf("refs: %s", refs)
	}
	if _, err := os.Stat(c.home.AnswerFile("x")); !os.IsNotExist(err) {
		t.Errorf("the file is there: %v", err)
	}
}
