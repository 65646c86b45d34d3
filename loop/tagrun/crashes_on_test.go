//go:build crashpoints

package tagrun

// crashes says that crashes are tried: more of them than a usual test has time for.
const crashes = true
