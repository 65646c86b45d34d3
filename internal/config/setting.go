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
	"time"

	"github.com/spf13/pflag"

	"descartes/agent"
	"descartes/verify"
)

// Setting is one field of Settings, as its tags describe it.
type Setting struct {
	Key   string   // in descartes.yaml and config show, as "git.hooks"; "" for what only a start needs
	YAML  bool     // descartes.yaml may have it
	Flag  string   // "" for none
	From  string   // the flag that it is made from; "" for none
	Help  string   // of the flag, with its value's name in backquotes
	Words []string // allowed values; nil for any
	Power bool     // it decides what runs, or what that may touch
	Trust string   // whether the settings file needs the user's trust for it: one of the words of its trust tag

	safe    []string // values that need no trust
	kind    string   // how it is written: its type tag, else its field's type
	initial string   // the default tag
	open    string
	short   string // the flag's letter
	least   *int
	in      []string
	index   []int
}

// The words of a trust tag.
const (
	harmless = "no"
	always   = "yes"      // "yes but a b": not for these values
	confined = "confined" // a command: only where the file turns off the sandbox that confines it
	outside  = "outside"  // a path: only where it leads out of the project
)

// all are the settings, in the order of their fields.
var all = settingsOf(reflect.TypeFor[Settings](), "", nil)

// All lists the settings. Do not change it.
func All() []*Setting { return all }

// Is reports whether a setting applies there: one of the words of its in tag.
func (s *Setting) Is(word string) bool { return slices.Contains(s.in, word) }

// Variable is the environment variable that sets a flag.
func Variable(flag string) string {
	return "DESCARTES_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func settingsOf(t reflect.Type, prefix string, index []int) (list []*Setting) {
	for i := range t.NumField() {
		f := t.Field(i)
		at, tag := append(slices.Clone(index), i), f.Tag
		name, _, _ := strings.Cut(tag.Get("json"), ",")
		yaml := cmp.Or(tag.Get("yaml"), name)
		switch {
		case f.Anonymous:
			list = append(list, settingsOf(f.Type, prefix, at)...)
			continue
		case f.Type.Kind() == reflect.Struct:
			list = append(list, settingsOf(f.Type, prefix+name+".", at)...)
			continue
		case tag.Get("flag") == "" && (yaml == "-" || yaml == ""):
			continue // found out by a run, and kept with its settings
		}
		trust, safe, _ := strings.Cut(tag.Get("trust"), " but ")
		s := &Setting{YAML: yaml != "-" && yaml != "", Flag: tag.Get("flag"), From: tag.Get("from"), Help: tag.Get("help"), Trust: trust, safe: strings.Fields(safe),
			Power: tag.Get("power") == "yes" || trust == always || trust == confined,
			kind:  cmp.Or(tag.Get("type"), strings.TrimPrefix(f.Type.String(), "[]")), initial: tag.Get("default"), open: tag.Get("open"), short: tag.Get("short"), in: strings.Fields(tag.Get("in")), index: at}
		if name != "" {
			s.Key = prefix + name
			if s.YAML {
				s.Key = prefix + yaml
			}
		}
		if f.Type == reflect.TypeFor[[]string]() && tag.Get("type") == "" {
			s.kind = "lines"
		}
		if w := tag.Get("words"); w != "" {
			s.Words = strings.Split(w, "|")
		}
		if n, err := strconv.Atoi(tag.Get("least")); err == nil {
			s.least = &n
		}
		if arg := tag.Get("arg"); arg != "" {
			s.Help = strings.Replace(s.Help, arg, "`"+arg+"`", 1)
		}
		if before, after, ok := strings.Cut(s.Help, "{backends}"); ok {
			s.Help = before + strings.Join(agent.Names(), ", ") + after
		}
		list = append(list, s)
	}
	return list
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
	for _, one := range all {
		if one.initial != "" {
			if err := one.parse(one.value(&s), one.initial); err != nil {
				panic(fmt.Sprintf("default of %s%s: %v", one.Key, one.Flag, err)) // a tag of ours
			}
		}
	}
	return s
}

