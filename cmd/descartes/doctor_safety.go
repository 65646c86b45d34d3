package main

import (
	"context"

	"descartes/internal/proc"
	"descartes/loop"
)

// safety tells what agents would be held in by, and what they would be given of our environment.
func (d *doctor) safety(ctx context.Context, cfg loop.Config) {
	b, _, err := resolveBackend(cfg)
	if err != nil {
		return // told with the agent
	}
	held, err := sandboxed(ctx, d.root, d.root, cfg, b)
	switch {
	case err != nil:
		d.bad("sandbox", err.Error(), hintOf(err))
	case held.lacking != nil:
		d.lacking("sandbox", held.note, held.lacking.Fix)
	default:
		d.good("sandbox", held.note)
	}
	d.good("environment", environmentText(cfg, b))
	if cfg.MaxMemory > 0 || cfg.MaxProcs > 0 {
		d.good("ceilings", "kept by "+proc.Ceilings())
	}
	if why := loop.Room(freeDisk, d.root, cfg.MinFreeDisk); why != "" && cfg.MinFreeDisk > 0 {
		d.bad("disk", why, "free some, or start with --min-free-disk 0")
	}
}
