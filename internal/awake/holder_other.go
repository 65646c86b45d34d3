//go:build !linux && !darwin

package awake

var holder []string