// parse sets the setting's field from a flag or the environment; a list may be given by several texts.
func (s *Setting) parse(field reflect.Value, texts ...string) error {
	x, err := s.parsed(texts)
	if err == nil {
		field.Set(reflect.ValueOf(x).Convert(field.Type()))
	}
	return err
}

func (s *Setting) parsed(texts []string) (any, error) {
	text := texts[len(texts)-1]
	switch s.kind {
	case "lines", "paths", "patterns":
		return slices.Clone(texts), nil
	case "words":
		return wordsOf(texts), nil
	case "bool":
		return strconv.ParseBool(text)
	case "int":
		return strconv.ParseInt(text, 0, 64)
	case "float64":
		return strconv.ParseFloat(text, 64)
	case "secs", "duration":
		return parseSeconds(text)
	case "cooldown":
		n, err := parseSeconds(text)
		if err == nil && n == 0 && text != "" {
			err = errors.New("must be more than 0; loop resume --yes lets the loop try at once")
		}
		return n, err
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
	if s.kind == "cut" {
		return text == "cut", nil
	}
	return text, nil
}

// text is a value as it is typed; "" for the zero value of what has a unit.
func (s *Setting) text(v reflect.Value) string {
	switch s.kind {
	case "lines", "paths", "words":
		return strings.Join(v.Interface().([]string), ",")
	case "cut":
		return s.Words[map[bool]int{true: 1}[v.Bool()]]
	case "secs", "duration", "cooldown":
		return secondsText(v.Int())
	case "size":
		return sizeText(v.Int())
	case "breaker":
		switch n := v.Int(); {
		case n < 0:
			return "off"
		case n == 0:
			return ""
		}
	case "deadline":
		if v.IsNil() {
			return ""
		}
		return v.Interface().(*time.Time).Format(time.RFC3339Nano)
	}
	return fmt.Sprint(v.Interface())
}

// Check refuses values that no flag or file could have given: others may have written the state file.
func (s *Settings) Check() error {
	for _, one := range all {
		v := one.value(s)
		if one.Key == "" || v.IsZero() {
			continue
		}
		if one.kind == "patterns" {
			if err := checkPatterns(v.Interface().([]string)); err != nil {
				return fmt.Errorf("%s: %w", one.Key, err)
			}
		}
		if one.kind == "guard" {
			if err := checkGuard(s.Guard); err != nil {
				return fmt.Errorf("%s: %w", one.Key, err)
			}
		}
		if one.kind == "checks" {
			if err := verify.CheckAll(s.Checks); err != nil {
				return fmt.Errorf("%s: %w", one.Key, err)
			}
		}
		if one.Words != nil && one.kind == "string" && !slices.Contains(one.Words, v.String()) {
			return fmt.Errorf("%s: %w", one.Key, noneOf(v.String(), one.Words))
		}
		if err := one.check(one.Key, v); err != nil {
			return err
		}
	}
	return nil
}

// check refuses a number that is out of bounds; name is what the user wrote, a flag or a key.
func (s *Setting) check(name string, v reflect.Value) error {
	flag := strings.HasPrefix(name, "--")
	if !flag {
		name += ":"
	}
	if s.kind == "float64" && (v.Float() < 0 || math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0)) {
		return fmt.Errorf("%s %g: give a sum of dollars", name, v.Float())
	}
	least := s.least
	if least == nil && (s.kind == "secs" || s.kind == "cooldown") {
		least = new(int)
	}
	switch {
	case least == nil || v.Int() >= int64(*least):
		return nil
	case *least > 0:
		return fmt.Errorf("%s %d: must be at least %d", name, v.Int(), *least)
	case flag:
		return fmt.Errorf("%s %d: must not be negative", name, v.Int())
	}
	return fmt.Errorf("%s %d is negative", name, v.Int())
}

