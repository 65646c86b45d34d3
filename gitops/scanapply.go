package gitops

// apply brings the worktree to what the scan found.
func (s *scanner) apply(works []*work) {
	touched := map[*folder]bool{}
	for _, w := range s.workers {
		for _, d := range w.tidy {
			touched[d] = true
		}
		for _, g := range w.gone {
			forget(g.d, &g.d.files[g.at], touched)
		}
		for _, d := range w.lost {
			d.lose(touched)
		}
	}
	for _, wk := range works {
		if wk.passed {
			wk.d.listed = false // the next scan has to come upon it again
		}
		s.record(wk, touched)
	}
	for d := range touched {
		d.tidy()
	}
}

// record enters one file that was read.
func (s *scanner) record(wk *work, touched map[*folder]bool) {
	news := uint32(0)
	if wk.stored {
		news |= fileStored
	}
	if wk.wanted {
		news |= fileUnsaved | fileStale
	}
	if wk.unread || !stampBefore(wk.info.st.ctimeS, wk.info.st.ctimeN, s.started) {
		news |= fileStale // it can change again without a change of its stat data
	}
	if wk.at < 0 {
		if !wk.gone {
			wk.d.files = append(wk.d.files, file{name: wk.name, id: wk.id, mode: wk.info.mode, st: wk.info.st, flags: news})
			wk.d.spoil()
			touched[wk.d] = true
		}
		return
	}
	f := &wk.d.files[wk.at]
	if wk.passed { // it stays as it was known, as in git's index
		f.flags |= fileStale
		return
	}
	if wk.gone {
		forget(wk.d, f, touched)
		return
	}
	if f.id != wk.id || f.mode != wk.info.mode || f.flags&fileAbsent != 0 {
		wk.d.spoil()
	}
	f.id, f.mode, f.st = wk.id, wk.info.mode, wk.info.st
	f.flags = f.flags&^(fileAbsent|fileStale|fileUnsaved) | news
}

// forget takes a file out; a tracked one is remembered as absent, so that it stays tracked when it comes back.
func forget(d *folder, f *file, touched map[*folder]bool) {
	if f.present() {
		d.spoil()
	}
	if f.flags&fileTracked != 0 {
		f.flags |= fileAbsent
		return
	}
	f.mode = 0
	touched[d] = true
}

// lose takes a folder out with all that is below it.
func (d *folder) lose(touched map[*folder]bool) {
	for i := range d.files {
		if f := &d.files[i]; f.flags&fileFixed == 0 {
			forget(d, f, touched)
		}
	}
	for _, c := range d.dirs {
		if !c.frozen {
			c.lose(touched)
		}
	}
	d.rules, d.rulesStat, d.rulesOld, d.listed, d.away = nil, fileStat{}, false, false, true
	if up := d.parent; up != nil && !d.hasTracked() {
		d.parent = nil // tidy drops what has no parent
		touched[up] = true
	}
}
