package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"descartes/agent"
	"descartes/loop/gate"
	"descartes/verify"
	"descartes/verify/judge"
)

// Setting is one field of Settings, as its tags describe it.
type Setting struct {
	Key   string   // in descartes.yaml and config show, as "git.hooks"; "" for what only a start needs
	YAML  bool     // descartes.yaml may have it
	Flag  string   // "" for none
	Help  string   // with the name of the flag's value in backquotes
	Words []string // allowed values; nil for any
	Trust string   // whether the settings file needs the user's trust for it: one of the words of its trust tag

	safe    []string // values that need no trust
	kind    string   // how it is written: its type tag, else its field's type
	typ     string   // the name of a flag's value, where its help has no such word
	from    string   // the flag that it is made from; "" for none
	initial string   // the default tag
	open    string
	short   string // the flag's letter
	alone   string // the value of the flag without one
	noEnv   bool
	least   *int
	in      []string
	index   []int
	inFile  []int // its field in fileType
}

// The words of a trust tag.
const (
	harmless = "no"
	always   = "yes"      // "yes but a b": not for these values
	confined = "confined" // a command: only where the file turns off the sandbox that confines it
	outside  = "outside"  // a path: only where it leads out of the project
)

// known are the settings, in the order of their fields, and the struct that descartes.yaml is read into. Processes
// that a run starts need neither.
var known = sync.OnceValues(func() ([]*Setting, reflect.Type) {
	return settingsOf(reflect.TypeFor[Settings](), "", nil)
})

// All lists the settings. Do not change it.
func All() []*Setting {
	all, _ := known()
	return all
}

// Find is the setting of that flag or key, or nil.
func Find(name string) *Setting {
	all := All()
	at := slices.IndexFunc(all, func(s *Setting) bool { return s.Flag == name || s.Key == name })
	if at < 0 || name == "" {
		return nil
	}
	return all[at]
}

// Is reports whether a setting applies there: one of the words of its in tag.
func (s *Setting) Is(word string) bool { return slices.Contains(s.in, word) }

// Variable is the environment variable of a setting, "" for none: that of its flag, or without one that of its key.
func (s *Setting) Variable() string {
	if s.noEnv || s.Flag == "" && !s.YAML {
		return ""
	}
	return "DESCARTES_" + strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(cmp.Or(s.Flag, s.Key)))
}

// settingsOf lists the settings of a struct, and makes the struct that a file with them is read into: its fields have
// the settings' keys and the types that they are written in.
func settingsOf(t reflect.Type, prefix string, index []int) (list []*Setting, file reflect.Type) {
	var fields []reflect.StructField
	for i := range t.NumField() {
		f := t.Field(i)
		at, tag := append(slices.Clone(index), i), f.Tag
		name, _, _ := strings.Cut(tag.Get("json"), ",")
		key := cmp.Or(tag.Get("yaml"), name)
		field := func(key string, typ reflect.Type) {
			fields = append(fields, reflect.StructField{Name: f.Name, Type: typ,
				Tag: reflect.StructTag(`yaml:"` + key + `"`)})
		}
		switch {
		case !f.IsExported():
			continue
		case f.Type.Kind() == reflect.Struct:
			if f.Anonymous {
				name = ""
			}
			below, typ := settingsOf(f.Type, strings.TrimPrefix(prefix+name+".", "."), at)
			for _, s := range below {
				s.inFile = append([]int{len(fields)}, s.inFile...)
			}
			if list = append(list, below...); f.Anonymous {
				field(",inline", typ)
			} else {
				field(name, typ)
			}
			continue
		case tag.Get("flag") == "" && (key == "-" || key == ""):
			continue // found out by a run, and kept with its settings
		}
		trust, safe, _ := strings.Cut(tag.Get("trust"), " but ")
		s := &Setting{YAML: key != "-" && key != "", Flag: tag.Get("flag"), Help: tag.Get("help"), Trust: trust,
			safe: strings.Fields(safe), from: tag.Get("from"),
			kind: cmp.Or(tag.Get("type"), strings.TrimPrefix(f.Type.String(), "[]")), initial: tag.Get("default"),
			open: tag.Get("open"), short: tag.Get("short"),
			alone: tag.Get("alone"), noEnv: tag.Get("env") == "no", in: strings.Fields(tag.Get("in")), index: at,
			inFile: []int{len(fields)}}
		if f.Type == reflect.TypeFor[[]string]() && tag.Get("type") == "" {
			s.kind = "lines"
		}
		if s.Key = prefix + name; s.YAML {
			s.Key = prefix + key
			field(key, cmp.Or(written[s.kind], f.Type))
		} else if name == "" {
			s.Key = ""
		}
		s.typ = strings.Replace(s.kind, "path", "string", 1)
		if w := tag.Get("words"); w != "" {
			s.typ, s.Words = w, strings.Split(w, "|")
		}
		if n, err := strconv.Atoi(tag.Get("least")); err == nil {
			s.least = &n
		}
		if arg := tag.Get("arg"); arg != "" {
			s.Help = strings.Replace(s.Help, arg, "`"+arg+"`", 1)
		}
		if strings.Contains(s.Help, "{backends}") {
			s.Help = strings.Replace(s.Help, "{backends}", strings.Join(agent.Names(), ", "), 1)
		}
		list = append(list, s)
	}
	return list, reflect.StructOf(fields)
}

