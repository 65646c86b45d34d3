//go:build !linux

package proc

import (
	"context"
	"errors"
	"syscall"

	"descartes/agent/process"
)

const layersWord = "layers"

func layered([]process.Layer, []string, []string, *syscall.SysProcAttr) ([]string, error) {
	return nil, errors.New("layers are only known on Linux")
}

func becomeLayered([]string) int { return 1 }

// CanLayer is false: there are none.
func CanLayer(context.Context, string, string, []string) bool { return false }

// CanMount is false, too.
func CanMount(context.Context, string, []process.Layer, []string) bool { return false }
