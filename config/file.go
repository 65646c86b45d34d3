package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
	"mvdan.cc/sh/v3/syntax"

	"descartes/agent"
	"descartes/internal/lazyregexp"
	"descartes/internal/plainfile"
	"descartes/loop/gate"
)

// MaxFile bounds descartes.yaml, in bytes.
const MaxFile = 1 << 20

// File is what descartes.yaml says, over the defaults.
type File struct {
	Settings
	Name  string         // in messages
	Lines map[string]int // where each key is
}

// Error says what is wrong with descartes.yaml or a command line; Hint is the next step, "" where nobody knows.
type Error struct {
	Hint    string
	Unknown string   // a word that there is not
	Known   []string // those that there are; nil: the keys of the settings
	err     error
}

// Wrong is an *Error.
func Wrong(hint, format string, args ...any) *Error {
	return &Error{Hint: hint, err: fmt.Errorf(format, args...)}
}

func (e *Error) Error() string { return e.err.Error() }
func (e *Error) Unwrap() error { return e.err }

// Next is the hint.
func (e *Error) Next() string { return e.Hint }

// Near are the words that there are in place of the one that there is not. Of a setting, which is known by the last
// part of its key, it is the whole key.
func (e *Error) Near() (wrong string, known []string) {
	if e.Known != nil {
		return e.Unknown, e.Known
	}
	if len(endIn(e.Unknown)) > 0 { // it stands in the wrong place: the word itself is right
		return "", nil
	}
	return e.Unknown, endIn("")
}

// endIn are the keys of settings whose last part is a word, "" for all.
func endIn(word string) (keys []string) {
	for _, one := range All() {
		if one.YAML && (word == "" || one.Key[strings.LastIndexByte(one.Key, '.')+1:] == word) {
			keys = append(keys, one.Key)
		}
	}
	return keys
}

// ReadFile reads descartes.yaml. A missing file is empty, unless it is required.
func ReadFile(path string, must bool) (*File, error) {
	f := &File{Settings: New(), Name: path, Lines: map[string]int{}}
	data, err := plainfile.Read(filepath.Dir(path), path, MaxFile)
	if errors.Is(err, fs.ErrNotExist) && !must {
		return f, nil
	}
	if err != nil {
		return nil, Wrong("", "settings: %w", err)
	}
	if f.Lines, err = f.read(data); err == nil {
		for _, key := range []string{"scud.verification_command", "verification_command"} {
			if f.Lines["verify"] > 0 && f.Lines[key] > 0 {
				err = fmt.Errorf("verify and %s set the same thing, in lines %d and %d: remove one of them", key,
					f.Lines["verify"], f.Lines[key])
			}
		}
	}
	if err != nil {
		e := Wrong("", "settings %s: %w", path, err)
		if command, ok := errors.AsType[*Error](err); ok {
			e.Hint, e.Unknown = command.Hint, command.Unknown
		}
		return nil, e
	}
	return f, nil
}

