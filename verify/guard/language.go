package guard

import (
	"path"
	"strings"
	"sync"

	"descartes/internal/lazyregexp"
)

// language says how tests are written in one.
type language struct {
	files    *lazyregexp.Regexp // paths of its files
	test     *lazyregexp.Regexp // of those, the ones that hold tests; nil: any may
	comment  string             // that a line begins with
	cases    *lazyregexp.Regexp // a test's first line; its last group that matched is the name
	marked   *lazyregexp.Regexp // stands above or on that line; nil: the line says enough
	named    *lazyregexp.Regexp // a name that needs no mark; nil: none
	groups   *lazyregexp.Regexp // a line that puts tests together; nil: none
	asserts  *lazyregexp.Regexp
	skips    *lazyregexp.Regexp
	focuses  *lazyregexp.Regexp // nil: the language has nothing of the kind
	excludes *lazyregexp.Regexp // a line that leaves out the file
	trivial  *lazyregexp.Regexp // an assertion that cannot fail, or hardly
}

const quoted = "(?:\"((?:[^\"\\\\]|\\\\.)+)\"|'((?:[^'\\\\]|\\\\.)+)'|`([^`]+)`)"

// languages is the table. What matches first is the language of a file.
var languages = sync.OnceValue(func() []*language {
	re := lazyregexp.New
	return []*language{
		{ // Go
			files: re(`\.go$`), test: re(`_test\.go$`), comment: "//",
			cases:    re(`^func ((?:Test|Benchmark|Fuzz|Example)\w*)\(|^\w+\.Run\("([^"]+)", ?func\(|^func \(\w* ?\*?\w+\) (Test\w+)\(\)`),
			asserts:  re(`\b(?:t|tb|b|f|c|s|tt|suite|T|TB)\.(?:Error|Errorf|Fatal|Fatalf|Fail|FailNow)\(|\b(?:assert|require|must|qt|check|expect)\.\w+\(|\b(?:is|a|r|c)\.(?:Equal|True|False|NoErr|Assert|Check|Nil|NoError|NotNil|Contains|Error)\(|\b(?i:check|assert|expect|verify|must|require|want|validate|compare|equal|ensure)\w*\((?:t|tb|c)\b|\bExpect\(|Ω\(|^// Output:|\bpanic\(`),
			skips:    re(`\b\w+\.(?:Skip|Skipf|SkipNow)\(`),
			excludes: re(`^//go:build |^// \+build `),
			trivial:  re(`\b(?:assert|require)\.(?:True\(t, true|False\(t, false|Equal\(t, (?:true, true|1, 1)\))`),
		},
		{ // Python
			files: re(`\.py$`), test: re(
				`(?:^|/)(?:test_[^/]*|[^/]*_tests?|tests?)\.py$|(?:^|/)tests?/(?:.*/)?[^/]*\.py$`), comment: "#",
			cases:    re(`^(?:async )?def (test\w*)\(`),
			groups:   re(`^class (\w+)`),
			asserts:  re(`^assert\b|\bself\.(?:assert\w+|fail\w*)\(|\bpytest\.(?:raises|fail|warns|deprecated_call)\(|\b(?:np|numpy|torch|tm|pd)\.testing\.assert_\w+|\b(?:assert|check|verify|expect|validate|ensure)_\w+\(|^with raises\(`),
			skips:    re(`^@(?:pytest\.)?mark\.(?:skip|skipif|xfail)\b|^@(?:unittest\.)?(?:skip|skipIf|skipUnless|expectedFailure)\b|\bpytest\.(?:skip|xfail|importorskip)\(|\bself\.skipTest\(|^raise (?:unittest\.)?SkipTest|^pytestmark\s*=.*(?:skip|xfail)|^__test__\s*=\s*False|\bpytest\.param\(.*(?:skip|xfail)|marks=.*(?:skip|xfail)`),
			excludes: re(`^(?:pytest\.skip|pytestmark\s*=.*skip|raise (?:unittest\.)?SkipTest|collect_ignore)`),
			trivial:  re(`^assert (?:True|1|not False|not None|["'][^"']+["'])\s*(?:,.*|#.*)?$|\bassertTrue\(True\b|\bassertFalse\(False\b|^assert .*\bor True\b|\bassertEqual\((?:1, 1|True, True)\)`),
		},
		{ // JavaScript and TypeScript
			files: re(`\.[cm]?[jt]sx?$|\.(?:vue|svelte)$`), test: re(
				`[._-](?:test|spec|e2e|cy|tests|specs)\.[cm]?[jt]sx?$|(?:^|/)(?:__tests__|tests?|specs?|e2e|cypress)/.*\.[cm]?[jt]sx?$|(?:^|/)tests?\.[cm]?[jt]sx?$`), comment: "//",
			cases:   re(`^(?:await )?(?:[xf]?(?:it|test|specify|Scenario)|Deno\.test|t\.test)(?:\.\w+)*(?:\([^()]*\)|` + "`[^`]*`" + `)?\s*\(\s*` + quoted),
			groups:  re(`^(?:[xf]?(?:describe|context|suite))(?:\.\w+)*(?:\([^()]*\))?\s*\(\s*` + quoted),
			asserts: re(`\b(?:expect|check|verify|should)\w*(?:\.\w+)*\(|\bassert(?:\.\w+)*\(|\.should\b|\bshould\.\w+|\bt\.(?:is|deepEqual|true|false|throws\w*|equals?|ok|notOk|same|not|assert|like|snapshot|truthy|falsy|fail|pass|plan|regex|strictEqual|notThrows\w*)\(|\.expect\(|\bsinon\.assert\.|\.(?:to|not)\.(?:be|equal|have|eql|throw)\b`),
			skips:   re(`\b(?:it|test|describe|context|suite|specify|t)\.(?:skip|todo|failing|fixme|skipIf|runIf)\b|^x(?:it|describe|test|context|specify)\s*\(|\bthis\.skip\(\)|[{,]\s*(?:skip|todo)\s*:\s*(?:true|["'])|^pending\(`),
			focuses: re(`\b(?:it|test|describe|context|suite|specify|t)\.only\b|^f(?:it|describe|context|specify)\s*\(\s*["'` + "`" + `]|[{,]\s*only\s*:\s*true`),
			trivial: re(`\bexpect\((?:true|1|"\w*"|'\w*')\)\.to|\.toBeTruthy\(\)|\.toBeDefined\(\)|\.toBeFalsy\(\)|\bassert(?:\.ok)?\((?:true|1)\)|\.to\.(?:be\.ok|exist)\b|\bexpect\.any(?:thing)?\(`),
		},
		{ // Rust
			files: re(`\.rs$`), comment: "//",
			cases:    re(`^(?:pub )?(?:async )?fn (\w+)\s*[(<]`),
			marked:   re(`^#\[(?:\w+::)*(?:test|rstest|case|test_case|wasm_bindgen_test|quickcheck|proptest)\b`),
			groups:   re(`^mod (\w*tests?)\b`),
			asserts:  re(`\b(?:debug_|prop_)?assert(?:_\w+)?!\s*[(\[{]|^#\[should_panic|\bpanic!\(|\b(?:eqnice|assert_\w+)!?\(|\binsta::assert`),
			skips:    re(`^#\[ignore\b|^#\[cfg_attr\(.*\bignore\b|^#\[cfg\((?:any\(\)|FALSE|false|never)`),
			excludes: re(`^#!\[cfg\(`),
			trivial:  re(`\bassert!\(true\b|\bassert_eq!\((?:true, true|1, 1)\)|\bassert!\(.*\|\| true\)`),
		},
		{ // Java, Kotlin, Scala, Groovy
			files: re(`\.(?:java|kts?|scala|groovy)$`), test: re(
				`(?:^|/)src/(?:test|it|\w+Test)/|(?:Tests?|IT|Spec|TestCase|Suite)\.(?:java|kt|scala|groovy)$`),
			comment: "//",
			cases:   re("^(?:(?:public|private|protected|internal|open|override|suspend|final|static|abstract|async)\\s+)*(?:void|fun|def|[\\w<>\\[\\], ]+)\\s+(\\w+|`[^`]+`|\"[^\"]+\")\\s*\\(|^(?:test|it|it should|property)\\s*\\(?\\s*\"([^\"]+)\""),
			marked:  re(`^@(?:org\.junit\.)?(?:Test|ParameterizedTest|RepeatedTest|TestFactory|Property)\b|^(?:test|it|property)\s*\(`),
			named:   re(`^test[A-Z_]`),
			groups:  re(`^(?:(?:public|final|open|internal|abstract|static)\s+)*class (\w+)`),
			asserts: re(`\bassert\w*\s*[({]|\bverify\w*\(|\bexpect\w*\(|\bfail\(|\bshould\w*\b|^then:|\bthrown\.expect`),
			skips:   re(`^@(?:Disabled\w*|Ignore\w*|EnabledIf\w*|EnabledOn\w*|PendingFeature)\b|\b(?:assumeTrue|assumeFalse|assumeThat)\(|\bAssum(?:e|ptions)\.|@Test\(.*enabled\s*=\s*false|^(?:ignore|pending|cancel)\s*\(|^xtest\(`),
			trivial: re(`\bassertTrue\(true\)|\bassertFalse\(false\)|\bassertEquals\((?:1, 1|true, true)\)|\bassertNotNull\(new `),
		},
		{ // C#
			files: re(`\.cs$`), test: re(`(?:Tests?|Specs?|Facts)\.cs$|(?:^|/)[^/]*Tests?/.*\.cs$`), comment: "//",
			cases:   re(`^(?:(?:public|private|internal|protected|async|static|override|virtual|sealed)\s+)+[\w<>\[\], ]+\s+(\w+)\s*\(`),
			marked:  re(`^\[(?:Fact|Theory|Test|TestCase|TestCaseSource|TestMethod|DataTestMethod)\b|,\s*(?:Fact|Theory|Test)\b`),
			asserts: re(`\b(?:\w*Assert)\.\w+|\.Should\w*\(|\.Verify\(|\bExpect\(`),
			skips:   re(`^\[Ignore\b|\bSkip\s*=|^\[Explicit\b|\bAssert\.(?:Ignore|Inconclusive|Skip)\b|\bSkip\.If`),
			trivial: re(`\bAssert\.(?:True|IsTrue)\(true\)|\bAssert\.Pass\(`),
		},
		{ // Ruby
			files: re(`\.rb$`), test: re(`_(?:spec|test)\.rb$|(?:^|/)(?:spec|test)/.*\.rb$|(?:^|/)test_[^/]*\.rb$`),
			comment: "#",
			cases:   re(`^[xf]?(?:it|specify|scenario|example|test)\s*\(?\s*` + quoted + `|^def (test_\w+)`),
			groups:  re(`^(?:RSpec\.)?[xf]?(?:describe|context|feature)\s*\(?\s*(?:` + quoted + `|([\w:]+))`),
			asserts: re(`\bexpect\s*[({]|\.should(?:_not)?\b|\b(?:assert|refute)(?:_\w+)?\b|\b(?:must|wont)_\w+|\bis_expected\b`),
			skips:   re(`^(?:xit|xdescribe|xcontext|xspecify|xscenario|pending|skip)\b|,\s*(?::skip|:pending|skip:|pending:|:skip =>)`),
			focuses: re(`^(?:fit|fdescribe|fcontext|fspecify)\b|\bfocus:\s*true|:focus\s*=>\s*true|,\s*:focus\b`),
			trivial: re(`\bexpect\(true\)|\bassert(?:\(| )true\b`),
		},
		{ // PHP
			files: re(`\.php$`), test: re(`Test\.php$|(?:^|/)tests?/.*\.php$`), comment: "//",
			cases:   re(`\bfunction (\w+)\s*\(|^(?:it|test)\(` + quoted),
			marked:  re(`@test\b|#\[Test\b|^(?:it|test)\(`),
			named:   re(`^test`),
			asserts: re(`->assert\w+\(|\b(?:self|static)::assert\w+\(|->expect\w+\(|\bexpect\(`),
			skips:   re(`->markTest(?:Skipped|Incomplete)\(|->(?:skip|todo)\(|@requires\b|#\[Requires`),
			focuses: re(`->only\(\)`),
			trivial: re(`assertTrue\(true\)|expectNotToPerformAssertions|assertEquals\((?:1, 1|true, true)\)`),
		},
		{ // Swift
			files: re(`\.swift$`), test: re(`Tests?\.swift$|(?:^|/)Tests/.*\.swift$`), comment: "//",
			cases: re(`\bfunc (test\w+)\s*\(`), asserts: re(`\bXCT(?:Assert|Fail|Unwrap)\w*\(|#expect\(|#require\(`),
			skips: re(`\bXCTSkip\w*\(|\.disabled\(|\bXCTExpectFailure`), trivial: re(`\bXCTAssert(?:True)?\(true\)`),
		},
		{ // Elixir
			files: re(`\.exs?$`), test: re(`_test\.exs$`), comment: "#",
			cases: re(`^test "([^"]+)"`), groups: re(`^describe "([^"]+)"`), asserts: re(`\b(?:assert|refute)\w*\b`),
			skips: re(`^@(?:module|describe)?tag:? ?:?skip\b`), focuses: re(`^@tag :focus`),
			trivial: re(`\bassert true\b`),
		},
		{ // C and C++
			files: re(`\.(?:c|cc|cpp|cxx|h|hpp|m|mm)$`), test: re(
				`(?i)(?:^|/|_|-)(?:unit)?tests?[^/]*\.\w+$|(?:^|/)(?:unit)?tests?/`), comment: "//",
			cases:    re(`^(?:TEST|TEST_F|TEST_P|TYPED_TEST|BOOST_(?:AUTO|FIXTURE)_TEST_CASE|TEST_CASE|SCENARIO|START_TEST)\s*\(\s*([^){]+)\)|^(?:static )?(?:void|int) (test_\w+)\s*\(`),
			asserts:  re(`\b(?:ASSERT|EXPECT|CHECK|REQUIRE|BOOST_(?:CHECK|REQUIRE|TEST)|TEST_ASSERT|ck_assert|cr_assert|g_assert|assert)(?:_\w+)?\s*\(`),
			skips:    re(`\bDISABLED_|\bGTEST_SKIP\b|\[!shouldfail\]|\[\.\w*\]|\bTEST_IGNORE\b`),
			excludes: re(`^#if 0\b`),
			trivial:  re(`\b(?:EXPECT|ASSERT)_TRUE\(true\)|\bREQUIRE\(true\)|\bassert\((?:1|true)\)`),
		},
		{ // shell
			files: re(`\.(?:sh|bash|bats|zsh)$`),
			test:  re(`\.bats$|(?:^|/)(?:tests?|t|spec)/.*\.(?:sh|bash)$|[._-]tests?\.(?:sh|bash)$|(?:^|/)tests?[^/]*\.(?:sh|bash)$`), comment: "#",
			cases: re(`^@test "([^"]+)"|^@test '([^']+)'|^test_expect_(?:success|failure)\s+(?:[A-Z0-9_,!]+ )?` +
				quoted + `|^(?:function )?(test_?\w+)\s*\(\)`),
			asserts: re(`\bassert\w*\b|^(?:!\s*)?(?:\[{1,2}|test)\s|\bgrep\s+-\w*q|\bgrep\b.*(?:>\s*/dev/null|$)|^(?:!\s*)?(?:diff|cmp|test_cmp)\b|\bexit [1-9]|\bfail\b|\|\|\s*(?:exit|return|die|fail)|^(?:refute|run)\b|&&\s*test\b|^case\b`),
			skips:   re(`^skip\b|^test_expect_failure\b`), focuses: re(`bats:focus`),
			trivial: re(`^(?:true|:)$|\[\s*1\s*(?:=|-eq)\s*1\s*\]`),
		},
		{ // scripts of Go's testscript
			files: re(`\.txtar$`), test: re(`\.txtar$`), comment: "#",
			cases: re(`^\x00`), asserts: re(
				`^(?:!\s|\?\s)?\s*(?:\[[^\]]*\]\s*)*(?:!\s)?(?:exec|stdout|stderr|cmp|cmpenv|grep|exists|go|wait)\b`),
			skips: re(`^(?:\[[^\]]*\]\s*)?(?:skip|stop)\b`), trivial: re(`^exec true$`),
		},
	}
})

// languageOf is the language of a file, nil where it has none that is known.
func languageOf(file string) *language {
	for _, l := range languages() {
		if l.files.MatchString(file) {
			return l
		}
	}
	return nil
}

// isTest reports whether a file holds tests, by its path. Rust's stand anywhere, and are looked for in all of its
// files.
func isTest(file string) bool {
	l := languageOf(file)
	if l == nil || neverRun(file) {
		return false
	}
	if l.test == nil {
		return strings.HasPrefix(file, "tests/") || strings.Contains(file, "/tests/")
	}
	return l.test.MatchString(file)
}

// OfTests classifies a file by its path: one that has tests, or one beside tests, such as their expected output.
func OfTests(file string) (test, beside bool) {
	return isTest(file), golden.MatchString(file)
}

// neverRun reports whether no tool takes a file's folder for code of the project.
func neverRun(file string) bool {
	goFile := strings.HasSuffix(file, ".go")
	for part := range strings.SplitSeq(path.Dir(file), "/") {
		if part == "node_modules" || goFile && (part == "testdata" || part != "." && strings.HasPrefix(part, ".") ||
			strings.HasPrefix(part, "_")) {
			return true
		}
	}
	return false
}
