// Package specbuild owns the text of an attempt: it takes a task, the part of the plan that is about
// it, extra files and the last failure, and writes one prompt of them, with a map of where each part
// came from.
//
// It reads no file, no clock and no environment: the same request gives the same bytes.
package specbuild
