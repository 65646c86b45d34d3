package gitops

import "os"

// packStamp is what shows that objects were packed anew, and perhaps pruned: an agent may run `git gc`.
type packStamp struct {
	known bool
	st    fileStat
}

// reconcile makes the next snapshot store again what a garbage collection took away. What no ref leads to may
// be gone then, although the in-memory index takes it for stored.
func (r *Repo) reconcile() {
	info, err := statPath(r.store.dir + "/pack")
	if err != nil && !os.IsNotExist(err) {
		return
	}
	old := r.packs
	r.packs = packStamp{true, info.st}
	if !old.known || old.st == info.st || r.tree == nil {
		return
	}
	r.tree.root.doubt(&r.store.reader)
}

// doubt forgets every tree, and the content of every file that was stored by us and is not there any more.
func (d *folder) doubt(reader *objectReader) {
	for i := range d.files {
		f := &d.files[i]
		if f.flags&fileStored != 0 && !reader.has(f.id) {
			f.id = objectID{}
			f.flags |= fileStale
		}
	}
	d.valid, d.stored, d.data = false, false, nil
	for _, c := range d.dirs {
		c.doubt(reader)
	}
}
