package markdown

import "strings"

// Criteria reports whether a heading, in lower case, stands over the checks that work must pass.
func Criteria(heading string) bool {
	switch heading {
	case "automated verification", "manual verification", "verification", "definition of done", "done when", "success metrics",
		"checkpoint", "checklist", "validation":
		return true
	}
	return strings.HasSuffix(heading, "criteria") || strings.HasPrefix(heading, "checkpoint") || strings.HasPrefix(heading, "success criteria") ||
		strings.HasPrefix(heading, "acceptance criteria") || strings.HasSuffix(heading, "checklist")
}

// Background reports whether a heading, in lower case, stands over what is no work to do: what is there already, what is left out, how
// it is checked.
func Background(heading string) bool {
	switch heading {
	case "overview", "summary", "executive summary", "introduction", "background", "context", "motivation", "goals", "non-goals",
		"problem statement", "current state", "current state analysis", "what exists", "desired end state", "desired state",
		"what we're not doing", "what we are not doing", "what we’re not doing", "out of scope", "scope",
		"testing strategy", "test strategy", "testing", "test plan", "manual testing", "manual testing steps", "key discoveries",
		"key findings", "references", "related", "notes", "performance considerations", "security considerations",
		"open questions", "risks", "risk assessment", "table of contents", "contents", "appendix", "timeline",
		"rollback plan", "scud task mapping", "task mapping", "changelog", "prerequisites", "requirements", "assumptions":
		return true
	}
	return Criteria(heading)
}
