package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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
	"descartes/tasks"
	"descartes/verify"
)

// Ask is something in a project's settings file that needs the user's trust: it runs, reaches, reads or receives more
// than a run does without the file, which comes with the repository.
type Ask struct {
	Key   string
	Text  string   // the value, or one of several
	Names []string // of the settings that let a user decide instead
}

// Sum identifies it.
func (a *Ask) Sum() string {
	sum := sha256.Sum256([]byte(a.Key + "\x00" + a.Text))
	return hex.EncodeToString(sum[:])
}

// Demands lists what a settings file asks for, as the trust tags of the settings say; root is the project. It is the
// only place that decides this.
func (f *File) Demands(root string) (out []Ask) {
	for _, one := range All() {
		command := strings.HasSuffix(one.Key, "verification_command")
		if f.Lines[one.Key] == 0 && (f.Lines["verify"] == 0 || !command) || one.Trust == harmless {
			continue
		}
		names := []string{one.Key}
		switch {
		case one.from != "":
			names = append(names, one.from)
		case command:
			names = append(names, "verify")
		}
		if one.Trust == confined { // whoever types --sandbox has decided about them
			names = append(names, "sandbox")
		}
		for _, a := range one.asked(one.value(&f.Settings).Interface()) {
			a.Text, a.Names = strings.TrimSpace(a.Text), names
			if a.Text != "" && (one.Trust != confined || f.Sandbox == "off") && !slices.Contains(one.safe, a.Text) &&
				(one.Trust != outside || Leaves(root, a.Text)) {
				out = append(out, a)
			}
		}
	}
	return out
}

// TaskChecks are the commands that the tasks of a list bring. Confined to a sandbox they need no trust.
func TaskChecks(file string, list []tasks.Task) (out []Ask) {
	for _, t := range list {
		if t.Verify != "" && !t.Container() {
			out = append(out, Ask{Key: file + ": task " + t.ID + ": verify", Text: t.Verify,
				Names: []string{"sandbox"}})
		}
	}
	return out
}

// asked are the texts of a value, by the key that people know.
func (s *Setting) asked(value any) (list []Ask) {
	add := func(texts ...string) {
		for _, text := range texts {
			list = append(list, Ask{Key: s.Key, Text: text})
		}
	}
	switch v := value.(type) {
	case string:
		add(v)
	case bool:
		if v {
			add("true")
		}
	case []string:
		for _, word := range v {
			if s.kind != "mask" || word == "off" || strings.HasPrefix(word, "!") { // to mask more harms nobody
				add(word)
			}
		}
	case map[string]string:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			add(name + "=" + v[name])
		}
	case []verify.Check:
		for _, c := range v {
			add(c.Run)
		}
	case []gate.Criterion:
		for _, c := range v {
			add(c.Command)
		}
	case map[string]agent.Row:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			for _, text := range rowTexts(v[name]) {
				list = append(list, Ask{Key: s.Key + "." + name, Text: text})
			}
		}
	default:
		panic("trust of " + s.Key) // a tag of ours
	}
	return list
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
func TrustDigest(demands []Ask) string {
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
	f, err := t.read()
	return f.Trusted, err
}

func (t *Trust) read() (f trustFile, err error) {
	data, err := plainfile.Read("", t.path(), maxTrust)
	if errors.Is(err, fs.ErrNotExist) {
		return trustFile{Version: trustVersion, Project: t.Root}, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err == nil && f.Version != trustVersion {
		err = fmt.Errorf("it has version %d, this program knows %d", f.Version, trustVersion)
	}
	if err != nil {
		err = fmt.Errorf("read trusted settings: %s: %w", t.path(), err)
	}
	return f, err
}

// Add trusts a set of demands.
func (t *Trust) Add(demands []Ask, now time.Time) error {
	f, err := t.read()
	if err != nil {
		return err
	}
	one := Trusted{Digest: TrustDigest(demands), At: now, Demands: t.values(demands)}
	list := append(slices.DeleteFunc(f.Trusted, func(o Trusted) bool { return o.Digest == one.Digest }), one)
	f.Trusted = list[max(0, len(list)-maxTrusted):]
	return t.write(f)
}

// values are asks as they are kept, without secrets.
func (t *Trust) values(asks []Ask) (list []trustedValue) {
	for i := range asks {
		text := asks[i].Text
		if asks[i].Key == "notify" {
			text = hideTarget(text)
		}
		list = append(list, trustedValue{asks[i].Key, t.Redact.Text(text), asks[i].Sum()})
	}
	return list
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

func (t *Trust) write(f trustFile) error {
	data, err := json.MarshalIndent(f, "", "  ")
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
func (t *Trust) Wider(demands []Ask) (lines []string, err error) {
	list, err := t.Read()
	if err != nil {
		return nil, err
	}
	covered := func(set Trusted, d *Ask) bool {
		return slices.ContainsFunc(set.Demands, func(v trustedValue) bool { return v.Sum == d.Sum() })
	}
	var last Trusted
	for _, set := range list {
		last = set
		if !slices.ContainsFunc(demands, func(d Ask) bool { return !covered(set, &d) }) {
			return nil, nil
		}
	}
	for i := range demands {
		d := &demands[i]
		if covered(last, d) {
			continue
		}
		line := d.Key + ": " + t.Redact.Text(d.Text)
		if last.Digest != "" {
			was := slices.IndexFunc(last.Demands, func(v trustedValue) bool {
				return v.Key == d.Key && !slices.ContainsFunc(demands, func(o Ask) bool { return o.Sum() == v.Sum })
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