// read sets what a YAML document sets, and returns its keys with their lines.
func (s *Settings) read(data []byte) (lines map[string]int, err error) {
	lines = map[string]int{}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	_, fileType := known()
	in := reflect.New(fileType)
	if err := d.Decode(in.Interface()); err != nil && !errors.Is(err, io.EOF) {
		return lines, plainly(err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return lines, plainly(err)
	}
	keysOf(&doc, "", lines)
	for _, one := range All() {
		if lines[one.Key] == 0 || !one.YAML {
			continue
		}
		if one.kind == "backends" {
			err = s.setBackends(in.Elem().FieldByIndex(one.inFile).Interface().(map[string]row))
		} else {
			one.set(s, in.Elem().FieldByIndex(one.inFile))
			err = one.check(one.Key+":", one.value(s))
		}
		if err != nil {
			return lines, err
		}
	}
	return lines, nil
}

// keysOf finds the keys of a mapping that are given a value, with those below it and those that << brings in.
func keysOf(n *yaml.Node, prefix string, lines map[string]int) {
	switch n.Kind {
	case yaml.AliasNode:
		keysOf(n.Alias, prefix, lines)
	case yaml.DocumentNode, yaml.SequenceNode: // of mappings to merge
		for _, one := range n.Content {
			keysOf(one, prefix, lines)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			k, v := n.Content[i], n.Content[i+1]
			key := prefix + k.Value
			switch {
			case k.Tag == "!!merge":
				keysOf(v, prefix, lines)
			case v.Tag == "!!null":
			case slices.ContainsFunc(All(), func(s *Setting) bool { return strings.HasPrefix(s.Key, key+".") }):
				keysOf(v, key+".", lines)
			default:
				lines[key] = k.Line
			}
		}
	}
}

var (
	unknownKey = lazyregexp.New(`(?s)field (\S+) not found in type .*`)
	misplaced  = lazyregexp.New("(?s)cannot unmarshal !!(\\w+)(?: (`[^`]*`))? into (.*)")
)

// plainly is an error of the YAML decoder without the names of Go's types.
func plainly(err error) error {
	found, ok := errors.AsType[*yaml.TypeError](err)
	if !ok {
		return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	out := &Error{}
	lines := make([]string, len(found.Errors))
	for i, line := range found.Errors {
		if m := unknownKey.FindStringSubmatch(line); m != nil {
			said := Gone(m[1])
			if said == "" {
				out.Unknown, said = cmp.Or(out.Unknown, m[1]), "unknown setting "+m[1]
			}
			line = unknownKey.ReplaceAllStringFunc(line, func(string) string { return said })
		}
		if m := misplaced.FindStringSubmatch(line); m != nil {
			there, wanted := "is "+m[2], "settings, each with a name, are"
			switch m[1] {
			case "seq":
				there = "is a list"
			case "map":
				there = "are settings, each with a name"
			}
			switch {
			case strings.HasPrefix(m[3], "[]"):
				wanted = "a list is"
			case m[3] == "string":
				wanted = "a text is"
			case m[3] == "bool":
				wanted = "true or false is"
			case strings.HasPrefix(m[3], "int"), strings.HasPrefix(m[3], "float"):
				wanted = "a number is"
			}
			line = line[:strings.Index(line, "cannot unmarshal")] + "there " + there + ", where " + wanted + " wanted"
		}
		lines[i] = line
	}
	if n := len(lines) - 5; n > 0 {
		lines = append(lines[:5], fmt.Sprintf("and %d more", n))
	}
	out.err = errors.New(strings.Join(lines, "; "))
	return out
}

// written are the types of settings that descartes.yaml has in a form of its own.
var written = map[string]reflect.Type{
	"time": reflect.TypeFor[seconds](), "size": reflect.TypeFor[size](), "breaker": reflect.TypeFor[breaker](),
	"words": reflect.TypeFor[wordList](), "mask": reflect.TypeFor[mask](),
	"criteria": reflect.TypeFor[criteria](), "guard": reflect.TypeFor[levels](), "checks": reflect.TypeFor[checks](),
	"prices":   reflect.TypeFor[prices](),
	"backends": reflect.TypeFor[map[string]row](),
}

type (
	seconds  int
	size     int64
	breaker  int
	wordList []string // or a text with commas
	mask     []string // or off
	criteria []gate.Criterion
	prices   agent.Prices
)

func (s *seconds) UnmarshalYAML(n *yaml.Node) error { return unit(n, s, parseSeconds) }
func (s *size) UnmarshalYAML(n *yaml.Node) error    { return unit(n, s, ParseSize) }
func (b *breaker) UnmarshalYAML(n *yaml.Node) error { return unit(n, b, parseBreaker) }

// unit reads a number with a unit.
func unit[T ~int | ~int64](n *yaml.Node, to *T, parse func(string) (int64, error)) error {
	var text string
	err := n.Decode(&text)
	if err != nil {
		return err
	}
	v, err := parse(text)
	*to = T(v)
	return inLine(n, err)
}

// inLine is an error in one line of the file, which the decoder reports with others.
func inLine(n *yaml.Node, err error) error {
	if err != nil {
		return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: %v", n.Line, err)}}
	}
	return nil
}

func (w *wordList) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*w = wordsOf([]string{n.Value})
		return nil
	}
	return n.Decode((*[]string)(w))
}

func (m *mask) UnmarshalYAML(n *yaml.Node) error {
	switch {
	case n.Kind == yaml.ScalarNode && (n.Value == "off" || n.Value == "false"):
		*m = mask{"off"}
		return nil
	case n.Kind != yaml.SequenceNode:
		return inLine(n, errors.New("mask: give a list of variables, [MY_PIN, \"!NOT_SECRET\"], or off"))
	}
	return n.Decode((*[]string)(m))
}

