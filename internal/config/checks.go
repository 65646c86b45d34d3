package config

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"descartes/verify"
)

// checkRow is a check in descartes.yaml.
type checkRow struct {
	Name    string   `json:"name"`
	Run     string   `json:"run"`
	Timeout string   `json:"timeout"`
	When    string   `json:"when"`
	Retry   int      `json:"retry"`
	Results []string `json:"results"`
}

// checks reads one command, which every kind of loop uses, or a list of named checks.
func (r *reader) checks(n *yaml.Node) error {
	c := &r.to.Config
	if n.Kind == yaml.ScalarNode {
		var command string
		r.decode(n, reflect.ValueOf(&command).Elem())
		if strings.TrimSpace(command) == "" {
			return fmt.Errorf("line %d: the command is empty; write none to take the agent's word", n.Line)
		}
		c.VerificationCommand, c.Scud.VerificationCommand = command, command
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		r.unfit(n, "a command or a list of checks is")
		return nil
	}
	for _, one := range n.Content {
		check, err := r.check(resolved(one))
		if err != nil {
			return err
		}
		c.Checks = append(c.Checks, check)
	}
	if len(r.wrong) > 0 {
		return nil
	}
	return verify.CheckAll(c.Checks)
}

// check reads one check of a list.
func (r *reader) check(n *yaml.Node) (c verify.Check, err error) {
	var row checkRow
	if n.Kind == yaml.MappingNode { // results: may be a single pattern
		r.pairs(n, func(k, v *yaml.Node) {
			if k.Value == "results" && v.Kind == yaml.ScalarNode && v.Tag != "!!null" {
				*v = yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: v.Line, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Tag: v.Tag, Value: v.Value, Line: v.Line}}}
			}
		})
	}
	r.decode(n, reflect.ValueOf(&row).Elem())
	seconds, err := parseSeconds(row.Timeout)
	if err != nil {
		return c, fmt.Errorf("check %s: timeout: %w", cmp.Or(row.Name, "?"), err)
	}
	return verify.Check{Name: row.Name, Run: row.Run, Timeout: time.Duration(seconds) * time.Second, When: verify.When(row.When), Retry: row.Retry, Results: row.Results}, nil
}

// oneVerify refuses a file that gives both a command and a list, and copies the line of a single command to the
// settings that it sets.
func (r *reader) oneVerify() error {
	for _, key := range []string{"scud.verification_command", "verification_command"} {
		if r.lines[key] > 0 {
			return fmt.Errorf("verify and %s set the same thing, in lines %d and %d: remove one of them", key, r.lines["verify"], r.lines[key])
		}
	}
	if len(r.to.Checks) == 0 {
		r.lines["scud.verification_command"], r.lines["verification_command"] = r.lines["verify"], r.lines["verify"]
	}
	return nil
}
