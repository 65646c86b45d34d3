package agent

import (
	"slices"
	"strings"
)

// With is the backend run by the user's command. Options of the backend that
// the command does not have are added to it, with their values: without them
// the program would wait for a person, or print what nobody can read.
func (b Backend) With(command []string) Backend {
	own := b.Command
	b.Command = slices.Clone(command)
	if len(own) == 0 {
		return b
	}
	for _, group := range options(own[1:]) {
		if !hasOption(command, group) {
			b.Command = append(b.Command, group...)
		}
	}
	return b
}

// options groups arguments: an option with the values that follow it, or a
// word that stands by itself.
func options(args []string) (groups [][]string) {
	for n, arg := range args {
		last := len(groups) - 1
		if n > 0 && !strings.HasPrefix(arg, "-") && last >= 0 && strings.HasPrefix(groups[last][0], "-") && takesValue(groups[last][0]) {
			groups[last] = append(groups[last], arg)
			continue
		}
		groups = append(groups, []string{arg})
	}
	return groups
}

// takesValue tells options with a value from those that a word of another
// meaning may follow.
func takesValue(option string) bool {
	switch option {
	case "-p", "--json", "--auto", "--yolo", "--verbose":
		return false
	}
	return true
}

// hasOption reports whether a command has an option already, by this name or
// another, with whatever value; -c holds settings, each its own option.
func hasOption(command, group []string) bool {
	for n, arg := range command {
		name, _, _ := strings.Cut(arg, "=")
		switch {
		case n == 0 || sameOption(name) != sameOption(group[0]):
		case group[0] != "-c":
			return true
		case n+1 < len(command):
			key, _, _ := strings.Cut(command[n+1], "=")
			ours, _, _ := strings.Cut(group[1], "=")
			if key == ours {
				return true
			}
		}
	}
	return false
}

// sameOption is an option's long name.
func sameOption(name string) string {
	switch name {
	case "-p", "--print":
		return "--print"
	case "-o", "--output-format":
		return "--output-format"
	case "--config":
		return "-c"
	case "-y", "--yolo", "--dangerously-bypass-approvals-and-sandbox", "--dangerously-skip-permissions", "--auto":
		return "--yolo"
	case "--allow-all", "--allow-all-tools":
		return "--allow-all-tools"
	}
	return name
}
