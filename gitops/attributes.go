package gitops

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// conversion is what an attribute asks for between the working tree and the store.
type conversion int

const (
	noConversion conversion = iota
	lineEnds                // CRLF becomes LF on its way in, and nothing changes on its way out
	fullConversion
)

// conversionIn says which attribute of a file asks for the most, and what that is. It errs on the side of a
// conversion: a pattern that matches nothing counts.
func conversionIn(attributes []byte, c *gitConfig) (attr string, most conversion) {
	attributes = bytes.TrimPrefix(attributes, []byte("\xef\xbb\xbf"))
	for line := range strings.Lines(string(attributes)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		for _, a := range strings.Fields(afterPattern(line)) {
			if k := conversionOf(a, c); k > most {
				attr, most = a, k
			}
		}
	}
	return attr, most
}

// afterPattern cuts the pattern, which may be quoted as in C, or the "[attr]name" of a macro.
func afterPattern(line string) string {
	if line[0] != '"' {
		if i := strings.IndexAny(line, " \t"); i >= 0 {
			return line[i:]
		}
		return ""
	}
	for i := 1; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '"':
			return line[i+1:]
		}
	}
	return ""
}

// conversionOf is what one attribute, as written, asks for.
func conversionOf(attr string, c *gitConfig) conversion {
	name, value, assigned := strings.Cut(attr, "=")
	if strings.HasPrefix(name, "-") || strings.HasPrefix(name, "!") {
		return noConversion
	}
	switch name {
	case "text", "crlf":
		return lineEnds
	case "eol":
		switch value {
		case "lf":
			return lineEnds
		case "crlf":
			return fullConversion
		}
	case "ident":
		return fullConversion
	case "working-tree-encoding":
		v := strings.ToLower(strings.ReplaceAll(value, "-", ""))
		if assigned && v != "" && v != "utf8" {
			return fullConversion
		}
	case "filter":
		if assigned && filterConfigured(value, c) {
			return fullConversion
		}
	}
	return noConversion
}

// filterConfigured: git leaves content alone if the filter that an attribute names is not configured.
func filterConfigured(driver string, c *gitConfig) bool {
	for _, k := range []string{"clean", "smudge", "process"} {
		if v, ok := c.get("filter." + driver + "." + k); ok && v != "" {
			return true
		}
	}
	return c.boolean("filter."+driver+".required", false)
}

// attributeFiles are the attribute files outside the working tree, in git's order of precedence from low to high.
func attributeFiles(l layout, c *gitConfig, env []string) []string {
	var out []string
	if !truth(envValue(env, "GIT_ATTR_NOSYSTEM"), true, false) {
		out = append(out, "/etc/gitattributes")
	}
	if p, ok := c.pathname("core.attributesfile"); ok {
		if !filepath.IsAbs(p) {
			p = filepath.Join(l.root, p)
		}
		out = append(out, p)
	} else if p := xdgPath(env, "attributes"); p != "" {
		out = append(out, p)
	}
	return append(out, filepath.Join(l.commonDir, "info", "attributes"))
}

// readSmall reads a file that may be missing; present is false then.
func readSmall(path string) (b []byte, present bool, err error) {
	b, err = readPlain(path, mostRules)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, errNotPlain) {
		return nil, false, nil
	}
	return b, err == nil, err
}

// readAttributesAt reads the .gitattributes of a directory.
func readAttributesAt(dirfd int) []byte { return readRulesAt(dirfd, ".gitattributes") }

// attributeFindings names the attribute files that convert: those outside the working tree, and the tracked
// ones in it. Files that are not tracked yet are met by the scan.
func attributeFindings(l layout, c *gitConfig, tracked []string, env []string) []finding {
	var out []finding
	check := func(path, name string) {
		b, present, err := readSmall(path)
		switch {
		case err != nil:
			out = append(out, finding{reason: name + " cannot be read", tree: true, commit: true})
		case present:
			switch a, k := conversionIn(b, c); k {
			case lineEnds:
				out = append(out, finding{reason: name + " asks for LF line ends (" + a + ")", ends: true})
			case fullConversion:
				out = append(out, both("%s asks for a conversion (%s)", name, a))
			}
		}
	}
	for _, f := range attributeFiles(l, c, env) {
		check(f, f)
	}
	for _, t := range tracked {
		path := filepath.Join(l.root, filepath.FromSlash(t))
		fi, err := os.Lstat(path)
		if err == nil && !fi.Mode().IsRegular() {
			continue // git does not follow a link, and nobody is to wait for a pipe
		}
		if err != nil {
			// git then reads the staged file, which is not at hand here
			out = append(out, finding{reason: t + " is tracked but missing", tree: true, commit: true})
			continue
		}
		check(path, t)
	}
	return out
}
