package gitops

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"descartes/internal/oneline"
)

// Link is a commit to be added to a chain of commits.
type Link struct {
	Tree    Tree
	Second  string // its second parent; "" for none
	Message string
	When    time.Time
}

// Link stores a commit on top of another. No ref names it yet.
func (r *Repo) Link(ctx context.Context, on string, l Link) (string, error) {
	id, err := r.link(ctx, l, on, l.Second)
	if err != nil {
		return "", fmt.Errorf("store a commit of the chain: %w", err)
	}
	return id, nil
}

// link stores a commit with the parents that are not "", each once.
func (r *Repo) link(ctx context.Context, l Link, parents ...string) (id string, err error) {
	if l.Tree == r.EmptyTree() { // the only tree that can be named without having been written
		if _, err = r.put(ctx, "tree", nil); err != nil {
			return "", err
		}
	}
	var of []string
	for _, p := range parents {
		if p != "" && !slices.Contains(of, p) {
			of = append(of, p)
		}
	}
	if _, err := r.objects.read(string(l.Tree), 0); err != nil {
		return "", err
	}
	who := r.keeper()
	return r.putCommit(ctx, who, who, l.Tree, of, l.Message, l.When)
}

// Extend stores links one on the other, and moves a ref from a commit to the last of them; from is "" to make the ref,
// and then the first has one parent at most. Another process that moved the ref makes it fail. All is on disk when it
// returns, and it waits while git gc runs.
func (r *Repo) Extend(ctx context.Context, ref, from string, links ...Link) (tip string, err error) {
	r.AwaitGC(ctx)
	subject := ""
	tip, err = r.named(ctx, func() (string, error) {
		on := from
		for _, l := range links {
			id, err := r.link(ctx, l, on, l.Second)
			if err != nil {
				return "", err
			}
			on = id
			subject, _, _ = strings.Cut(l.Message, "\n")
		}
		return on, nil
	}, func(hash string) error { return r.MoveRef(ctx, ref, from, hash, "descartes: "+subject) })
	if err != nil {
		return "", fmt.Errorf("extend %s: %w", ref, err)
	}
	return tip, nil
}

// named stores a commit and names it; again if a git gc deleted it in between, or afterwards, for it had looked for refs
// before.
func (r *Repo) named(ctx context.Context, put func() (string, error), name func(hash string) error) (string, error) {
	done := false
	for try := 1; ; try++ {
		commit, err := put() // the same one each time
		if err == nil && !done {
			err = name(commit)
		}
		done = err == nil
		r.AwaitGC(ctx)
		if _, gone := r.objects.read(commit, 0); !errors.Is(gone, ErrGone) || try == keptAgain || ctx.Err() != nil {
			return commit, err
		}
	}
}

// ChainLink is a commit as it is read.
type ChainLink struct {
	Hash     string
	Tree     Tree
	Parents  []string
	Subject  string
	Message  string
	Trailers map[string][]string
	When     time.Time // of the committer
}

// read reads its message.
func (c ChainLink) read() ChainLink {
	c.Subject, _, _ = strings.Cut(c.Message, "\n")
	c.Trailers = trailers(c.Message)
	return c
}

// Parent is its first parent, "" for none.
func (c *ChainLink) Parent() string { return first(c.Parents) }

// Wave says, by its trailers, which loop made it for a wave; "" where none did.
func (c *ChainLink) Wave() string {
	if len(c.Trailers[taskKey]) == 0 || len(c.Trailers["Descartes-Wave"]) == 0 {
		return ""
	}
	return first(c.Trailers["Descartes-Loop"])
}

const (
	taskKey = "Descartes-Task"
	listKey = "Descartes-List"

	// ListTrailer begins the line that Place is.
	ListTrailer = listKey + ": "
)

// Named is a task that a commit names, or without a task a list of this repository.
type Named struct {
	Tag  string // "" in commits of earlier versions: it is that of their loop
	List string // the list's path from the top, "" where the tag alone finds it there
	Task string
}

