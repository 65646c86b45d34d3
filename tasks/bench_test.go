package tasks

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"descartes/internal/atomicfile"
)

// sample is a task file of n tasks as they are on average: 290 bytes each, three dependencies.
func sample(n int) string {
	var b strings.Builder
	b.WriteString("{\n  \"tag\": \"x\",\n  \"tasks\": [")
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "\n    {\n      \"id\": %d,\n      \"title\": \"Task number %d of the list\",\n      \"description\": \"What has to be done here,\\nin about two lines of text.\",\n"+
			"      \"status\": \"pending\",\n      \"complexity\": 3,\n      \"priority\": \"high\",\n      \"depends_on\": [%s],\n      \"test_strategy\": \"go test ./...\"\n    }",
			i, i, strings.Trim(strings.Replace(fmt.Sprint([]int{max(0, i-100), max(0, i-50), max(0, i-10)}), " ", ", ",
				-1), "[]"))
	}
	b.WriteString("\n  ]\n}\n")
	return b.String()
}

// graphSample is the same list as SCUD's graph text.
func graphSample(n int) string {
	var nodes, edges, details strings.Builder
	for i := range n {
		fmt.Fprintf(&nodes, "%d | Task number %d of the list | P | 3 | H\n", i, i)
		for _, d := range []int{i - 100, i - 50, i - 10} {
			fmt.Fprintf(&edges, "%d -> %d\n", i, max(0, d))
		}
		fmt.Fprintf(&details, "%d | description |\n  What has to be done here,\n  in about two lines of text.\n%d | test_strategy |\n  go test ./... with all that belongs to it, of which there is so much that the file becomes as long as real ones are\n", i, i)
	}
	return "# SCUD Graph v1\n# Phase: x\n\n@meta {\n  name x\n  id_format sequential\n  updated 2026-02-14T17:48:11.868135+00:00\n}\n\n@nodes\n" +
		nodes.String() + "\n@edges\n" + edges.String() + "\n@details\n" + details.String()
}

// nestedSample has n tasks, nine of ten in the one before them.
func nestedSample(n int) string {
	var b strings.Builder
	b.WriteString(`{"x": {"tasks": [`)
	for i := range n / 10 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "\n {\"id\": %d, \"title\": \"Task number %d of the list\", \"status\": \"pending\", \"dependencies\": [%d], \"subtasks\": [", i+1, i, max(1, i))
		for k := range 9 {
			if k > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "\n  {\"id\": %d, \"title\": \"Part\", \"description\": \"What has to be done here,\\nin about two lines.\", \"status\": \"pending\", \"dependencies\": [%d], \"details\": %q}", k+1, max(1, k), strings.Repeat("More. ", 20))
		}
		b.WriteString("]}")
	}
	b.WriteString("]}}\n")
	return b.String()
}

func BenchmarkOpen(b *testing.B) {
	for _, kind := range []struct {
		name, file string
		text       func(int) string
	}{{"flat", "x.json", sample}, {"graph", "tasks.scg", graphSample}, {"nested", "tasks.json", nestedSample}} {
		for _, n := range []int{100, 1_000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%s-%d", kind.name, n), func(b *testing.B) {
				text := kind.text(n)
				root := project(b, map[string]string{kind.file: text})
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Open(root, "x"); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkSave changes one status. The floor is the same bytes written durably; the two take turns, and the ratio is
// the median of the pairs.
func BenchmarkSave(b *testing.B) {
	for _, kind := range []struct{ name, file, text string }{
		{"flat-1000", "x.json", sample(1_000)}, {"flat-10000", "x.json", sample(10_000)},
		{"graph-10000", "tasks.scg", graphSample(10_000)}, {"nested-10000", "tasks.json", nestedSample(10_000)},
	} {
		b.Run(kind.name, func(b *testing.B) {
			f, err := Open(project(b, map[string]string{kind.file: kind.text}), "x")
			if err != nil {
				b.Fatal(err)
			}
			plain, data := filepath.Join(b.TempDir(), "x.json"), f.Bytes()
			if err := os.WriteFile(plain, data, 0o644); err != nil {
				b.Fatal(err)
			}
			var ratios []float64
			id := f.Tasks()[500].ID
			for b.Loop() {
				status := []Status{Done, Pending}[len(ratios)%2]
				start := time.Now()
				if err := f.Save(map[string]Status{id: status}); err != nil {
					b.Fatal(err)
				}
				middle := time.Now()
				if err := atomicfile.Write(atomicfile.OS(), plain, data, 0o644); err != nil {
					b.Fatal(err)
				}
				ratios = append(ratios, float64(middle.Sub(start))/float64(time.Since(middle)))
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "x-plain-write")
		})
	}
}

// BenchmarkJSONValid is the floor of reading: the validation alone, as encoding/json does it.
func BenchmarkJSONValid(b *testing.B) {
	data := []byte(sample(10_000))
	for b.Loop() {
		if !json.Valid(data) {
			b.Fatal("not valid")
		}
	}
}
