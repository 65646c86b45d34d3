package config

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"descartes/internal/atomicfile"
	"descartes/internal/plainfile"
	"descartes/internal/redact"
	"descartes/internal/terminal"
)

// Watch finds the settings that changed in a settings file since the project's last run, among those that decide what
// runs or what that may touch and see.
type Watch struct {
	Root   string
	File   string           // the settings file
	Name   string           // its name in messages and in Seen
	Seen   string           // file below Root with what earlier runs found
	Redact *redact.Redactor // for values that are shown and kept
}

// power is such a setting's value: as shown, and the sum for comparing.
type power struct {
	Text string `json:"text"`
	Sum  string `json:"sum"`
}

// powers reads them. A missing file has none; a broken one is reported where a run reads it.
func (w *Watch) powers() map[string]power {
	out := map[string]power{}
	data, err := plainfile.Read(filepath.Dir(w.File), w.File, MaxFile)
	var doc map[string]any
	if err != nil || yaml.Unmarshal(data, &doc) != nil {
		return out
	}
	var walk func(key string, v any)
	walk = func(key string, v any) {
		if below, ok := v.(map[string]any); ok {
			for name, v := range below {
				walk(strings.TrimPrefix(key+"."+name, "."), v)
			}
			return
		}
		if !slices.ContainsFunc(all, func(s *Setting) bool { return s.Power && strings.HasPrefix(key+".", s.Key+".") }) {
			return
		}
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if e.Encode(v) != nil {
			b.Reset()
			fmt.Fprintf(&b, "%v", v)
		}
		sum := sha256.Sum256(b.Bytes())
		text := strings.TrimSpace(b.String())
		if key == "notify" {
			text = hiddenTargets(v)
		}
		out[key] = power{w.Redact.Text(text), hex.EncodeToString(sum[:])}
	}
	walk("", doc)
	return out
}

// hiddenTargets is a notify setting, one target or several, without what only the owners of the targets may know.
func hiddenTargets(v any) string {
	list, several := v.([]any)
	if !several {
		list = []any{v}
	}
	texts := make([]string, len(list))
	for i, one := range list {
		texts[i] = hideTarget(fmt.Sprint(one))
	}
	return strings.Join(texts, ", ")
}

// seen is what earlier runs found, by the name of the settings file; empty where unreadable.
func (w *Watch) seen() (files map[string]map[string]power, text []byte) {
	text, err := plainfile.Read(w.Root, w.Seen, 4*MaxFile)
	if err != nil || json.Unmarshal(text, &files) != nil || files == nil {
		files = map[string]map[string]power{}
	}
	return files, text
}

// Changed describes each change in a line. by is called once, if there is a change, for the end of each line.
func (w *Watch) Changed(by func() string) (notes []string) {
	files, _ := w.seen()
	was, known := files[w.Name]
	if !known {
		return nil
	}
	now := w.powers()
	keys := maps.Clone(was)
	maps.Copy(keys, now)
	end := ""
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if was[key].Sum == now[key].Sum {
			continue
		}
		if len(notes) == 0 {
			end = by()
		}
		notes = append(notes, fmt.Sprintf("%s changed since the last run: %s: %s -> %s%s", w.Name, key,
			terminal.Fit(cmp.Or(was[key].Text, "none"), 200), terminal.Fit(cmp.Or(now[key].Text, "none"), 200), end))
	}
	return notes
}

// Remember saves what the file says for the next run. A nil Watch saves nothing.
func (w *Watch) Remember() error {
	if w == nil {
		return nil
	}
	files, old := w.seen()
	files[w.Name] = w.powers()
	text, err := json.MarshalIndent(files, "", "  ")
	if err != nil || bytes.Equal(old, append(text, '\n')) {
		return err
	}
	if err := plainfile.Writable(w.Root, w.Seen); err != nil {
		return err
	}
	err = atomicfile.Write(atomicfile.OS(), w.Seen, append(text, '\n'), 0o600)
	if errors.Is(err, fs.ErrNotExist) { // a tag loop starting beside us took the temporary file for a dead one's
		err = atomicfile.Write(atomicfile.OS(), w.Seen, append(text, '\n'), 0o600)
	}
	return err
}
