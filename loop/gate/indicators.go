package gate

import (
	"slices"
	"strings"
)

// Indicators counts how often a message says that the work is done: the words done, complete,
// completed and finished, and phrases such as "ready for review" or "nothing left to do". Not counted
// is what is denied ("not all tasks are done yet"), hoped for ("once it is done"), partial ("almost
// done", "80% complete"), asked or commanded ("complete the API"); nor what stands in code or in a
// status block, which states the same for itself.
func Indicators(message string) int {
	for _, name := range []string{"RALPH_STATUS", "LOOP_STATUS"} {
		_, message, _ = lastBlock(message, name)
	}
	lines, code := prose(message)
	n := 0
	for i, line := range lines {
		if code[i] || entryOpen(line) {
			continue
		}
		for _, s := range sentences(line) {
			n += indicated(s)
		}
	}
	return n
}

// entryOpen reports whether a line is an unchecked entry of a checklist.
func entryOpen(line string) bool {
	_, box, _, ok := entry(line)
	return ok && box == ""
}

// sentences splits a line into clauses that a denial does not reach across; a question is dropped.
func sentences(line string) []string {
	var out []string
	start := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '.', '!', ';', ',', '?':
			if line[i] == '.' && i+1 < len(line) && line[i+1] != ' ' && line[i+1] != '\t' {
				continue // 1.2, main.go
			}
			if line[i] != '?' {
				out = append(out, line[start:i])
			}
			start = i + 1
		}
	}
	out = append(out, line[start:])
	var parts []string
	for _, s := range out {
		for low := strings.ToLower(s); len(low) == len(s); low = strings.ToLower(s) {
			at := strings.Index(low, " but ")
			if at < 0 {
				break
			}
			parts, s = append(parts, s[:at]), s[at+len(" but "):]
		}
		parts = append(parts, s)
	}
	return parts
}

func indicated(clause string) int {
	clause = strings.ReplaceAll(strings.ReplaceAll(clause, "’", "'"), "n't", " not")
	percent := strings.Contains(clause, "%") && !strings.Contains(clause, "100%")
	ws := words(clause)
	n := 0
	for i := 0; i < len(ws); i++ {
		size := indicator(ws[i:])
		if size == 0 {
			continue
		}
		if !percent && !denied(ws, i) && !commanded(ws, i, size) {
			n++
		}
		i += size - 1
	}
	return n
}

// indicator is the number of words of the indicator that ws begins with, or 0.
func indicator(ws []string) int {
	for _, phrase := range [][]string{
		{"ready", "for", "review"}, {"ready", "to", "merge"}, {"ready", "to", "ship"},
		{"nothing", "left"}, {"nothing", "remains"}, {"nothing", "is", "left"}, {"nothing", "else", "to", "do"},
		{"no", "remaining", "tasks"}, {"no", "remaining", "work"}, {"no", "tasks", "remain"}, {"no", "tasks", "remaining"},
		{"no", "tasks", "left"}, {"no", "further", "work"}, {"no", "work", "remains"}, {"no", "meaningful", "work", "remains"},
	} {
		if len(ws) >= len(phrase) && slices.Equal(ws[:len(phrase)], phrase) {
			return len(phrase)
		}
	}
	switch ws[0] {
	case "done", "complete", "completed", "finished":
		return 1
	}
	return 0
}

// reach is how many words before and after it can deny a word.
const reach = 40

// denied reports whether the clause takes back or puts off what it says at word i.
func denied(ws []string, i int) bool {
	from := max(0, i-reach)
	ws, i = ws[from:min(len(ws), i+reach)], i-from
	for k, w := range ws {
		switch w {
		case "yet", "remaining", "almost", "nearly", "partially", "partly", "half", "mostly":
			if k < i || w == "yet" {
				return true
			}
		case "not", "never", "cannot", "without", "until", "unless", "when", "whenever", "once", "if", "before", "will", "would",
			"should", "must", "could", "might", "may", "far", "isn", "aren", "hasn", "haven", "neither", "nor", "none", "nothing":
			if k < i {
				return true
			}
		case "no":
			if k < i && i-k <= 3 {
				return true
			}
		case "to":
			if k == i-1 || k == i-2 && ws[i-1] == "be" || k == i-2 && ws[i-1] == "get" {
				return true
			}
		}
	}
	return false
}

// commanded reports whether the word at i tells somebody to complete something, or names a thing that
// is to be: "complete the API", "a complete rewrite".
func commanded(ws []string, i, size int) bool {
	if size != 1 || ws[i] != "complete" {
		return false
	}
	if i > 0 && (ws[i-1] == "a" || ws[i-1] == "the") {
		return true
	}
	if i+1 == len(ws) {
		return false
	}
	switch ws[i+1] {
	case "the", "a", "an", "this", "that", "these", "those", "it", "them", "all", "each", "every", "my", "your", "our", "its", "task", "step":
		return i == 0 || ws[i-1] != "is" && ws[i-1] != "are"
	}
	return false
}
