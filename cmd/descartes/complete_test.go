package main

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestCompletionDecided finds every argument and every flag with a value for which nobody said what a shell offers.
func TestCompletionDecided(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Runnable() && !c.HasSubCommands() && c.ValidArgsFunction == nil {
			t.Errorf("%s: nothing says what completes its arguments: see internal/complete", c.CommandPath())
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if _, decided := c.GetFlagCompletionFunc(f.Name); !decided && f.Value.Type() != "bool" {
				name, _ := pflag.UnquoteUsage(f)
				t.Errorf("%s --%s %s: nothing says what completes it: see internal/complete", c.CommandPath(), f.Name, name)
			}
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRootCmd())
}
