package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/mattn/go-shellwords"
	"gopkg.in/yaml.v3"

	"descartes/agent"
	"descartes/internal/plainfile"
	"descartes/loop/gate"
)

// MaxFile bounds descartes.yaml, in bytes; maxKeys bounds the keys in one place of it.
const (
	MaxFile = 1 << 20
	maxKeys = 2000
)

// File is what descartes.yaml says, over the defaults.
type File struct {
	Config
	Lines map[string]int // where each key is
}

// Error says what is wrong with descartes.yaml or a command line; Hint is what was probably meant, "" where nobody
// knows.
type Error struct {
	Hint string
	err  error
}

// wrong is an *Error.
func wrong(hint, format string, args ...any) *Error {
	return &Error{Hint: hint, err: fmt.Errorf(format, args...)}
}

func (e *Error) Error() string { return e.err.Error() }
func (e *Error) Unwrap() error { return e.err }

// ReadFile reads descartes.yaml. A missing file is empty, unless it is required.
func ReadFile(path string, must bool) (*File, error) {
	s := New()
	r := &reader{to: &s, lines: map[string]int{}}
	data, err := plainfile.Read(filepath.Dir(path), path, MaxFile)
	if errors.Is(err, fs.ErrNotExist) && !must {
		return &File{Config: s.Config, Lines: r.lines}, nil
	}
	if err != nil {
		return nil, wrong("", "settings: %w", err)
	}
	if err := r.read(data); err != nil {
		var command *Error
		if errors.As(err, &command) {
			r.hint = command.Hint
		}
		return nil, wrong(r.hint, "settings %s: %w", path, err)
	}
	return &File{Config: s.Config, Lines: r.lines}, nil
}

// reader reads the nodes of a settings file into settings.
type reader struct {
	to     *Settings
	lines  map[string]int // of keys
	wrong  []string       // what does not fit, each with its line
	hint   string
	merges int
	err    error // of the first setting with an impossible value
}

func (r *reader) read(data []byte) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(doc.Content) > 0 && doc.Content[0].Tag != "!!null" {
		r.group("", doc.Content[0])
	}
	if len(r.wrong) > 0 {
		return errors.New(strings.Join(r.wrong, "; "))
	}
	if r.err == nil && r.lines["verify"] > 0 {
		r.err = r.oneVerify()
	}
	for _, s := range all {
		if _, in := r.lines[s.Key]; in && r.err == nil {
			r.err = s.check(s.Key, s.value(r.to))
		}
	}
	return r.err
}

// group reads the settings below a prefix.
func (r *reader) group(prefix string, n *yaml.Node) {
	r.pairs(n, func(k, v *yaml.Node) {
		key := prefix + k.Value
		at := slices.IndexFunc(all, func(s *Setting) bool { return s.YAML && s.Key == key })
		switch {
		case at >= 0:
			r.lines[key] = k.Line
			r.setting(all[at], v)
		case slices.ContainsFunc(all, func(s *Setting) bool { return s.YAML && strings.HasPrefix(s.Key, key+".") }):
			r.lines[key] = k.Line
			if v.Tag != "!!null" {
				r.group(key+".", v)
			}
		default:
			r.unknown(k, prefix, keysBelow(prefix))
		}
	})
}

// keysBelow lists the words that may follow a prefix.
func keysBelow(prefix string) (out []string) {
	for _, s := range all {
		if rest, ok := strings.CutPrefix(s.Key, prefix); ok && s.YAML {
			word, _, _ := strings.Cut(rest, ".")
			out = append(out, word)
		}
	}
	return out
}

// unknown refuses a key and suggests the one that was probably meant.
func (r *reader) unknown(k *yaml.Node, prefix string, known []string) {
	r.note(k, "unknown setting %s", k.Value)
	best, least := "", 3
	if len(k.Value) > 40 {
		known = nil // too far from any of them to be a typo
	}
	for _, word := range known {
		if d := distance(k.Value, word); d < least || strings.HasPrefix(word, k.Value+"_") && least == 3 {
			best, least = word, min(d, least-1)
		}
	}
	if best != "" && r.hint == "" {
		r.hint = "did you mean " + prefix + best + "?"
	}
}

