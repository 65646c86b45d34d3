package gitops

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// historyLimit bounds every walk through history: what a run looks for is never far from HEAD.
const historyLimit = 500

// FindWave looks for the commit of a wave that holds these tasks, by the trailers Descartes-Loop, Descartes-Wave
// and Descartes-Task, from HEAD back through its newest few hundred ancestors.
func (r *Repo) FindWave(ctx context.Context, loop string, wave int, tasks []string) (hash string, ok bool, err error) {
	_, at, err := r.refs.head()
	if err != nil || at == "" {
		return "", false, err
	}
	number := strconv.Itoa(wave)
	err = r.walk(ctx, at, historyLimit, func(h string, message []byte) bool {
		t := trailers(string(message))
		if slices.Contains(t["Descartes-Loop"], loop) && slices.Contains(t["Descartes-Wave"], number) && containsAll(t["Descartes-Task"], tasks) {
			hash, ok = h, true
		}
		return !ok
	})
	if err != nil {
		return "", false, fmt.Errorf("look for wave %d: %w", wave, err)
	}
	return hash, ok, nil
}

// trailers reads the last paragraphs of a commit message, as far back as every line has the form "Key: value":
// a hook may have added one of its own.
func trailers(message string) map[string][]string {
	out := map[string][]string{}
	paragraphs := strings.Split(strings.TrimRight(message, "\n \t"), "\n\n")
	for i := len(paragraphs) - 1; i > 0; i-- {
		for line := range strings.Lines(paragraphs[i]) {
			k, v, found := strings.Cut(strings.TrimSpace(line), ": ")
			if !found || strings.Contains(k, " ") {
				return out
			}
			out[k] = append(out[k], v)
		}
	}
	return out
}

func containsAll(have, want []string) bool {
	for _, w := range want {
		if !slices.Contains(have, w) {
			return false
		}
	}
	return true
}

// walk calls visit for a commit and its ancestors, nearest first, until it says false or limit is reached.
// History that is not there (a shallow clone) ends quietly.
func (r *Repo) walk(ctx context.Context, from string, limit int, visit func(hash string, message []byte) bool) error {
	queue, seen := []string{from}, map[string]bool{from: true}
	for n := 0; n < limit && n < len(queue); n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		id, err := parseID(queue[n])
		if err != nil {
			return err
		}
		b, err := r.store.reader.read(id, kindCommit)
		if err != nil {
			if n == 0 {
				return err
			}
			continue
		}
		head, message, _ := bytes.Cut(b, []byte("\n\n"))
		if !visit(queue[n], message) {
			return nil
		}
		for line := range bytes.Lines(head) {
			p, found := strings.CutPrefix(string(bytes.TrimSpace(line)), "parent ")
			if found && !seen[p] {
				seen[p] = true
				queue = append(queue, p)
			}
		}
	}
	return nil
}
