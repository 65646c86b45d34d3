package sandbox

import (
	"fmt"
	"path/filepath"
)

// Around is what a program sees and writes besides what a check sees.
type Around struct {
	Read, Write []string
	Sealed      []string          // places in what it writes that stay as they are
	Instead     map[string]string // folders that it writes in the place of others
}

// Around is the sandbox of a program of ours, such as git, which may start others that an agent has written: without a
// network. It wraps nothing where c confines nothing.
func (c Config) Around(a Around) (*Box, error) {
	b := newBox(c)
	b.c.Role, b.c.Slot, b.c.Cache, b.c.Held = Verify, Slot{}, "", Held{}
	b.c.Offline, b.c.Socket = true, ""
	if c.Mode == Off || !c.Mounts() {
		b.c.Mode = Off
		return b, nil
	}
	var err error
	if b.c.Top, err = filepath.EvalSymlinks(c.Top); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	b.findHome()
	b.hide()
	b.login()
	if c.Mode == Strict {
		for _, path := range below(b.home, toolchains()) {
			b.add(path, readable)
		}
	}
	for _, dir := range append(filepath.SplitList(b.env["PATH"]), b.env["GIT_CONFIG_GLOBAL"]) {
		b.show(dir)
	}
	if c.Mode == Auto {
		b.show(b.home)
	}
	for _, path := range a.Read {
		b.add(path, regained)
	}
	for _, path := range a.Write {
		b.add(path, granted)
	}
	for _, path := range a.Sealed {
		if real, ok := b.resolve(path); ok {
			b.seal(real)
		}
	}
	for place, from := range a.Instead {
		if real, ok := b.resolve(place); ok {
			b.mounts = append(b.mounts, mount{path: real, how: granted, from: from})
		}
	}
	b.sockets()
	b.order()
	return b, nil
}

// seal lets nobody write at a place, whatever else is said of it, but where a place below it is named.
func (b *Box) seal(real string) {
	for i := range b.mounts {
		if b.mounts[i].path == real {
			b.mounts[i].how = readable
			return
		}
	}
	b.add(real, readable)
}
