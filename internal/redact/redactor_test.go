package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const secret = `s3cr/t+"<k>&y~é!x`

// What holds a secret, by its name or by the beginning that its maker gave it.
func TestParts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, value, want string }{
		{"STRIPE", "sk_live_stripesecret1234", "sk_live_stripesecret1234"},
		{"FIREBASE", "AIzaSyFirebaseSecretKey1234567890", "AIzaSyFirebaseSecretKey1234567890"},
		{"NIX_CONFIG", "access-tokens = github.com=ghp_nixsecret123", "ghp_nixsecret123"},
		{"SLACK", "https://hooks.slack.com/services/T0/B0/path", "https://hooks.slack.com/services/T0/B0/path"},
		{"WEBHOOK_URL", "https://example.com/hook/longsecretpath", "https://example.com/hook/longsecretpath"},
		{"WEBHOOK_TIMEOUT", "30 seconds", ""},
		{"GH_PAT", "ghp-patsecret1234567", "ghp-patsecret1234567"},
		{"GOPATH", "golang-and-more1", ""},
		{"MYSQL_PWD", "mysqlsecret1", "mysqlsecret1"},
		{"OLDPWD", "/nowhere/here1", ""},
		{"JWT", "eyJh.eyJ1c2.jwtsecretsig", "eyJh.eyJ1c2.jwtsecretsig"},
		{"CI_JOB_JWT_V2", "eyJhbGciOi.sig", "eyJhbGciOi.sig"},
		{"OP_SESSION_x", "opsession12345678", "opsession12345678"},
		{"BUNDLE_GEMS__EXAMPLE__COM", "user:bundlesecret1", "user:bundlesecret1"},
		{"BUNDLE_BUILD__NOKOGIRI", "--use-system-libraries=1", ""},
		{"AZURE_STORAGE_CONNECTION_STRING", "Protocol=https;AccountKey=azkey==", "Protocol=https;AccountKey=azkey=="},
		{"BRANCH", "task-12345-sk-something", ""},
	} {
		if got := strings.Join(Parts(c.name, c.value, nil), " "); got != c.want {
			t.Errorf("%s=%s: got %q, want %q", c.name, c.value, got, c.want)
		}
	}
}

// Each form of a value, bare and inside other text.
func TestForms(t *testing.T) {
	t.Parallel()
	m := New([]string{secret, "-----BEGIN KEY-----\nMIIEpAIBAAKCAQEA7bq\nq2hd83/Lk1v5Uu0x9aa\n-----END KEY-----\n"})
	js := func(s string, html bool) string {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(html)
		if err := e.Encode(s); err != nil {
			t.Fatal(err)
		}
		return strings.Trim(strings.TrimSuffix(b.String(), "\n"), `"`)
	}
	lower := strings.NewReplacer("%2F", "%2f", "%2B", "%2b", "%3C", "%3c", "%3E", "%3e", "%7E", "~", "%C3%A9",
		"%c3%a9").Replace(url.QueryEscape(secret))
	for name, form := range map[string]string{
		"raw": secret, "json of Go": js(secret, true), "json": js(secret, false),
		"json of Python": strings.ReplaceAll(js(secret, false), "é", `\u00e9`),
		"json of PHP":    strings.ReplaceAll(js(secret, false), "/", `\/`),
		"json in json":   js(js(secret, false), false),
		"query":          url.QueryEscape(secret), "path": url.PathEscape(secret), "lower": lower,
		"component":      strings.ReplaceAll(url.QueryEscape(secret), "%21", "!"),
		"base64":         base64.StdEncoding.EncodeToString([]byte(secret)),
		"base64 raw url": base64.RawURLEncoding.EncodeToString([]byte(secret)),
		"a line":         "MIIEpAIBAAKCAQEA7bq",
		"all lines":      "-----BEGIN KEY-----\nMIIEpAIBAAKCAQEA7bq\nq2hd83/Lk1v5Uu0x9aa\n-----END KEY-----",
	} {
		bare := strings.TrimRight(form, "=")
		for _, around := range [][2]string{{"", ""}, {"a line before\nkey=", ";\nafter"},
			{form[:1], form[len(form)-1:]}} {
			text := around[0] + form + around[1]
			got := m.Text(text)
			if len(got) != len(text) || strings.Contains(got, bare) ||
				!strings.Contains(got, strings.Repeat("*", len(bare))) {
				t.Errorf("%s: %q became %q", name, text, got)
			}
		}
	}
	for user := range 9 { // whatever stands before it in what was encoded
		whole := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("u", user) + secret + "/tail"))
		if got := m.Text(whole); strings.Count(got, "*") < len(secret)*8/6-1 {
			t.Errorf("in base64 after %d bytes: %s became %s", user, whole, got)
		}
	}
}

