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
			i, i, strings.Trim(strings.Replace(fmt.Sprint([]int{max(0, i-100), max(0, i-50), max(0, i-10)}), " ", ", ", -1), "[]"))
	}
	b.WriteString("\n  ]\n}\n")
	return b.String()
}

func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			root := project(b, map[string]string{"x.json": sample(n)})
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Open(root, "x"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSave changes one status. The floor is the same bytes written durably; the two take turns, and the ratio is the median of
// the pairs.
func BenchmarkSave(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			f, err := Open(project(b, map[string]string{"x.json": sample(n)}), "x")
			if err != nil {
				b.Fatal(err)
			}
			plain, data := filepath.Join(b.TempDir(), "x.json"), f.Bytes()
			if err := os.WriteFile(plain, data, 0o644); err != nil {
				b.Fatal(err)
			}
			var ratios []float64
			for b.Loop() {
				status := []Status{Done, Pending}[len(ratios)%2]
				start := time.Now()
				if err := f.Save(atomicfile.OS(), map[string]Status{"500": status}); err != nil {
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