// DefaultAddress stands for where the environment says a server is.
const DefaultAddress = "default"

// value is the setting's field.
func (s *Setting) value(of *Settings) reflect.Value {
	return reflect.ValueOf(of).Elem().FieldByIndex(s.index)
}

// New returns the default settings.
func New() Settings {
	var s Settings
	for _, one := range All() {
		if one.initial != "" {
			if err := one.parse(&s, one.initial); err != nil {
				panic(fmt.Sprintf("default of %s%s: %v", one.Key, one.Flag, err)) // a tag of ours
			}
		}
	}
	return s
}

// Fill fills in what a run uses for settings that are left open.
func (s *Settings) Fill() {
	if s.StrictEnv() {
		s.Env = EnvStrict
	}
	for _, one := range All() {
		if v := one.value(s); one.open != "" && v.IsZero() {
			if err := one.parse(s, one.open); err != nil {
				panic(fmt.Sprintf("%s: %v", one.Key, err)) // a tag of ours
			}
		}
	}
}

// parse sets a setting from a flag or the environment; a list may be given by several texts.
func (s *Setting) parse(to *Settings, texts ...string) error {
	x, err := s.parsed(texts)
	if err == nil {
		s.set(to, reflect.ValueOf(x))
	}
	return err
}

// set sets a setting. One verify command is that of every kind of run, and takes the place of a list of checks, as a
// list takes its place.
func (s *Setting) set(to *Settings, v reflect.Value) {
	field := s.value(to)
	field.Set(v.Convert(field.Type()))
	if s.kind != "checks" {
		return
	}
	command := ""
	if len(to.Checks) == 1 && to.Checks[0].Name == "" {
		command, to.Checks = to.Checks[0].Run, nil
	}
	to.VerificationCommand, to.Scud.VerificationCommand = command, command
}

func (s *Setting) parsed(texts []string) (any, error) {
	text := texts[len(texts)-1]
	switch s.kind {
	case "lines", "paths", "patterns":
		return slices.Clone(texts), nil
	case "words":
		return wordsOf(texts), nil
	case "checks":
		return []verify.Check{{Run: text}}, nil
	case "criteria":
		return gate.ParseCriteria(texts)
	case "bool":
		return strconv.ParseBool(text)
	case "int", "float64":
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || s.kind == "int" && (n != math.Trunc(n) || math.Abs(n) > 1<<31) {
			return nil, fmt.Errorf("%q is not a number", text)
		}
		return n, nil
	case "time":
		return parseSeconds(text)
	case "size":
		return ParseSize(text)
	case "breaker":
		return parseBreaker(text)
	case "deadline":
		return ParseDeadline(text, time.Now())
	}
	if s.Words != nil && !slices.Contains(s.Words, text) {
		return nil, noneOf(text, s.Words)
	}
	return text, nil
}

