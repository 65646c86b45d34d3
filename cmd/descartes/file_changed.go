package main

import (
	"bytes"
	"context"
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

	"descartes/gitops"
	"descartes/internal/atomicfile"
	"descartes/internal/config"
	"descartes/internal/plainfile"
	"descartes/internal/redact"
	"descartes/loop"
)

// power is the value of a setting that says what is run, or what that may touch and see: as it is shown, and the sum by which it is compared.
type power struct {
	Text string `json:"text"`
	Sum  string `json:"sum"`
}

// powersOf reads them from a settings file. One that is missing has none; what is wrong with it others have said.
func powersOf(path string, m *redact.Redactor) map[string]power {
	out := map[string]power{}
	data, err := plainfile.Read(filepath.Dir(path), path, config.MaxFile)
	var doc map[string]any
	if err != nil || yaml.Unmarshal(data, &doc) != nil {
		return out
	}
	var walk func(prefix string, v any)
	walk = func(key string, v any) {
		if below, ok := v.(map[string]any); ok {
			for name, v := range below {
				walk(strings.TrimPrefix(key+"."+name, "."), v)
			}
			return
		}
		if !slices.ContainsFunc(config.All(), func(s *config.Setting) bool { return s.Power && strings.HasPrefix(key+".", s.Key+".") }) {
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
		out[key] = power{m.Text(strings.TrimSpace(b.String())), hex.EncodeToString(sum[:])}
	}
	walk("", doc)
	return out
}

// settingsWatch tells what became of the commands in a settings file since the last run of the project. What that found is kept in
// .descartes/settings.json, by the file's path.
type settingsWatch struct {
	root, file, name string // name is file as it is shown
	mask             *redact.Redactor
}

func watchSettings(root string, c loop.Config, m *redact.Redactor) *settingsWatch {
	file := orWord(c.SettingsFile, filepath.Join(root, loop.SettingsFile))
	return &settingsWatch{root: root, file: file, name: shown(root, file), mask: m}
}

// seen is what the last run found, by the file's path; what cannot be read was not found.
func (w *settingsWatch) seen() (files map[string]map[string]power, text []byte) {
	text, err := plainfile.Read(w.root, loop.NewHome(w.root).Settings(), 4*config.MaxFile)
	if err != nil || json.Unmarshal(text, &files) != nil || files == nil {
		files = map[string]map[string]power{}
	}
	return files, text
}

// changed says it in one line for each setting.
func (w *settingsWatch) changed(ctx context.Context, repo *gitops.Repo) (notes []string) {
	files, _ := w.seen()
	was, known := files[w.name]
	if !known {
		return nil
	}
	now := powersOf(w.file, w.mask)
	keys := maps.Clone(was)
	maps.Copy(keys, now)
	by := ""
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if was[key].Sum == now[key].Sum {
			continue
		}
		if len(notes) == 0 {
			by = w.by(ctx, repo)
		}
		notes = append(notes, fmt.Sprintf("%s changed since the last run: %s: %s -> %s%s", w.name, key,
			fit(orWord(was[key].Text, "none"), 200), fit(orWord(now[key].Text, "none"), 200), by))
	}
	return notes
}

// by names the commit that the file is from.
func (w *settingsWatch) by(ctx context.Context, repo *gitops.Repo) string {
	if repo == nil {
		return ""
	}
	rel, ok := below(repo.Root(), w.file)
	if !ok {
		return ""
	}
	commit, author, err := repo.LastChange(ctx, rel)
	switch {
	case err != nil:
		return " (git does not say by whom: " + err.Error() + ")"
	case commit == "":
		return " (not committed)"
	}
	return " (commit " + commit + " by " + author + ")"
}

// remember keeps what the file says for the next run.
func (w *settingsWatch) remember() error {
	if w == nil {
		return nil
	}
	files, old := w.seen()
	files[w.name] = powersOf(w.file, w.mask)
	var b bytes.Buffer
	if err := writeJSON(&b, files); err != nil {
		return err
	}
	path := loop.NewHome(w.root).Settings()
	if bytes.Equal(old, b.Bytes()) {
		return nil
	}
	if err := plainfile.Settle(w.root, path); err != nil {
		return err
	}
	err := atomicfile.Write(atomicfile.OS(), path, b.Bytes(), 0o600)
	if errors.Is(err, fs.ErrNotExist) { // a loop over a tag that starts beside us took the temporary file for a dead one's
		err = atomicfile.Write(atomicfile.OS(), path, b.Bytes(), 0o600)
	}
	return err
}
