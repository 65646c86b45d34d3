package scheduler

import "slices"

// cutTrunk is what follows when commits of ours are gone from the branch, and a person resumes: he has rewound it. The
// trunk ends before the first of them, and what was made on more than that is made again, but for what the branch has.
func (r *Run) cutTrunk() CutTrunk {
	tip, lost := len(r.Trunk.Entries), set(r.Trunk.Lost)
	for i, x := range r.Trunk.Entries {
		if lost[x.Task] {
			tip = i
			break
		}
	}
	c := CutTrunk{Tip: tip}
	for _, t := range r.Tasks {
		if (t.Stage == Made || t.Stage == Reviewing) && t.From > tip {
			c.Open = append(c.Open, t.ID)
		}
	}
	return c
}

// wasCut: the trunk was cut, and a kill came before that was written down. What was made on more than is left is made
// again, as a Rewound would have said.
func (r *Run) wasCut(kept int) {
	for _, t := range r.Tasks {
		t.On = Basis{}
		t.Kept = t.Kept && t.From <= kept
		if t.From > kept && (t.Stage == Made || t.Stage == Checking || t.Stage == Reviewing) && t.Lane < 0 {
			t.reopen()
			r.move(t, Pending, -1)
		}
	}
}

// rewound: a person took work out of the trunk. It ends before that, and goes on with what the branch has besides. Tasks
// of ours that are not in it were made for a trunk that is no more.
func (r *Run) rewound(e Rewound) {
	k := &r.Trunk
	in := map[string]bool{}
	for _, x := range e.Chain {
		in[x.Task] = true
	}
	kept := k.replace(e.Chain, e.In)
	*k = Trunk{Chain: k.Chain, Branch: slices.Clone(e.Branch), Aside: k.Aside}
	k.Taken = r.takenBy(k.Entries)
	open := set(e.Open)
	for _, t := range r.Tasks {
		t.On = Basis{}
		if in[t.ID] {
			continue
		}
		t.Kept = t.Kept && t.From <= kept // what stands on more would bring it back
		t.Gone = t.Gone || t.isOurs()
		if t.isIn() || open[t.ID] && t.Stage != Aside && !t.ByHand {
			if t.reopen(); t.Stage == Pending {
				r.applyWord(t)
			} else {
				r.move(t, Pending, -1)
			}
		} else {
			r.applyWord(t)
		}
	}
	r.Waves.Red, r.Waves.Committed = nil, e.Wave
	r.renumber = true
}
