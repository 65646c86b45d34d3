package loop

import (
	"fmt"
	"strings"

	"descartes/loop/gate"
)

// NewGate is what ends a loop with these settings. Without a promise to look for it is nil: the first
// iteration that ends with exit status 0 is the last one.
func NewGate(c Config) (Gate, error) {
	switch c.Gate {
	case "", "promise":
		if strings.TrimSpace(c.CompletionPromise) == "" {
			return nil, nil
		}
		return &gate.Promise{Word: c.CompletionPromise}, nil
	}
	return nil, fmt.Errorf("no gate %q: there is promise", c.Gate)
}
