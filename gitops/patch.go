package gitops

import (
	"context"
	"fmt"
	"strings"
)

// Patch is the difference of two trees as a unified diff, for people and agents to read; at most limit
// bytes of it, cut at a line's end with a word that it is. Without a git program, and where the
// difference is enormous, it is the DiffStat.
func (r *Repo) Patch(ctx context.Context, from, to Tree, limit int) (string, error) {
	if from == to {
		return "", nil
	}
	b, err := r.cli.run(ctx, gitCall{args: []string{"diff-tree", "-r", "-p", "-M", "--no-color", "--no-ext-diff", "--no-textconv",
		string(from), string(to)}})
	if err != nil {
		if ctx.Err() != nil {
			return "", err
		}
		return r.DiffStat(ctx, from, to)
	}
	text := strings.ToValidUTF8(string(b), "\uFFFD")
	whole := len(text)
	if whole <= limit {
		return text, nil
	}
	text = strings.ToValidUTF8(text[:limit], "")
	text = text[:strings.LastIndexByte(text, '\n')+1]
	return text + fmt.Sprintf("[%d bytes of the diff left out]\n", whole-len(text)), nil
}
