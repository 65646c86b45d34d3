package tasks

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"descartes/tasks/prose"
)

// beads is the export of beads, .beads/issues.jsonl: an issue a line, with dependencies {"depends_on_id", "type"}. What
// is no issue, or was deleted, is left alone.
type beads struct{}

func (beads) Match(t *text) bool {
	if !strings.EqualFold(filepath.Ext(t.path), ".jsonl") {
		return false
	}
	start := 0
	for line := range strings.Lines(t.src) {
		bare := strings.TrimSpace(strings.TrimPrefix(line, byteOrder))
		at := start + strings.Index(line, bare)
		start += len(line)
		if bare == "" {
			continue
		}
		v := gjson.Result{Type: gjson.JSON, Raw: bare, Index: at}
		if !json.Valid([]byte(bare)) || !v.IsObject() {
			t.wrong = &problem{at, "not an issue of beads: each line is a JSON object"}
			return true
		}
		if one := members(v); one.get("id").Exists() && one.get("title").Exists() && one.get("status").Str != "tombstone" {
			t.issues = append(t.issues, v)
		}
	}
	if len(t.issues) == 0 {
		t.wrong = &problem{0, `the file has no issues: expected lines such as {"id": "bd-1", "title": "Title", "status": "open"}`}
	}
	return true
}

func (beads) Tags(*text) []string { return []string{"beads"} }

// beadsWords are the words of beads for statuses.
var beadsWords = map[Status]string{Pending: "open", InProgress: "in_progress", Blocked: "blocked", Failed: "blocked",
	Deferred: "deferred", Done: "closed"}

func (beads) SetStatus(t *Task, s Status) (Status, string) { return worded(beadsWords, t, s) }

// worded is SetStatus of a format with few words of its own. What it has no word for changes nothing.
func worded(words map[Status]string, t *Task, s Status) (Status, string) {
	word, ok := words[s]
	if !ok {
		return t.Status, ""
	}
	return statusOf(words, word), strconv.Quote(word)
}

// statusOf is what a word of a format means; an unknown word is kept.
func statusOf(words map[Status]string, word string) Status {
	for _, s := range []Status{Pending, InProgress, Done, Blocked, Deferred} {
		if words[s] == word {
			return s
		}
	}
	s, _ := ParseStatus(word)
	return s
}

func (beads) Read(t *text, f *File) *problem {
	r := &reader{File: f, line: 1}
	known := map[string]bool{}
	for _, v := range t.issues {
		known[members(v).get("id").Str] = true
	}
	for _, v := range t.issues {
		e, p := r.begin(v)
		if p != nil {
			return p
		}
		if p := each(v, func(key, value gjson.Result) *problem { return r.issue(e, key, value, known) }); p != nil {
			return p
		}
		r.finish(e, "status")
	}
	return r.complete()
}

// issue reads one member of an issue. A dependency that was deleted is no more waited for.
func (r *reader) issue(e *entry, key, v gjson.Result, known map[string]bool) *problem {
	t := &e.task
	switch key.Str {
	case "id", "title", "description":
		return r.member(e, key, v)
	case "design", "notes":
		t.Details = strings.TrimSpace(t.Details + "\n\n" + plain(v))
	case "acceptance_criteria":
		t.Acceptance = plain(v)
	case "status":
		t.RawStatus = e.mark(v)
		t.Status = statusOf(beadsWords, t.RawStatus)
	case "priority":
		if named := prose.Priority("p" + plain(v)); named != "" {
			t.Priority = named
		}
	case "dependencies":
		for _, d := range v.Array() {
			on := d.Get("depends_on_id").Str
			switch d.Get("type").Str {
			case "parent-child":
				if known[on] {
					t.Parent, r.explicit = on, true
				}
			case "blocks", "conditional-blocks", "waits-for":
				if known[on] {
					t.DependsOn = append(t.DependsOn, on)
				}
			}
		}
		t.DependsOn = unique(t.DependsOn)
	}
	return nil
}
