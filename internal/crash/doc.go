// Package crash owns the named points at which a test may kill the program: one between any two writes that must
// survive.
//
// Without the build tag crashpoints, Point is empty. With it, two variables of the environment act:
//
//	DESCARTES_CRASH_AT=<k>              the process kills itself (SIGKILL) at the k-th point it reaches, counted from 1
//	DESCARTES_CRASH_AT=<k> <pattern>    at the k-th one whose name path.Match has fit the pattern
//	DESCARTES_CRASH_COUNT_FILE=<file>   the name of every point reached is appended to the file, one per line
package crash
