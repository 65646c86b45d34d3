//go:build !crashpoints

package tagrun

const crashes = false