func TestNothingToMask(t *testing.T) {
	t.Parallel()
	for _, values := range [][]string{nil, {""}, {"short"}, {"       x       "}} {
		m := New(values)
		if m != nil {
			t.Fatalf("%q make a mask", values)
		}
		text := "whatever short says"
		if m.Text(text) != text || string(m.Bytes([]byte(text))) != text || fileErr(m, "/nonexistent", 0) != nil {
			t.Error("a nil mask does something")
		}
	}
	m := New([]string{"hunter2-hunter2"})
	for _, text := range []string{"", "hunter2", "hunter2-hunter", "the hunter has two hunters2",
		strings.Repeat("hunter2 ", 999)} {
		if got := m.Text(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func fileErr(m *Redactor, path string, from int64) error {
	_, err := m.Log(path, from, 0)
	return err
}

// naive masks every occurrence of every needle, one after the other.
func naive(needles [][]byte, text []byte) []byte {
	out := bytes.Clone(text)
	for _, n := range needles {
		for at := range text {
			if bytes.HasPrefix(text[at:], n) {
				fill(out[at : at+len(n)])
			}
		}
	}
	return out
}

// Masking replaces the occurrences and keeps length and all else, in a text, in a file and in a stream.
func TestMaskProperty(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	rapid.Check(t, func(t *rapid.T) {
		letter := rapid.SampledFrom([]string{"a", "b", "ab", "\n", `"`, "é", "\x00", "secret"})
		word := func(least int) *rapid.Generator[string] {
			return rapid.Map(rapid.SliceOfN(letter, least, 24), func(l []string) string { return strings.Join(l, "") })
		}
		values := rapid.SliceOfN(word(8), 1, 4).Draw(t, "values")
		m := New(values)
		if m == nil {
			return
		}
		pieces := rapid.SliceOf(rapid.OneOf(word(0), rapid.SampledFrom(values),
			rapid.Map(rapid.IntRange(0, len(m.needles)-1), func(i int) string { return string(m.needles[i]) }))).Draw(
			t, "pieces")
		text := strings.Join(pieces, "")
		want := string(naive(m.needles, []byte(text)))
		if got := m.Text(text); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
		if got := string(m.Bytes([]byte(text))); got != want {
			t.Fatalf("bytes: got %q, want %q", got, want)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := fileErr(m, path, 0); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Fatalf("file: got %q, want %q", got, want)
		}
		var out bytes.Buffer
		w := m.Writer(&out)
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			if k, err := w.Write([]byte(rest[:n])); k != n || err != nil {
				t.Fatal(k, err)
			}
			rest = rest[n:]
		}
		if err := w.Flush(); err != nil || out.String() != want {
			t.Fatalf("stream: got %q, want %q", out.String(), want)
		}
	})
}

// A value is found wherever it lies against the borders of the chunks that a file is read in.
func TestFileBorders(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	long := strings.Repeat("0123456789abcdef", 1<<10)
	m := New([]string{secret, long})
	text := bytes.Repeat([]byte("."), 3*chunk+99)
	put := func(at int, s string) { copy(text[at:], s) }
	for i := range 40 {
		put(chunk-20+i*len(secret), secret)
	}
	put(2*chunk-len(long)/2, long)
	put(len(text)-len(secret), secret)
	want := naive([][]byte{[]byte(secret), []byte(long)}, text)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if left, err := m.Log(path, 0, 0); left != 0 || err != nil {
			t.Fatal(left, err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("masked otherwise (%d bytes of %d), %v", len(got), len(want), err)
		}
	}
}

// What a program makes of its log is no reason to write elsewhere.
func TestFileOdd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := New([]string{secret})
	mine, link := filepath.Join(dir, "mine"), filepath.Join(dir, "link")
	if err := os.WriteFile(mine, []byte(secret+secret), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(mine, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, dir, filepath.Join(dir, "gone"), ""} {
		if err := fileErr(m, path, 0); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if got, _ := os.ReadFile(mine); string(got) != secret+secret {
		t.Errorf("masked through a link: %s", got)
	}
	for _, from := range []int64{int64(len(secret)), 999} { // the second is a file that was cut short
		if err := fileErr(m, mine, from); err != nil {
			t.Fatal(err)
		}
		got, _ := os.ReadFile(mine)
		if masked := from == 999; strings.HasPrefix(string(got), secret) == masked ||
			strings.HasSuffix(string(got), secret) {
			t.Errorf("from %d: %s", from, got)
		}
	}
}

// logText is n bytes of what agents print.
func logText(n int) []byte {
	line := `{"type":"assistant","message":{"content":[{"type":"text","text":"I will look at internal/parse/header.go, then run go test ./... again."}],"usage":{"input_tokens":2114}}}` + "\n"
	r := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for b.Len() < n {
		at := r.IntN(len(line))
		b.WriteString(line[at:])
	}
	return b.Bytes()[:n]
}

func benchSecrets() (list []string) {
	for _, s := range []string{"sk-ant-api03-", "ghp_", "AKIA", "npm_", "glpat-"} {
		list = append(list, s+base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte(s), 4)))
	}
	return list
}

func BenchmarkText(b *testing.B) {
	text := logText(64 << 20)
	m := New(benchSecrets())
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if m.find(text, unpaint(text), nil) != nil {
			b.Fatal("found")
		}
	}
}

func BenchmarkFile(b *testing.B) {
	text := logText(64 << 20)
	m := New(benchSecrets())
	path := filepath.Join(b.TempDir(), "log")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if err := fileErr(m, path, 0); err != nil {
			b.Fatal(err)
		}
	}
}

// The whole file is one secret after the other.
func BenchmarkFileHostile(b *testing.B) {
	list := benchSecrets()
	text := bytes.Repeat([]byte(list[0]), (16<<20)/len(list[0]))
	m := New(list)
	path := filepath.Join(b.TempDir(), "log")
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			b.Fatal(err)
		}
		if err := fileErr(m, path, 0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkIndexEach(b *testing.B) {
	text := logText(64 << 20)
	m := New(benchSecrets())
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		for _, n := range m.needles {
			if bytes.Contains(text, n) {
				b.Fatal("found")
			}
		}
	}
}

func BenchmarkNew(b *testing.B) {
	list := benchSecrets()
	for b.Loop() {
		New(list)
	}
}