// Check refuses values that no flag or file could have given: others may have written the state file.
func (s *Settings) Check() error {
	for _, one := range All() {
		if v := one.value(s); one.Key != "" && !v.IsZero() {
			if err := one.check(one.Key+":", v); err != nil {
				return err
			}
		}
	}
	return nil
}

// check refuses a value that is out of bounds; name is what the user wrote, a flag or a key.
func (s *Setting) check(name string, v reflect.Value) (err error) {
	switch s.kind {
	case "float64":
		if x := v.Float(); x < 0 || math.IsNaN(x) || math.IsInf(x, 0) {
			err = fmt.Errorf("%g: give a sum of dollars", x)
		}
	case "patterns":
		err = checkPatterns(v.Interface().([]string))
	case "guard":
		err = checkGuard(v.Interface().(map[string]judge.Level))
	case "checks":
		if list := v.Interface().([]verify.Check); list != nil {
			err = verify.CheckAll(list)
		}
	case "string":
		if s.Words != nil && v.String() != "" && !slices.Contains(s.Words, v.String()) {
			err = noneOf(v.String(), s.Words)
		}
	case "int", "time":
		if least := s.least; least != nil && v.Int() < int64(*least) {
			err = fmt.Errorf("%d: must be at least %d", v.Int(), *least)
		}
	}
	if err != nil {
		err = fmt.Errorf("%s %w", name, err)
	}
	return err
}

func noneOf(text string, words []string) error {
	return fmt.Errorf("%q is not one of %s", text, strings.Join(words, ", "))
}

// wordsOf splits lines at commas.
func wordsOf(lines []string) []string {
	out := []string{}
	for _, line := range lines {
		for word := range strings.SplitSeq(line, ",") {
			if word = strings.TrimSpace(word); word != "" {
				out = append(out, word)
			}
		}
	}
	return out
}

// parseSeconds reads a number of seconds, plain or as a duration.
func parseSeconds(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		d, derr := time.ParseDuration(text)
		if derr != nil {
			return 0, fmt.Errorf("%q is neither a number of seconds nor a duration like 20m", text)
		}
		n = int(math.Ceil(d.Seconds()))
	}
	if n < 0 || n > 1<<30 {
		return 0, fmt.Errorf("%q is out of range", text)
	}
	return int64(n), nil
}

// ParseSize reads a number of bytes, with or without a unit letter.
func ParseSize(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	number := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(strings.TrimSpace(text)), "B"), "I")
	unit := 1.0
	if n := len(number); n > 0 {
		if at := strings.IndexByte("KMGT", number[n-1]); at >= 0 {
			unit, number = math.Pow(1024, float64(at+1)), number[:n-1]
		}
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || math.IsNaN(v) || v < 0 || v*unit > 1<<50 {
		return 0, fmt.Errorf("%q is not a size like 512M or 4G", text)
	}
	return int64(v * unit), nil
}

// parseBreaker reads a number of tasks, or off.
func parseBreaker(text string) (int64, error) {
	if text == "off" || text == "false" {
		return -1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is neither a number of tasks nor off", text)
	}
	return int64(n), nil
}

// ParseDeadline reads a point in time: a date, the next HH:MM, or a duration from now; nil is none.
func ParseDeadline(text string, now time.Time) (*time.Time, error) {
	if text == "" {
		return nil, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return &t, nil
	}
	if c, err := time.Parse("15:04", text); err == nil {
		t := time.Date(now.Year(), now.Month(), now.Day(), c.Hour(), c.Minute(), 0, 0, now.Location())
		if !t.After(now) {
			t = t.AddDate(0, 0, 1)
		}
		return &t, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		t := now.Add(d)
		return &t, nil
	}
	return nil, errors.New(strconv.Quote(text) +
		" is not a time like 2006-01-02T15:04:05Z or 15:04, nor a duration like 8h")
}
