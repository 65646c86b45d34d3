package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"descartes/fleet/wire"
	"descartes/internal/proc"
)

// directFleet stands for descartes-fleet where there is no server: each attempt is made at once, by a worker of its own whose repositories
// lie in $FLEET_CACHE. When the file $FLEET_LOSE appears, a worker is lost and another one takes its place. No account has quota for the backend
// $FLEET_QUOTA, and nobody has the label "rare". The script $FLEET_TAMPER makes another commit of a result on the remote, and prints it.
// Workers say that what they sent is $FLEET_REF.
func directFleet() {
	in, out := wire.NewReader(os.Stdin), wire.NewWriter(os.Stdout)
	if _, err := in.Next(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = out.Say(wire.Line{Ready: true})
	var wg sync.WaitGroup
	var mu sync.Mutex
	running := map[int]*proc.Companion{}
	for {
		l, err := in.Next()
		if err != nil {
			break
		}
		mu.Lock()
		if p := running[l.ID]; l.Cancel && p != nil {
			_ = json.NewEncoder(p.In).Encode(l)
		} else if l.Cancel {
			_ = out.Say(wire.Line{ID: l.ID, Lost: "it was cancelled"})
		}
		mu.Unlock()
		if l.Ask == nil {
			continue
		}
		if q := os.Getenv("FLEET_QUOTA"); q == l.Ask.Backend {
			_ = out.Say(wire.Line{ID: l.ID, Wait: &wire.Wait{For: "quota: account one has none until 2100", Until: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), Reason: "the weekly limit of account one"}})
			continue
		}
		if slices.Contains(l.Ask.Needs, "rare") {
			_ = out.Say(wire.Line{ID: l.ID, Wait: &wire.Wait{For: "a worker with " + strings.Join(l.Ask.Needs, " and ")}})
			continue
		}
		self, err := os.Executable()
		if err != nil {
			panic(err)
		}
		begin := func(try int) *proc.Companion {
			p, err := proc.StartCompanion([]string{self[:len(self)-len("-fleet")], wire.Command}, os.Environ(), os.Stderr)
			if err != nil {
				panic(err)
			}
			mu.Lock()
			running[l.ID] = p
			mu.Unlock()
			_ = json.NewEncoder(p.In).Encode(wire.Work{Ask: *l.Ask, Cache: os.Getenv("FLEET_CACHE"), Run: fmt.Sprintf("%d-direct", try)})
			return p
		}
		p := begin(1)
		wg.Go(func() {
			go func() {
				for at := os.Getenv("FLEET_LOSE"); at != ""; time.Sleep(10 * time.Millisecond) {
					if os.Remove(at) == nil {
						_ = p.Kill()
						return
					}
				}
			}()
			for try := 1; ; try++ {
				ended := false
				for r := wire.NewReader(p.Out); ; {
					said, err := r.Next()
					if err != nil {
						break
					}
					if tamper := os.Getenv("FLEET_TAMPER"); said.Done != nil && tamper != "" {
						b, err := exec.Command("sh", "-e", tamper, said.Done.Ref, said.Done.Commit, l.Ask.Task).Output()
						if err != nil {
							panic(err)
						}
						said.Done.Commit = strings.TrimSpace(string(b))
					}
					ended = ended || said.Done != nil
					said.ID = l.ID
					for _, k := range []*wire.Kept{said.Live, said.Done} {
						if ref := os.Getenv("FLEET_REF"); ref != "" && k != nil {
							k.Ref = ref
						}
					}
					_ = out.Say(said)
				}
				code, _ := p.Wait()
				if ended {
					return
				}
				if try == 2 || os.Getenv("FLEET_LOSE") == "" {
					_ = out.Say(wire.Line{ID: l.ID, Lost: fmt.Sprintf("the worker ended with exit status %d", code)})
					return
				}
				p = begin(try + 1)
			}
		})
	}
	wg.Wait()
}
