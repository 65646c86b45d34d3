package main

import (
	"bytes"
	"cmp"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

var manDir = flag.String("man", "", "write the manual pages to this folder")

// TestMan makes the manual pages, which man reads without a warning. make man keeps them.
func TestMan(t *testing.T) {
	t.Parallel()
	dir := cmp.Or(*manDir, t.TempDir())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	list := commandTree()
	for _, c := range list {
		c.DisableAutoGenTag = true
		c.Long = manText(cmp.Or(c.Long, c.Short))
		c.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = manWords(f.Usage) })
	}
	if err := doc.GenManTree(list[0], &doc.GenManHeader{Source: "descartes", Manual: "descartes"}, dir); err != nil {
		t.Fatal(err)
	}
	option := regexp.MustCompile(`(?m)^(?:\.PP\n)?(\\fB-.*)\n\t`) // which cobra sets as a paragraph
	var pages []string
	for _, c := range list {
		page := filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1")
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text = option.ReplaceAll(text, []byte(".TP\n$1\n"))
		if err := os.WriteFile(page, text, 0o644); err != nil {
			t.Fatal(err)
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Deprecated == "" && !bytes.Contains(text, []byte(`\fB--`+f.Name+`\fP`)) {
				t.Errorf("%s does not have --%s", page, f.Name)
			}
		})
		pages = append(pages, page)
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		return // nothing here reads them; their text has been checked
	}
	if out, err := exec.Command(groff, append([]string{"-man", "-Tutf8", "-ww", "-z"},
		pages...)...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("groff: %v\n%s", err, out)
	}
}

// manText is a help text in Markdown: what is indented there is shown as it stands.
func manText(text string) string {
	var out []string
	code := false
	for line := range strings.SplitSeq(text, "\n") {
		if is := strings.HasPrefix(line, "  "); is != code && line != "" {
			out, code = append(out, ""), is
		}
		if code {
			line = "    " + line
		} else {
			line = manWords(line)
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// manWords keeps Markdown from reading what it is not meant to.
func manWords(text string) string {
	return strings.NewReplacer("<", `\<`, "*", `\*`, "_", `\_`).Replace(text)
}
