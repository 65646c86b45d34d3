package gitops

import (
	"context"
	"maps"
)

// Head is where HEAD and the branch stood.
func (g Ground) Head() Head { return g.at }

// GroundAt is the ground for an attempt whose run died: HEAD and the branch as they are known to have stood,
// everything else as it stands now.
func (r *Repo) GroundAt(ctx context.Context, h Head) (Ground, error) {
	g, err := r.Ground(ctx)
	if err != nil || g.at == h {
		return g, err
	}
	if g.at.Branch != h.Branch || h.Branch == "" {
		text := h.Hash + "\n"
		if h.Branch != "" {
			text = "ref: " + h.Branch + "\n"
		}
		g.head.kind, g.head.data, g.head.stamp = 0, []byte(text), fileStamp{}
	}
	if h.Branch != "" {
		g.loose = maps.Clone(g.loose)
		g.loose[h.Branch] = h.Hash
	}
	g.at = h
	return g, nil
}
