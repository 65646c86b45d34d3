package view

import (
	"bytes"
	"cmp"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"descartes/internal/docs"
	"descartes/loop/journal"
	"descartes/loop/receipt"
	"descartes/loop/store"
)

// schemas makes JSON Schemas of types: what they say of themselves, and the comments of their fields.
type schemas struct {
	comments map[string]map[string]string // package and type to field to its comment
	defs     map[string]any
}

// of is the schema of a type. Named structs are told once, in $defs.
func (s *schemas) of(t reflect.Type) map[string]any {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[store.TaskID]():
		return map[string]any{"type": []string{"string", "integer"}}
	case t.Implements(reflect.TypeFor[json.Marshaler]()):
		return map[string]any{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return map[string]any{"anyOf": []any{s.of(t.Elem()), map[string]any{"type": "null"}}}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		if s.defs[t.Name()] == nil {
			s.defs[t.Name()] = true // it may hold itself
			s.defs[t.Name()] = s.object(t)
		}
		return map[string]any{"$ref": "#/$defs/" + t.Name()}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	}
	return map[string]any{"type": "integer"}
}

func (s *schemas) object(t reflect.Type) map[string]any {
	properties, needed := map[string]any{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" || f.Anonymous || name == "" {
			continue
		}
		one := s.of(f.Type)
		if strings.Contains(rest, "omitempty") && f.Type.Kind() == reflect.Pointer {
			one = s.of(f.Type.Elem())
		}
		owner := t
		if in := f.Index[:len(f.Index)-1]; len(in) > 0 {
			owner = t.FieldByIndex(in).Type
		}
		if c := s.comments[owner.PkgPath()+"."+owner.Name()][f.Name]; c != "" {
			one["description"] = c
		}
		if properties[name] = one; !strings.Contains(rest, "omitempty") {
			needed = append(needed, name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": needed}
}

// read takes the comments of a package's fields.
func (s *schemas) read(t *testing.T, dir, path string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if body, ok := spec.Type.(*ast.StructType); ok {
				fields := map[string]string{}
				for _, field := range body.Fields.List {
					for _, id := range field.Names {
						text := cmp.Or(field.Comment.Text(), field.Doc.Text())
						fields[id.Name] = strings.Join(strings.Fields(text), " ")
					}
				}
				s.comments[path+"."+spec.Name.Name] = fields
			}
			return true
		})
	}
}

// TestDocs checks that docs say of the events and of the status what the types say, and that a line of a journal fits.
func TestDocs(t *testing.T) {
	s := &schemas{comments: map[string]map[string]string{}}
	s.read(t, ".", "descartes/view")
	s.read(t, filepath.Join("..", "loop", "store"), "descartes/loop/store")
	s.read(t, filepath.Join("..", "loop", "journal"), "descartes/loop/journal")
	s.read(t, filepath.Join("..", "loop", "receipt"), "descartes/loop/receipt")
	for name, typ := range map[string]reflect.Type{"event": reflect.TypeFor[journal.Event](),
		"status": reflect.TypeFor[Status](), "receipt": reflect.TypeFor[receipt.Receipt]()} {
		s.defs = map[string]any{}
		root := s.of(typ)
		root["$schema"], root["title"] = "https://json-schema.org/draft/2020-12/schema", map[string]string{
			"event":   "An event: a line of events.ndjson, and of --json",
			"status":  "What descartes status --json prints; status --all --json is an array of it without waves",
			"receipt": "The predicate urn:descartes:receipt:v1 of an in-toto Statement v1, and what descartes why --json has of a done task"}[name]
		if name == "event" {
			properties := s.defs["Event"].(map[string]any)["properties"].(map[string]any)
			properties["crc"] = map[string]any{"type": "string",
				"description": "CRC-32C of the line before this member, in hexadecimal digits"}
		}
		root["$defs"] = s.defs
		var text bytes.Buffer
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(root); err != nil {
			t.Fatal(err)
		}
		docs.Page(t, "docs/"+name+".schema.json", text.String())
		if name != "event" {
			continue
		}
		event := journal.Event{Seq: 1, Type: journal.LoopFinished, TS: time.Now(), Loop: "x", Commit: "abc",
			Detail: &journal.Detail{Exit: journal.Exit{Code: 3}}}
		line, err := event.Line()
		if err != nil {
			t.Fatal(err)
		}
		var members map[string]any
		if err := json.Unmarshal(line, &members); err != nil {
			t.Fatal(err)
		}
		known := s.defs["Event"].(map[string]any)
		for _, m := range slices.Sorted(maps.Keys(members)) {
			if known["properties"].(map[string]any)[m] == nil {
				t.Errorf("the schema does not know %s", m)
			}
		}
		for _, m := range known["required"].([]string) {
			if members[m] == nil {
				t.Errorf("an event has no %s", m)
			}
		}
	}
}
