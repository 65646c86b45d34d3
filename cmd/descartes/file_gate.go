package main

import (
	"fmt"

	"gopkg.in/yaml.v3"

	"descartes/loop"
	"descartes/loop/gate"
)

// fileGate is what descartes.yaml says of gates.
type fileGate struct {
	Criteria      yaml.Node `yaml:"criteria"`
	MustNot       yaml.Node `yaml:"mustNot"`
	Shape         string    `yaml:"shape"`
	Reversibility string    `yaml:"reversibility"`
	Precheck      string    `yaml:"precheck"`
	NoConfirm     bool      `yaml:"no_confirm"`
	CooldownSecs  int       `yaml:"cooldown_secs"`
	MaxFileEdits  int       `yaml:"max_file_edits"`
	LoopState     string    `yaml:"loop_state"`
}

func (f *fileGate) check(gateWord string) error {
	for _, c := range []struct{ key, value, words string }{
		{"gate", gateWord, gateWords}, {"shape", f.Shape, "auto|tool|colleague|intent"}, {"loop_state", f.LoopState, "keep|delete"},
	} {
		word := ""
		if err := (choice{&word, c.words}).Set(c.value); err != nil && c.value != "" {
			return fmt.Errorf("%s: %w", c.key, err)
		}
	}
	if f.CooldownSecs < 0 {
		return fmt.Errorf("cooldown_secs: %d is negative", f.CooldownSecs)
	}
	_, err := f.asked()
	return err
}

// asked are the criteria of the file.
func (f *fileGate) asked() (gate.Asked, error) {
	if f.Criteria.IsZero() && f.MustNot.IsZero() {
		return gate.Asked{}, nil
	}
	doc := map[string]*yaml.Node{"criteria": &f.Criteria, "mustNot": &f.MustNot}
	if f.MustNot.IsZero() {
		delete(doc, "mustNot")
	}
	if f.Criteria.IsZero() { // flags or a SHAPE.md have them
		doc = map[string]*yaml.Node{"criteria": &f.MustNot}
	}
	text, err := yaml.Marshal(doc)
	if err != nil {
		return gate.Asked{}, fmt.Errorf("criteria: %w", err)
	}
	a, err := gate.ParseYAML(text)
	if err != nil {
		return a, fmt.Errorf("criteria: %w", err)
	}
	if f.Criteria.IsZero() {
		a.Criteria, a.MustNot = nil, a.Criteria
	}
	return a, nil
}

func (f *fileGate) into(c *loop.Config) {
	a, err := f.asked()
	if err != nil {
		return // check has said so
	}
	c.GateConfig = loop.GateConfig{Criteria: a.Criteria, MustNot: a.MustNot, Shape: f.Shape, Reversibility: f.Reversibility, Precheck: f.Precheck,
		NoConfirm: f.NoConfirm, CooldownSecs: f.CooldownSecs, MaxFileEdits: f.MaxFileEdits, LoopState: f.LoopState}
}
