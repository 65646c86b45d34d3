package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"descartes/agent"
	"descartes/internal/atomicfile"
	"descartes/internal/plainfile"
	"descartes/internal/redact"
	"descartes/loop/gate"
	"descartes/verify"
)

// Demand is something in a project's settings file that runs, reaches, reads or receives more than a run does without
// the file. The file comes with the repository, so the user has to trust it first.
type Demand struct {
	Key   string
	Text  string   // the value, or one of several
	Flags []string // that let a user decide instead
}

// Sum identifies the demand.
func (d *Demand) Sum() string {
	sum := sha256.Sum256([]byte(d.Key + "\x00" + d.Text))
	return hex.EncodeToString(sum[:])
}

// Demands lists what in a settings file needs trust, as the trust tags of the settings say; root is the project. It is
// the only place that decides this.
func (f *File) Demands(root string) (out []Demand) {
	s := Settings{Config: f.Config}
	for _, one := range all {
		if !one.YAML || one.Trust == harmless || one.Trust == confined && f.Sandbox != "off" {
			continue
		}
		var flags []string
		if flag := one.Flag + one.From; flag != "" { // it has one of the two
			flags = append(flags, flag)
		}
		if one.Trust == confined { // whoever types --sandbox has decided about them
			flags = append(flags, "sandbox")
		}
		for key, texts := range one.demanded(one.value(&s).Interface()) {
			for _, text := range texts {
				if text = strings.TrimSpace(text); text != "" && !slices.Contains(one.safe, text) && (one.Trust != outside || Leaves(root, text)) {
					out = append(out, Demand{key, text, flags})
				}
			}
		}
	}
	return out
}

// demanded are the texts of a value, by the key that people know.
func (s *Setting) demanded(value any) iter.Seq2[string, []string] {
	return func(yield func(string, []string) bool) {
		var texts []string
		switch v := value.(type) {
		case string:
			texts = []string{v}
		case bool:
			if v {
				texts = []string{"true"}
			}
		case []string:
			texts = slices.DeleteFunc(slices.Clone(v), func(word string) bool { // to mask more harms nobody
				return s.kind == "mask" && word != "off" && !strings.HasPrefix(word, "!")
			})
		case map[string]string:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				texts = append(texts, name+"="+v[name])
			}
		case []verify.Check:
			for _, c := range v {
				texts = append(texts, c.Run)
			}
		case []gate.Criterion:
			for _, c := range v {
				texts = append(texts, c.Command)
			}
		case map[string]agent.Row:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				if !yield(s.Key+"."+name, rowTexts(v[name])) {
					return
				}
			}
		default:
			panic(fmt.Sprintf("trust of %s: %T", s.Key, value)) // a tag of ours
		}
		yield(s.Key, texts)
	}
}

// rowTexts is a backend's row but for its prices, a line for each key.
func rowTexts(row agent.Row) (texts []string) {
	row.Prices = nil
	data, err := json.Marshal(row)
	var keys map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(data, &keys)
	}
	if err != nil {
		panic(fmt.Sprintf("a backend's row: %v", err)) // of plain types
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if value := string(keys[key]); value != "null" {
			texts = append(texts, key+": "+value)
		}
	}
	return texts
}

// Leaves reports whether a path leads out of the project, through links as well.
func Leaves(root, path string) bool {
	if strings.HasPrefix(path, "~") {
		return true
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(root, path)
	}
	if real, err := filepath.EvalSymlinks(root); err == nil {
		root = real
	}
	for at := filepath.Clean(path); ; at = filepath.Dir(at) { // what does not exist yet will be where its folder is
		if real, err := filepath.EvalSymlinks(at); err == nil {
			rel, err := filepath.Rel(root, real)
			return err != nil || !filepath.IsLocal(rel)
		}
	}
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