// Key tells its list from all others of the repository: two folders may each have a list of one tag. No tag has a
// colon.
func (n Named) Key() string {
	if n.List == "" {
		return oneline.Text(n.Tag)
	}
	return oneline.Text(n.Tag) + ":/" + oneline.Text(n.List)
}

// Place is the line of a commit's message that says where its list is, "" where the tag says it.
func (n Named) Place() string {
	if n.List == "" {
		return ""
	}
	return ListTrailer + oneline.Text(n.List) + "\n"
}

// idParts keep a slash in an id apart from the one before it.
var idParts = strings.NewReplacer("%", "%25", "/", "%2F")

// Trailer is the line of a commit's message that names it.
func (n Named) Trailer() string {
	return taskKey + ": " + oneline.Text(n.Tag) + "/" + idParts.Replace(oneline.Text(n.Task))
}

// Tasks are those that its trailers name.
func (c *ChainLink) Tasks() (list []Named) {
	for _, value := range c.Trailers[taskKey] {
		n := Named{List: first(c.Trailers[listKey]), Task: value}
		if at := strings.LastIndexByte(value, '/'); at >= 0 {
			n.Tag, n.Task = value[:at], value[at+1:]
			if id, err := url.PathUnescape(n.Task); err == nil {
				n.Task = id
			}
		}
		list = append(list, n)
	}
	return list
}

// TasksOf are the tasks of a tag that it names, where a loop over that tag made it.
func (c *ChainLink) TasksOf(tag string) (ids []string) {
	for _, n := range c.Tasks() {
		if n.Tag == "" || n.Tag == oneline.Text(tag) {
			ids = append(ids, n.Task)
		}
	}
	return ids
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// ReadCommit reads a commit.
func (r *Repo) ReadCommit(hash string) (ChainLink, error) { return r.objects.commit(hash) }

// History is a commit and its first parents, the newest first, up to last, which is among them. Where it is not found
// within limit commits ok is false.
func (r *Repo) History(ctx context.Context, from, last string, limit int) (list []ChainLink, ok bool, err error) {
	for at := from; at != "" && len(list) < limit; at = list[len(list)-1].Parent() {
		c, err := r.objects.commit(at)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, false, fmt.Errorf("read the history of %s: %w", shortHash(from), err)
		}
		if list = append(list, c); at == last {
			return list, true, nil
		}
	}
	return list, false, nil
}

// Chain reads a chain of commits, first parents only, nearest first, up to a commit and for as long as they have a
// trailer. rest is the first one left out, "" for none.
func (r *Repo) Chain(ctx context.Context, tip, until, trailer string) (links []ChainLink, rest string, err error) {
	for rest = tip; rest != "" && rest != until; {
		c, err := r.objects.commit(rest)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, "", fmt.Errorf("read the chain of commits up to %s: %w", shortHash(tip), err)
		}
		if len(c.Trailers[trailer]) == 0 {
			return links, rest, nil
		}
		links, rest = append(links, c), c.Parent()
	}
	return links, rest, nil
}

// News are the commits that lead to a commit and not to another, "" for all, oldest first; with a key those that have
// such a trailer, and with a value that value whole.
func (r *Repo) News(ctx context.Context, than, to, key, value string) (list []ChainLink, err error) {
	args := []string{"rev-list", "--reverse", "--topo-order"}
	if key != "" {
		args = append(args, "--fixed-strings", "--grep="+key) // what its text may have is read as trailers below
	}
	args = append(args, to)
	if than != "" {
		args = append(args, "^"+than)
	}
	b, err := r.cli.run(ctx, gitCall{args: args})
	if err != nil {
		return nil, fmt.Errorf("read what was committed up to %s: %w", shortHash(to), err)
	}
	for _, hash := range strings.Fields(string(b)) {
		c, err := r.objects.commit(hash)
		if err != nil {
			return nil, err
		}
		if has := c.Trailers[key]; key == "" || len(has) > 0 && (value == "" || slices.Contains(has, value)) {
			list = append(list, c)
		}
	}
	return list, nil
}
