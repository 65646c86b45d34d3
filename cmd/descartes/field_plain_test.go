//go:build !crashpoints

package main

// fieldTags are the build tags of the program under test.
const fieldTags = ""