// typeName is the name of a flag's value in its help, for a flag whose help has no such word.
func (s *Setting) typeName() string {
	switch s.kind {
	case "secs", "duration", "cooldown", "deadline":
		return "time"
	case "size":
		return "size"
	case "breaker":
		return "N|off"
	case "lines", "paths", "words":
		return "strings"
	}
	if s.Words != nil {
		return strings.Join(s.Words, "|")
	}
	return strings.Replace(s.kind, "path", "string", 1)
}

// given is a flag's value: it sets the field and keeps the texts for Over.
type given struct {
	of    []*Setting // the one with the help first
	to    *Settings
	texts []string
}

func (g *given) String() string {
	if g == nil || g.to == nil {
		return ""
	}
	return g.of[0].text(g.of[0].value(g.to))
}

// Texts are the texts that the flag was given.
func (g *given) Texts() []string { return g.texts }

func (g *given) Type() string { return g.of[0].typeName() }

func (g *given) Set(text string) error {
	texts := []string{text}
	if slices.Contains([]string{"lines", "paths", "words"}, g.of[0].kind) {
		texts = append(slices.Clone(g.texts), text)
	}
	for _, s := range g.of {
		if err := s.parse(s.value(g.to), texts...); err != nil {
			return err
		}
	}
	g.texts = texts
	if g.of[0].kind == "deadline" && text != "" { // 8h counts from now on
		g.texts = []string{g.String()}
	}
	return nil
}

// Bind makes the flags of the wanted settings. s must come from New, and must not move.
func (s *Settings) Bind(f *pflag.FlagSet, wanted func(*Setting) bool) {
	for _, one := range all {
		if one.Flag == "" || one.Help == "" || !wanted(one) {
			continue
		}
		g := &given{of: []*Setting{one}, to: s}
		for _, other := range all {
			if other.Flag == one.Flag && other != one {
				g.of = append(g.of, other)
			}
		}
		fl := f.VarPF(g, one.Flag, one.short, one.Help)
		if one.kind == "bool" {
			fl.NoOptDefVal = "true"
		}
		if one.kind == "address" {
			fl.NoOptDefVal = DefaultAddress
		}
	}
}

// Over applies the given flags to the settings. at turns a typed path into one of the project; nil leaves it as it
// is. An error is an *Error.
func (s *Settings) Over(f *pflag.FlagSet, below Config, at func(path string) string) (err error) {
	s.Config = below
	if f.Changed("verify") { // one command replaces the file's list
		s.Checks = nil
	}
	f.Visit(func(fl *pflag.Flag) {
		g, ok := fl.Value.(*given)
		if !ok || err != nil {
			return
		}
		for _, one := range g.of {
			texts := slices.Clone(g.texts)
			for i := range texts {
				if at != nil && strings.HasPrefix(one.kind, "path") && texts[i] != "" {
					texts[i] = at(texts[i])
				}
			}
			v := one.value(s)
			if err = one.parse(v, texts...); err == nil {
				err = one.check("--"+fl.Name, v)
			}
			if err != nil {
				return
			}
		}
	})
	if err != nil {
		return wrong("", "%w", err)
	}
	return nil
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

func secondsText(n int64) string {
	if n == 0 {
		return ""
	}
	text := (time.Duration(n) * time.Second).String()
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}
	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
	}
	return text
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

func sizeText(n int64) string {
	if n == 0 {
		return ""
	}
	letter := ""
	for _, unit := range []string{"K", "M", "G", "T"} {
		if n%1024 != 0 {
			break
		}
		n, letter = n/1024, unit
	}
	return strconv.FormatInt(n, 10) + letter
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
	return nil, fmt.Errorf("%q is not a time like 2006-01-02T15:04:05Z or 15:04, nor a duration like 8h", text)
}
