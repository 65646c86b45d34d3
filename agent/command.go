package agent

import (
	"slices"
	"strings"
)

// With is the backend run by the user's command. Options of the backend that
// the command does not have are added to it, with their values: without them
// the program would wait for a person, or print what nobody can read. Nothing
// is added about a subject that the command has settled, in whatever words.
func (b Backend) With(command []string) Backend {
	own := b.Command
	b.Command = slices.Clone(command)
	if len(own) == 0 {
		return b
	}
	for _, group := range options(own[1:]) {
		if !b.settled(command, group) {
			b.Command = append(b.Command, group...)
		}
	}
	if b.settled(command, b.ModelArgs) {
		b.ModelArgs = nil
	}
	if b.settled(command, b.SessionArgs) {
		b.SessionArgs = nil
	}
	if b.settled(command, b.StdinArgs) {
		b.StdinArgs = nil
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

// settled reports whether a command says something about what an option of
// ours is for: by its name, or by another of the same subject.
func (b Backend) settled(command, group []string) bool {
	if len(group) == 0 {
		return false
	}
	name := group[0]
	if name == "-c" { // settings, each a subject of its own
		name += " " + settingKey(group[1])
	}
	names := []string{name}
	for _, subject := range b.Subjects {
		if slices.Contains(subject, name) {
			names = append(names, subject...)
		}
	}
	return slices.ContainsFunc(names, func(name string) bool { return states(command, name) })
}

// states reports whether a command has an option, however it is written:
// --name value, --name=value, --no-name, --camelCase, -n value, -nvalue, or
// among other letters, as in -dn. With a word after its name, as in
// "--mode plan" or "-c sandbox_mode", the option must have that value, or set
// that key or one below it.
func states(command []string, name string) bool {
	name, value, valued := strings.Cut(name, " ")
	for n := 1; n < len(command); n++ {
		given, is := optionValue(command[n], name)
		if !is && valued && name == "-c" {
			given, is = optionValue(command[n], "--config")
		}
		if !is {
			continue
		}
		if given == "" && n+1 < len(command) {
			given = command[n+1]
		}
		if key := settingKey(given); !valued || key == value || strings.HasPrefix(key, value+".") {
			return true
		}
	}
	return false
}

// optionValue reports whether an argument is the option of that name, and
// gives the value that is written into it.
func optionValue(arg, name string) (value string, is bool) {
	if !strings.HasPrefix(name, "-") || name == "-" {
		return "", arg == name
	}
	if strings.HasPrefix(name, "--") {
		arg, value, _ = strings.Cut(arg, "=")
		return value, kebab(arg) == kebab(name)
	}
	if value, is = strings.CutPrefix(arg, name); is {
		return strings.TrimPrefix(value, "="), true
	}
	letters := strings.TrimPrefix(arg, "-")
	switches := len(letters) > 1 && len(letters) <= 3 && strings.Trim(strings.ToLower(letters), "abcdefghijklmnopqrstuvwxyz") == ""
	return "", arg != letters && switches && strings.Contains(letters, name[1:])
}

// kebab is a long option as most clients write it: yargs also takes
// --approvalMode for --approval-mode, and --no-yolo for --yolo=false.
func kebab(option string) string {
	if !strings.HasPrefix(option, "--") {
		return option
	}
	option = "--" + strings.TrimPrefix(option[2:], "no-")
	var b strings.Builder
	for n, c := range option {
		if 'A' <= c && c <= 'Z' && n > 2 {
			b.WriteByte('-')
		}
		b.WriteString(strings.ToLower(string(c)))
	}
	return b.String()
}

// settingKey is the key of a setting such as sandbox_mode="read-only".
func settingKey(setting string) string {
	key, _, _ := strings.Cut(setting, "=")
	return strings.TrimSpace(key)
}
