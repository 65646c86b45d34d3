package main

import (
	"reflect"
	"slices"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// config show has every key of descartes.yaml, and knows the setting of every flag of a start that is one's.
func TestConfigShowsAll(t *testing.T) {
	t.Parallel()
	s := &settings{}
	cmd := &cobra.Command{}
	s.register(cmd)
	flags, keys, shown := flagsOf(cmd.Flags()), map[string]bool{}, []string{}
	fileKeys("", reflect.TypeFor[fileSettings](), keys)
	known := []string{"config", "ci", "no-commit", "isolated", "prompt-file", "shape-file", "yes"} // no settings of their own
	flatten("", reflect.ValueOf(&s.Config).Elem(), func(key string, v reflect.Value) {
		shown = append(shown, key)
		known = append(known, flags[v.Addr().Pointer()], otherFlag(key))
	})
	for key := range keys {
		if !slices.Contains(shown, key) {
			t.Errorf("%s of descartes.yaml is not shown", key)
		}
	}
	cmd.Flags().VisitAll(func(fl *pflag.Flag) {
		if !slices.Contains(known, fl.Name) {
			t.Errorf("--%s is the flag of no setting", fl.Name)
		}
	})
}
