package mutants

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// What the tools write, as their versions gremlins 0.6, stryker 9.6, cargo-mutants 27 and cosmic-ray 8 do.
const (
	gremlinsReport = `{"go_module":"x","files":[{"file_name":"a.go","mutations":[{"type":"CONDITIONALS_BOUNDARY","status":"SKIPPED","line":4,"column":7},{"type":"CONDITIONALS_BOUNDARY","status":"NOT COVERED","line":10,"column":33},{"type":"CONDITIONALS_NEGATION","status":"KILLED","line":10,"column":33},{"type":"CONDITIONALS_BOUNDARY","status":"LIVED","line":11,"column":44},{"type":"CONDITIONALS_NEGATION","status":"NOT VIABLE","line":10,"column":44}]},{"file_name":"b.go","mutations":[{"type":"INVERT_NEGATIVES","status":"TIMED OUT","line":3,"column":30}]}],"test_efficacy":0,"mutations_coverage":0,"mutants_total":0,"mutants_killed":0,"mutants_lived":0,"mutants_not_viable":0,"mutants_not_covered":6,"elapsed_time":0.017203097,"mutator_statistics":{"arithmetic_base":1}}`
	strykerReport  = `{"schemaVersion":"1.0","thresholds":{"high":80,"low":60,"break":null},"files":{"src/a.js":{"language":"javascript","mutants":[{"id":"0","mutatorName":"ConditionalExpression","replacement":"true","status":"Killed","location":{"end":{"column":32,"line":2},"start":{"column":25,"line":2}}},{"id":"1","mutatorName":"EqualityOperator","replacement":"n > 10","status":"Survived","testsCompleted":1,"location":{"end":{"column":32,"line":7},"start":{"column":25,"line":7}}},{"id":"2","mutatorName":"ArrowFunction","replacement":"() => undefined","status":"NoCoverage","location":{"end":{"column":32,"line":8},"start":{"column":20,"line":8}}},{"id":"3","mutatorName":"StringLiteral","replacement":"\"\"","status":"Ignored","location":{"end":{"column":32,"line":9},"start":{"column":20,"line":9}}}],"source":"..."}}}`
	cargoReport    = `{"outcomes":[{"scenario":"Baseline","summary":"Success","log_path":"log/baseline.log","phase_results":[]},{"scenario":{"Mutant":{"name":"src/lib.rs:2:5: replace one -> String with String::new()","package":"x","file":"src/lib.rs","function":{"function_name":"one","return_type":"-> String","span":{"start":{"line":1,"column":1},"end":{"line":3,"column":2}}},"span":{"start":{"line":2,"column":5},"end":{"line":2,"column":20}},"replacement":"String::new()","genre":"FnValue"}},"summary":"MissedMutant","log_path":"log/a.log","phase_results":[]},{"scenario":{"Mutant":{"name":"src/lib.rs:6:5: replace > with == in big","package":"x","file":"src/lib.rs","function":null,"span":{"start":{"line":6,"column":5},"end":{"line":6,"column":6}},"replacement":"==","genre":"BinaryOperator"}},"summary":"CaughtMutant","log_path":"log/b.log","phase_results":[]},{"scenario":{"Mutant":{"name":"src/lib.rs:7:5: replace big -> bool with false","package":"x","file":"src/lib.rs","function":null,"span":{"start":{"line":7,"column":5},"end":{"line":7,"column":6}},"replacement":"false","genre":"FnValue"}},"summary":"Unviable","log_path":"log/c.log","phase_results":[]}],"total_mutants":3,"missed":1,"caught":1,"timeout":0,"unviable":1,"success":0,"failure":0}`
	cosmicReport   = `{"files":[{"file_name":"pkg/a.py","mutations":[{"type":"ReplaceComparisonOperator_Gt_Eq","line":3,"status":"LIVED"}]},{"file_name":"pkg/a.py","mutations":[{"type":"NumberReplacer","line":4,"status":"KILLED"}]}]}`
)

func TestRead(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ tool, report, path, want string }{
		{"gremlins", gremlinsReport, "a.go",
			"a.go:10: CONDITIONALS_BOUNDARY, in code that no test runs! a.go:10: CONDITIONALS_NEGATION a.go:11: CONDITIONALS_BOUNDARY!"},
		{"stryker", strykerReport, "src/a.js",
			"src/a.js:2: ConditionalExpression: true src/a.js:7: EqualityOperator: n > 10! src/a.js:8: ArrowFunction: () => undefined, in code that no test runs!"},
		{"cargo-mutants", cargoReport, "src/lib.rs",
			"src/lib.rs:2: replace one -> String with String::new()! src/lib.rs:6: replace > with == in big"},
		{"cosmic-ray", cosmicReport, "pkg/a.py",
			"pkg/a.py:3: ReplaceComparisonOperator_Gt_Eq! pkg/a.py:4: NumberReplacer"},
	} {
		tool := Tools()[slices.IndexFunc(Tools(), func(x *Tool) bool { return x.Name == test.tool })]
		list, err := tool.Read([]byte(test.report), []File{{Path: test.path, Lines: []Lines{{1, 20}}}}, 10)
		var got []string
		for _, f := range list {
			got = append(got, f.String()+map[bool]string{true: "!"}[f.Survived])
		}
		if s := strings.Join(got, " "); err != nil || s != test.want {
			t.Errorf("%s: got %q, %v\nwant %q", test.tool, s, err, test.want)
		}
		if list, err := tool.Read([]byte(test.report), []File{{Path: test.path, Lines: []Lines{{3, 3}}}},
			10); err != nil || len(list) > 1 {
			t.Errorf("%s: faults in lines that did not change: %v, %v", test.tool, list, err)
		}
		if list, err := tool.Read([]byte(test.report), []File{{Path: test.path, Lines: []Lines{{1, 20}}}},
			1); err != nil || len(list) != 1 {
			t.Errorf("%s: one fault was asked for: %v, %v", test.tool, list, err)
		}
		if _, err := tool.Read([]byte("no report"), nil, 1); err == nil {
			t.Errorf("%s reads what is no report", test.tool)
		}
	}
}

func TestChanged(t *testing.T) {
	t.Parallel()
	diff := "diff --git a/a.go b/a.go\nindex 1..2 100644\n--- a/a.go\n+++ b/a.go\n@@ -1,4 +1,6 @@\n one\n+two\n+three\n four\n-five\n+++ six\n seven\n@@ -20 +22 @@ func\n-x\n+y\n\\ No newline at end of file\n" +
		"diff --git a/gone.go b/gone.go\ndeleted file mode 100644\n--- a/gone.go\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n" +
		"diff --git \"a/\\303\\244.go\" \"b/\\303\\244.go\"\nnew file mode 100644\n--- /dev/null\n+++ \"b/\\303\\244.go\"\n@@ -0,0 +1,2 @@\n+a\n+b\n" +
		"diff --git a/bin b/bin\nBinary files a/bin and b/bin differ\n"
	want := []File{{"a.go", []Lines{{2, 3}, {5, 5}, {22, 22}}}, {"ä.go", []Lines{{1, 2}}}}
	if got := Changed(diff); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func FuzzChanged(f *testing.F) {
	f.Add("diff --git a/a b/a\n+++ b/a\n@@ -1 +1 @@\n+x\n")
	f.Fuzz(func(t *testing.T, diff string) {
		for _, c := range Changed(diff) {
			for _, l := range c.Lines {
				if l.First > l.Last {
					t.Errorf("%v", c)
				}
			}
		}
	})
}
