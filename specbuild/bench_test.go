package specbuild

import (
	"fmt"
	"strings"
	"testing"

	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	"descartes/tasks"
	"descartes/tasks/plan"
)

// bigPlan writes a plan of about size bytes in the usual shape, and titles for count of its items.
func bigPlan(size, count int) (string, []tasks.Task) {
	starts := strings.Fields("par cac rou ind sca led mai que wor gat sch rep bud sig fil tok ren lay")
	ends := strings.Fields("ser heon tral exor nnet gerun lerix uand kloft eway emant ortik getox nalip terug")
	var nouns []string
	for _, s := range starts {
		for _, e := range ends {
			nouns = append(nouns, s+e)
		}
	}
	verbs := strings.Fields("Add Build Move Split Check Store Merge Print Watch Limit")
	var b strings.Builder
	b.WriteString("# Big Implementation Plan\n\n## Overview\n\nMuch to do.\n\n")
	var list []tasks.Task
	for phase := 1; b.Len() < size; phase++ {
		fmt.Fprintf(&b, "## Phase %d: Stage %s%d\n\n### Overview\n\nWhat this phase is for.\n\n### Changes Required:\n\n", phase, nouns[phase%len(nouns)], phase)
		for item := 1; item <= 5; item++ {
			n := phase*5 + item
			title := fmt.Sprintf("%s %s for the %s%d", verbs[n%len(verbs)], nouns[n%len(nouns)],
				nouns[(n*7)%len(nouns)], n%97)
			fmt.Fprintf(&b, "#### %d. %s\n\n**File**: `src/%s.go`\n\n", item, title, nouns[n%len(nouns)])
			for range 6 {
				b.WriteString("A paragraph of *plain* words that says what is to be done, with `code` in it and a [link](there.md)\nover two lines, as plans have them.\n\n- one thing\n- another thing\n\n")
			}
			b.WriteString("```go\n// # not a heading\nfunc f() int {\n\treturn 1\n}\n```\n\n")
			if n%11 == 0 || len(list) < count && size < 1<<17 {
				list = append(list, tasks.Task{ID: fmt.Sprint(len(list) + 1), Title: title,
					Description: "As the plan says."})
			}
		}
		b.WriteString("### Success Criteria:\n\n- [ ] `go test ./...` passes\n\n---\n\n")
	}
	return b.String(), list[:min(count, len(list))]
}

func blocksOnly(src []byte) {
	parser.NewParser(parser.WithBlockParsers(parser.DefaultBlockParsers()...)).Parse(text.NewReader(src))
}

// BenchmarkPlan compares, on one plan, goldmark's parse of blocks alone, our ParsePlan, and ParsePlan
// with the specs of 100 tasks. The last is to be at most 1.2 times the first.
func BenchmarkPlan(b *testing.B) {
	// of this shape a plan may have 6 MB: its lines are counted too
	for _, size := range []int{100 << 10, 1 << 20, 6 << 20} {
		src, list := bigPlan(size, 100)
		data := []byte(src)
		name := fmt.Sprintf("%dKB", size>>10)
		b.Run(name+"/blocks", func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				blocksOnly(data)
			}
		})
		b.Run(name+"/plan", func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := plan.Parse("plan.md", data); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/plan+specs", func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				p, _ := plan.Parse("plan.md", data)
				for i := range list {
					if s, err := Build(Request{Tag: "t", Task: list[i], Plan: p, Verify: "make"}); err != nil ||
						len(s.Sources) < 3 {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func BenchmarkBuild(b *testing.B) {
	src, list := bigPlan(1<<20, 100)
	p, err := plan.Parse("plan.md", []byte(src))
	if err != nil {
		b.Fatal(err)
	}
	i := 0
	for b.Loop() {
		_, _ = Build(Request{Tag: "t", Task: list[i%len(list)], Plan: p, Verify: "make"})
		i++
	}
}
