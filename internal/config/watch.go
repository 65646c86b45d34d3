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

// Watch finds out which settings that say what is run, or what that may touch and see, have changed in a settings file since the
// last run of the project.
type Watch struct {
	Root   string
	File   string           // the settings file
	Name   string           // as it is shown, and known in Seen
	Seen   string           // file below Root with what earlier runs found
	Redact *redact.Redactor // of values that are shown and kept
}

// power is the value of such a setting: as it is shown, and the sum by which it is compared.
type power struct {
	Text string `json:"text"`
	Sum  string `json:"sum"`
}

// powers reads them. A file that is missing has none; what is wrong with one is said where it is read for a run.
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
		out[key] = power{w.Redact.Text(strings.TrimSpace(b.String())), hex.EncodeToString(sum[:])}
	}
	walk("", doc)
	return out
}

// seen is what earlier runs found, by the name of the settings file; what cannot be read was not found.
func (w *Watch) seen() (files map[string]map[string]power, text []byte) {
	text, err := plainfile.Read(w.Root, w.Seen, 4*MaxFile)
	if err != nil || json.Unmarshal(text, &files) != nil || files == nil {
		files = map[string]map[string]power{}
	}
	return files, text
}

// Changed says it in one line for each setting. by is asked once, if there are any, for what ends each line.
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

// Remember keeps what the file says for the next run. A nil Watch keeps nothing.
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
	if errors.Is(err, fs.ErrNotExist) { // a loop over a tag that starts beside us took the temporary file for a dead one's
		err = atomicfile.Write(atomicfile.OS(), w.Seen, append(text, '\n'), 0o600)
	}
	return err
}
