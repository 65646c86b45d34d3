package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"descartes/internal/atomicfile"
	"descartes/internal/plainfile"
	"descartes/internal/redact"
)

// Demand is something in a project's settings file that acts outside the sandbox, or opens it. The file comes with
// the repository, so the user has to trust it first.
type Demand struct {
	Key  string
	Text string // the value, or one of several
	Flag string // that lets a user decide instead; "" for none
	Held bool   // the sandbox confines it, where there is one
	Off  bool   // outside only because the file says sandbox: off
}

// Sum identifies the demand.
func (d *Demand) Sum() string {
	sum := sha256.Sum256([]byte(d.Key + "\x00" + d.Text))
	return hex.EncodeToString(sum[:])
}

// Demands lists what a settings file demands: notifications, a wider sandbox, and with sandbox: off every command.
func (f *File) Demands() (out []Demand) {
	add := func(d Demand, texts ...string) {
		for _, text := range texts {
			if d.Text = strings.TrimSpace(text); d.Text != "" {
				out = append(out, d)
			}
		}
	}
	for _, target := range f.Notify {
		if target != "desktop" && target != "bell" {
			add(Demand{Key: "notify", Flag: "notify"}, target)
		}
	}
	add(Demand{Key: "sandbox_write"}, f.SandboxWrite...)
	add(Demand{Key: "sandbox_read"}, f.SandboxRead...)
	add(Demand{Key: "pool.setup", Held: true}, f.Pool.Setup)
	if f.Precheck != "agent" {
		add(Demand{Key: "precheck", Flag: "precheck", Held: true}, f.Precheck)
	}
	if f.Sandbox != "off" {
		return out
	}
	add(Demand{Key: "sandbox", Flag: "sandbox"}, "off")
	add(Demand{Key: "command", Flag: "command", Off: true}, strings.Join(append([]string{f.Command}, f.Args...), " "))
	for _, name := range sortedKeys(f.Backends) {
		if row := f.Backends[name]; len(row.Command)+len(row.Args) > 0 {
			add(Demand{Key: "backends." + name, Off: true}, strings.Join(append(slices.Clone(row.Command), row.Args...), " "))
		}
	}
	add(Demand{Key: "verification_command", Flag: "verify", Off: true}, f.VerificationCommand)
	add(Demand{Key: "scud.verification_command", Flag: "verify", Off: true}, f.Scud.VerificationCommand)
	for _, c := range f.Checks {
		add(Demand{Key: "verify", Flag: "verify", Off: true}, c.Run)
	}
	add(Demand{Key: "holdout.run", Off: true}, f.Holdout.Run)
	for _, c := range f.Criteria {
		add(Demand{Key: "criteria", Off: true}, c.Command)
	}
	for _, c := range f.MustNot {
		add(Demand{Key: "mustNot", Off: true}, c.Command)
	}
	return out
}

func sortedKeys[V any](m map[string]V) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// TrustDigest identifies a set of demands; "" for none.
func TrustDigest(demands []Demand) string {
	if len(demands) == 0 {
		return ""
	}
	var sums []string
	for i := range demands {
		sums = append(sums, demands[i].Sum())
	}
	slices.Sort(sums)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(sums), "\n")))
	return hex.EncodeToString(sum[:])
}

// Trust is what a user trusts in one project's settings. It is in the user's own folder, which no repository can
// write.
type Trust struct {
	Dir    string           // for all projects
	Root   string           // the project
	Redact *redact.Redactor // for values that are kept
}

// Trusted is one set of demands that the user trusted.
type Trusted struct {
	Digest  string         `json:"digest"`
	At      time.Time      `json:"at"`
	Demands []trustedValue `json:"settings"`
}

type trustedValue struct {
	Key  string `json:"key"`
	Text string `json:"text"` // for people, without secrets
	Sum  string `json:"sum"`
}

type trustFile struct {
	Version int       `json:"version"`
	Project string    `json:"project"`
	Trusted []Trusted `json:"trusted"`
}

const (
	trustVersion = 1
	maxTrust     = 4 << 20
	maxTrusted   = 20 // sets remembered for a project, the latest ones
)

func (t *Trust) path() string {
	sum := sha256.Sum256([]byte(t.Root))
	return filepath.Join(t.Dir, hex.EncodeToString(sum[:16])+".json")
}

// Read lists what is trusted, oldest first.
func (t *Trust) Read() ([]Trusted, error) {
	data, err := plainfile.Read("", t.path(), maxTrust)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var f trustFile
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err != nil {
		return nil, fmt.Errorf("read trusted settings: %s: %w", t.path(), err)
	}
	if f.Version != trustVersion {
		return nil, fmt.Errorf("read trusted settings: %s has version %d, this program knows %d", t.path(), f.Version, trustVersion)
	}
	return f.Trusted, nil
}

// Add trusts a set of demands.
func (t *Trust) Add(demands []Demand, now time.Time) error {
	list, err := t.Read()
	if err != nil {
		return err
	}
	one := Trusted{Digest: TrustDigest(demands), At: now}
	for i := range demands {
		d := &demands[i]
		one.Demands = append(one.Demands, trustedValue{d.Key, t.Redact.Text(d.Text), d.Sum()})
	}
	list = append(slices.DeleteFunc(list, func(o Trusted) bool { return o.Digest == one.Digest }), one)
	return t.write(list[max(0, len(list)-maxTrusted):])
}

// Forget withdraws all trust in the project, and reports whether there was any.
func (t *Trust) Forget() (bool, error) {
	err := os.Remove(t.path())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("forget trusted settings: %w", err)
	}
	return true, nil
}

func (t *Trust) write(list []Trusted) error {
	data, err := json.MarshalIndent(trustFile{trustVersion, t.Root, list}, "", "  ")
	if err == nil {
		err = os.MkdirAll(t.Dir, 0o700)
	}
	if err == nil {
		err = atomicfile.Write(atomicfile.OS(), t.path(), append(data, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("save trusted settings: %w", err)
	}
	return nil
}

// Wider describes each demand that no trusted set covers, in a line: its value, and whether it is new or changed
// since the set trusted last. Nil: all are trusted.
func (t *Trust) Wider(demands []Demand) (lines []string, err error) {
	list, err := t.Read()
	if err != nil {
		return nil, err
	}
	covered := func(set Trusted, d *Demand) bool {
		return slices.ContainsFunc(set.Demands, func(v trustedValue) bool { return v.Sum == d.Sum() })
	}
	var last Trusted
	for _, set := range list {
		last = set
		if !slices.ContainsFunc(demands, func(d Demand) bool { return !covered(set, &d) }) {
			return nil, nil
		}
	}
	for i := range demands {
		d := &demands[i]
		if covered(last, d) {
			continue
		}
		line := d.Key + ": " + t.Redact.Text(d.Text)
		switch {
		case last.Digest == "":
		default:
			was := slices.IndexFunc(last.Demands, func(v trustedValue) bool {
				return v.Key == d.Key && !slices.ContainsFunc(demands, func(o Demand) bool { return o.Sum() == v.Sum })
			})
			if was >= 0 {
				line += " (changed; was " + last.Demands[was].Text + ")"
			} else {
				line += " (new)"
			}
		}
		lines = append(lines, line)
	}
	return lines, nil
}
