package config

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"descartes/verify"
	"descartes/verify/guard"
)

// Value is a setting's value and where it comes from.
type Value struct {
	Key    string `json:"key"`
	Value  any    `json:"value"`
	Source string `json:"source"`         // flag, environment, file or default
	From   string `json:"from,omitempty"` // the flag, the variable, or the file and its line
}

// Environment sets each flag that was not given from DESCARTES_<FLAG>, except where that variable is one a loop sets
// for its agents. An error is an *Error.
func Environment(f *pflag.FlagSet, without ...string) (err error) {
	f.VisitAll(func(fl *pflag.Flag) {
		name := Variable(fl.Name)
		v := os.Getenv(name)
		if v == "" || fl.Changed || err != nil || slices.Contains(without, fl.Name) {
			return
		}
		if e := f.Set(fl.Name, v); e != nil {
			err = wrong("", "%s=%q: %w", name, v, e)
		}
	})
	return err
}

// Fill fills in what a run uses for settings that are left open.
func (s *Settings) Fill() {
	if s.StrictEnv() {
		s.Env = EnvStrict
	}
	for _, one := range all {
		if v := one.value(s); one.open != "" && v.IsZero() {
			if err := one.parse(v, one.open); err != nil {
				panic(fmt.Sprintf("%s: %v", one.Key, err)) // a tag of ours
			}
		}
	}
}

// Show lists the settings. typed are the flags on the command line; file and lines describe descartes.yaml.
func (s *Settings) Show(f *pflag.FlagSet, typed []string, file string, lines map[string]int) (list []Value) {
	for _, one := range all {
		flag := one.Flag + one.From // it has one of the two
		if one.Key == "" || !one.YAML && f.Lookup(flag) == nil {
			continue
		}
		v := Value{Key: one.Key, Value: one.value(s).Interface(), Source: "default"}
		if one.kind == "breaker" && one.value(s).Int() < 0 {
			v.Value = "off"
		}
		switch line, inFile := lines[one.Key]; {
		case flag != "" && slices.Contains(typed, flag):
			v.Source, v.From = "flag", "--"+flag
		case flag != "" && f.Changed(flag):
			v.Source, v.From = "environment", Variable(flag)
		case inFile:
			v.Source, v.From = "file", fmt.Sprintf("%s:%d", file, line)
		}
		list = append(list, v)
	}
	return list
}

// Text is a value as a person writes it.
func (v Value) Text() string {
	switch r := reflect.ValueOf(v.Value); {
	case !r.IsValid(), (r.Kind() == reflect.Map || r.Kind() == reflect.Slice || r.Kind() == reflect.String) && r.Len() == 0, r.Kind() == reflect.Pointer && r.IsNil():
		return "-"
	case r.Kind() == reflect.String:
		return r.String()
	}
	j, err := json.Marshal(v.Value)
	if err != nil {
		return fmt.Sprint(v.Value)
	}
	return string(j)
}

// about is the help of a setting, or of the one with which it shares its flag.
func (s *Setting) about() string {
	for _, other := range all {
		if s.Help == "" && s.Flag == other.Flag && other.Help != "" {
			s = other
		}
	}
	return strings.ReplaceAll(s.Help, "`", "")
}

// Schema is the JSON Schema of descartes.yaml.
func Schema() map[string]any {
	root := object()
	root["$schema"], root["title"] = "https://json-schema.org/draft/2020-12/schema", "descartes.yaml"
	defaults := New()
	for _, s := range all {
		if !s.YAML {
			continue
		}
		at, path := root, strings.Split(s.Key, ".")
		for _, group := range path[:len(path)-1] {
			below := at["properties"].(map[string]any)
			if below[group] == nil {
				below[group] = object()
			}
			at = below[group].(map[string]any)
		}
		one := s.schema()
		one["description"] = s.about()
		if v := s.value(&defaults); !v.IsZero() {
			one["default"] = v.Interface()
		}
		at["properties"].(map[string]any)[path[len(path)-1]] = one
	}
	return root
}

func object() map[string]any {
	return map[string]any{"type": "object", "additionalProperties": false, "properties": map[string]any{}}
}

// schema says which values of a setting descartes.yaml may have.
func (s *Setting) schema() map[string]any {
	text, list := map[string]any{"type": "string"}, map[string]any{"type": "array", "items": map[string]any{"type": "string"}}
	either := func(types ...any) map[string]any { return map[string]any{"anyOf": types} }
	number := map[string]any{"type": "integer", "minimum": 0}
	var out map[string]any
	switch t := reflect.TypeFor[Settings]().FieldByIndex(s.index).Type; s.kind {
	case "duration", "size":
		out = either(number, text)
	case "breaker":
		out = either(map[string]any{"type": "integer", "minimum": 1}, map[string]any{"enum": []any{"off", false}})
	case "words":
		out = either(list, text)
	case "mask":
		out = either(list, map[string]any{"enum": []any{"off", false}})
	case "secs", "cooldown":
		out = number
	case "criteria":
		out = map[string]any{"type": "array", "items": either(text, map[string]any{"type": "object"})}
	case "checks":
		out = schemaOf(reflect.TypeFor[[]checkRow]())
		check := out["items"].(map[string]any)
		check["required"] = []string{"name", "run"}
		check["properties"].(map[string]any)["when"] = map[string]any{"enum": words(verify.Whens())}
		check["properties"].(map[string]any)["timeout"] = either(number, text)
		check["properties"].(map[string]any)["results"] = either(list, text)
		out = either(out, text)
	case "guard":
		level, rules := map[string]any{"enum": []any{"off", "warn", "ask", "fail", false}}, map[string]any{}
		for _, name := range guard.Names() {
			rules[name] = level
		}
		out = either(map[string]any{"type": "object", "properties": rules, "additionalProperties": false}, level)
	case "prices":
		out = schemaOf(reflect.TypeFor[map[string]price]())
	case "backends":
		out = schemaOf(reflect.TypeFor[map[string]row]())
	default:
		out = schemaOf(t)
	}
	if s.Words != nil && s.kind == "string" {
		out = map[string]any{"enum": s.Words}
	}
	if s.least != nil {
		out["minimum"] = *s.least
	}
	if s.kind == "float64" {
		out["minimum"] = 0
	}
	return out
}

// words are the texts of values of a type of words.
func words[T ~string](list []T) (out []string) {
	for _, w := range list {
		out = append(out, string(w))
	}
	return out
}

// schemaOf is the schema of a plain type, as decode reads it.
func schemaOf(t reflect.Type) map[string]any {
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.Map:
		if t.Elem().Kind() == reflect.String { // PORT: 8080 is one too
			return map[string]any{"type": "object", "additionalProperties": map[string]any{"type": []string{"string", "number", "boolean"}}}
		}
		return map[string]any{"type": "object", "additionalProperties": schemaOf(t.Elem())}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem())}
	case reflect.Struct:
		out := object()
		for name, at := range fieldsOf(t) {
			out["properties"].(map[string]any)[name] = schemaOf(t.FieldByIndex(at).Type)
		}
		return out
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.String:
		return map[string]any{"type": "string"}
	}
	return map[string]any{"type": "integer"}
}