func (c *criteria) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.SequenceNode {
		return inLine(n, errors.New("criteria: expected a list"))
	}
	text, err := yaml.Marshal(n)
	if err != nil {
		return err
	}
	asked, err := gate.ParseYAML(text)
	*c = asked.Criteria
	return inLine(n, err)
}

func (p *prices) UnmarshalYAML(read func(any) error) error {
	var rows map[string]struct {
		Input       *float64
		CachedInput *float64 `yaml:"cached_input"` // left out: as input
		CacheWrite  *float64 `yaml:"cache_write"`
		Output      *float64
	}
	if err := read(&rows); err != nil {
		return err
	}
	*p = prices{}
	for _, model := range slices.Sorted(maps.Keys(rows)) {
		row := rows[model]
		if strings.TrimSpace(model) == "" {
			return errors.New("prices: a price needs the name of its model")
		}
		if row.Input == nil || row.Output == nil {
			return fmt.Errorf("prices.%s: give input and output, in dollars per million tokens", model)
		}
		for _, x := range []*float64{row.Input, row.CachedInput, row.CacheWrite, row.Output} {
			if x != nil && (*x < 0 || math.IsNaN(*x) || math.IsInf(*x, 0)) {
				return fmt.Errorf("prices.%s: %g is not a price", model, *x)
			}
		}
		(*p)[model] = agent.Price{Input: *row.Input, CachedInput: row.CachedInput, CacheWrite: row.CacheWrite,
			Output: *row.Output}
	}
	return nil
}

// row is a backend in descartes.yaml; it overrides the built-in one.
type row struct {
	agent.Row  `yaml:",inline"`
	Command    string            `yaml:"command"` // with its arguments
	Prices     prices            `yaml:"prices"`
	Model      string            `yaml:"model"` // where nothing else names one
	ModelTiers map[string]string `yaml:"model_tiers"`
}

// setBackends takes rows and their models, and checks them against the built-in table.
func (c *Config) setBackends(rows map[string]row) error {
	c.Backends, c.Models = make(map[string]agent.Row, len(rows)), nil
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		f := rows[name]
		var err error
		if f.Row.Command, err = SplitCommand("backends."+name+".command", f.Command); err != nil {
			return err
		}
		f.Row.Prices = agent.Prices(f.Prices)
		c.Backends[name] = f.Row
		if f.Model != "" || len(f.ModelTiers) > 0 {
			if c.Models == nil {
				c.Models = map[string]Models{}
			}
			c.Models[name] = Models{Default: f.Model, Tiers: f.ModelTiers}
		}
	}
	if _, err := agent.NewTable(c.Backends); err != nil {
		return fmt.Errorf("backends: %w", err)
	}
	return nil
}

// SplitCommand splits a command line as a shell would, and expands nothing in it: $HOME stays as it is typed. A blank one
// is nil; an error is an *Error.
func SplitCommand(setting, line string) (words []string, err error) {
	if strings.TrimSpace(line) == "" {
		return nil, nil
	}
	for word, wrong := range syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).WordsSeq(strings.NewReader(line)) {
		if err = wrong; err == nil {
			words = append(words, unquote(line, word.Parts, false))
		}
	}
	switch {
	case errors.As(err, new(syntax.ParseError)) && !strings.HasSuffix(err.Error(), "is not a valid word"):
		return nil, Wrong("quote it as for a shell; for pipes and variables use "+setting+" \"sh -c '...'\"",
			"%s %q: %w", setting, line, err)
	case err != nil || len(words) == 0:
		return nil, Wrong("for pipes and variables use "+setting+" \"sh -c '...'\"",
			"%s %q: give one program with its arguments", setting, line)
	}
	return words, nil
}

// unquote is the text of a word, or of what stands in double quotes.
func unquote(line string, parts []syntax.WordPart, quoted bool) string {
	var text strings.Builder
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
			for i := 0; i < len(p.Value); i++ {
				if next := p.Value[i+1:]; p.Value[i] == '\\' && next != "" && (!quoted || strings.ContainsRune("$`\"\\", rune(next[0]))) {
					i++
				}
				text.WriteByte(p.Value[i])
			}
		case *syntax.SglQuoted:
			text.WriteString(p.Value)
		case *syntax.DblQuoted:
			text.WriteString(unquote(line, p.Parts, true))
		default:
			text.WriteString(line[part.Pos().Offset():part.End().Offset()])
		}
	}
	return text.String()
}