// distance counts the letters to insert, drop or change to make one word the other.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := before
			if a[i] != b[j] {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

func (r *reader) note(n *yaml.Node, format string, args ...any) {
	r.wrong = append(r.wrong, fmt.Sprintf("line %d: %s", n.Line, fmt.Sprintf(format, args...)))
}

// unfit reports a node of the wrong kind.
func (r *reader) unfit(n *yaml.Node, wanted string) {
	there := fmt.Sprintf("is `%s`", n.Value)
	switch n.Kind {
	case yaml.SequenceNode:
		there = "is a list"
	case yaml.MappingNode:
		there = "are settings, each with a name"
	}
	r.note(n, "there %s, where %s wanted", there, wanted)
}

// pairs calls each for every key of a mapping. A key of the mapping itself wins over one that << brings in.
func (r *reader) pairs(n *yaml.Node, each func(k, v *yaml.Node)) {
	n = resolved(n)
	if n.Kind != yaml.MappingNode {
		r.unfit(n, "settings, each with a name, are")
		return
	}
	if len(n.Content)/2 > maxKeys {
		r.note(n, "%d keys in one place: at most %d are allowed", len(n.Content)/2, maxKeys)
		return
	}
	seen := map[string]int{}
	for _, merged := range []bool{true, false} {
		for i := 0; i+1 < len(n.Content); i += 2 {
			k, v := resolved(n.Content[i]), n.Content[i+1]
			switch merge := k.Tag == "!!merge"; {
			case merge && merged:
				r.merge(v, each)
			case merge || merged:
			case seen[k.Value] > 0:
				r.note(k, "mapping key %q already defined at line %d", k.Value, seen[k.Value])
			default:
				seen[k.Value] = k.Line
				each(k, resolved(v))
			}
		}
	}
}

// merge handles <<: a mapping, or a list of mappings of which the first wins.
func (r *reader) merge(v *yaml.Node, each func(k, v *yaml.Node)) {
	if r.merges++; r.merges > 100 {
		r.note(v, "too many << in one file")
		return
	}
	if v = resolved(v); v.Kind != yaml.SequenceNode {
		r.pairs(v, each)
		return
	}
	for _, one := range slices.Backward(v.Content) {
		r.pairs(one, each)
	}
}

func resolved(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// setting reads the value of one setting.
func (r *reader) setting(s *Setting, n *yaml.Node) {
	v := s.value(r.to)
	fail := func(err error) {
		if err != nil && r.err == nil {
			r.err = fmt.Errorf("%s: %w", s.Key, err)
		}
	}
	off := n.Kind == yaml.ScalarNode && (n.Value == "off" || n.Value == "false")
	switch {
	case n.Tag == "!!null":
	case n.Kind == yaml.ScalarNode && slices.Contains([]string{"duration", "size", "breaker", "words"}, s.kind):
		fail(s.parse(v, n.Value))
	case s.kind == "mask" && off:
		v.Set(reflect.ValueOf([]string{"off"}))
	case s.kind == "mask" && n.Kind != yaml.SequenceNode:
		fail(errors.New("give a list of variables, [MY_PIN, \"!NOT_SECRET\"], or off"))
	case s.kind == "criteria":
		fail(r.criteria(v, n))
	case s.kind == "patterns":
		r.decode(n, v)
		fail(checkPatterns(v.Interface().([]string)))
	case s.kind == "guard":
		fail(r.guardLevels(n))
	case s.kind == "checks":
		fail(r.checks(n))
	case s.kind == "prices":
		var rows map[string]price
		r.decode(n, reflect.ValueOf(&rows).Elem())
		prices, err := pricesOf(s.Key, rows)
		if err != nil && r.err == nil {
			r.err = err
		}
		v.Set(reflect.ValueOf(prices))
	case s.kind == "backends":
		if err := r.backends(n); err != nil && r.err == nil {
			r.err = err
		}
	default:
		r.decode(n, v)
		if s.Words != nil && s.kind == "string" && !slices.Contains(s.Words, v.String()) && v.String() != "" {
			fail(noneOf(v.String(), s.Words))
		}
	}
}

// decode reads a node into a value of a plain type. The keys of structs are their fields' names in JSON.
func (r *reader) decode(n *yaml.Node, v reflect.Value) {
	n = resolved(n)
	if n.Tag == "!!null" {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		r.decode(n, v.Elem())
	case reflect.Map:
		m := reflect.MakeMap(v.Type())
		r.pairs(n, func(k, one *yaml.Node) {
			name, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			r.scalar(k, name)
			r.decode(one, value)
			m.SetMapIndex(name, value)
		})
		v.Set(m)
	case reflect.Struct:
		fields := fieldsOf(v.Type())
		r.pairs(n, func(k, one *yaml.Node) {
			if at, ok := fields[k.Value]; ok {
				r.decode(one, v.FieldByIndex(at))
			} else {
				r.unknown(k, "", slices.Sorted(maps.Keys(fields)))
			}
		})
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			r.unfit(n, "a list is")
			return
		}
		list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
		for i, one := range n.Content {
			r.decode(one, list.Index(i))
		}
		v.Set(list)
	default:
		r.scalar(n, v)
	}
}

func (r *reader) scalar(n *yaml.Node, v reflect.Value) {
	if n.Kind == yaml.ScalarNode && n.Decode(v.Addr().Interface()) == nil {
		return
	}
	wanted := map[reflect.Kind]string{reflect.String: "a text", reflect.Bool: "true or false", reflect.Float64: "a number"}[v.Kind()]
	r.unfit(n, cmp.Or(wanted, "a whole number")+" is")
}

// fieldsOf finds the fields of a struct by their JSON names; its own fields hide those of an embedded struct.
func fieldsOf(t reflect.Type) map[string][]int {
	out := map[string][]int{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if was, ok := out[name]; name != "" && name != "-" && (!ok || len(f.Index) < len(was)) {
			out[name] = f.Index
		}
	}
	return out
}

func (r *reader) criteria(v reflect.Value, n *yaml.Node) error {
	if n.Kind != yaml.SequenceNode {
		return fmt.Errorf("line %d: expected a list", n.Line)
	}
	text, err := yaml.Marshal(n)
	if err != nil {
		return err
	}
	asked, err := gate.ParseYAML(text)
	v.Set(reflect.ValueOf(asked.Criteria))
	return err
}

// price is a model's price in descartes.yaml, in dollars per million tokens.
type price struct {
	Input       *float64 `json:"input"`
	CachedInput *float64 `json:"cached_input"` // left out: as input
	CacheWrite  *float64 `json:"cache_write"`
	Output      *float64 `json:"output"`
}

// pricesOf checks prices; key names them in messages.
func pricesOf(key string, rows map[string]price) (agent.Prices, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	out := make(agent.Prices, len(rows))
	for _, model := range slices.Sorted(maps.Keys(rows)) {
		p := rows[model]
		if strings.TrimSpace(model) == "" {
			return nil, fmt.Errorf("%s: a price needs the name of its model", key)
		}
		if p.Input == nil || p.Output == nil {
			return nil, fmt.Errorf("%s.%s: give input and output, in dollars per million tokens", key, model)
		}
		for _, x := range []*float64{p.Input, p.CachedInput, p.CacheWrite, p.Output} {
			if x != nil && (*x < 0 || math.IsNaN(*x) || math.IsInf(*x, 0)) {
				return nil, fmt.Errorf("%s.%s: %g is not a price", key, model, *x)
			}
		}
		out[model] = agent.Price{Input: *p.Input, CachedInput: p.CachedInput, CacheWrite: p.CacheWrite, Output: *p.Output}
	}
	return out, nil
}

// row is a backend in descartes.yaml; it overrides the built-in one.
type row struct {
	agent.Row
	Command    string            `json:"command"` // with its arguments
	Prices     map[string]price  `json:"prices"`
	Model      string            `json:"model"` // where nothing else names one
	ModelTiers map[string]string `json:"model_tiers"`
}

// backends reads the rows and their models, and checks them against the built-in table.
func (r *reader) backends(n *yaml.Node) error {
	var rows map[string]row
	r.decode(n, reflect.ValueOf(&rows).Elem())
	if len(rows) == 0 || len(r.wrong) > 0 {
		return nil
	}
	c := &r.to.Config
	c.Backends, c.Models = make(map[string]agent.Row, len(rows)), nil
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		f := rows[name]
		var err error
		if f.Row.Command, err = SplitCommand("backends."+name+".command", f.Command); err != nil {
			return err
		}
		if f.Row.Prices, err = pricesOf("backends."+name+".prices", f.Prices); err != nil {
			return err
		}
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

// SplitCommand splits a command line as a shell would, and expands nothing in it. A blank one is nil; an error is an
// *Error.
func SplitCommand(setting, line string) ([]string, error) {
	if strings.TrimSpace(line) == "" {
		return nil, nil
	}
	p := shellwords.NewParser()
	p.ParseEnv, p.ParseBacktick, p.ParseComment = false, false, false
	words, err := p.Parse(line)
	if err != nil {
		return nil, wrong("quote it as for a shell; for pipes and variables use "+setting+" \"sh -c '...'\"", "%s %q: %w", setting, line, err)
	}
	if p.Position >= 0 || len(words) == 0 {
		return nil, wrong("for pipes and variables use "+setting+" \"sh -c '...'\"", "%s %q: give one program with its arguments", setting, line)
	}
	return words, nil
}
