package receipt

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// edited is a statement with a piece of it replaced, its digests untouched.
func edited(b []byte, from, to string) []byte { return bytes.Replace(b, []byte(from), []byte(to), 1) }

// again are the statements of a task that somebody who knows the format wrote anew.
func again(t *testing.T, change func(f *Facts)) [][]byte {
	t.Helper()
	f := facts("1")
	change(f)
	return statements(t, f)
}

func TestForgedNotesAreRefused(t *testing.T) {
	whole := statements(t, facts("1"))
	other := statements(t, facts("2"))
	for name, tt := range map[string]struct {
		note  [][]byte
		wants string // "" for nothing wrong
	}{
		"as it was written":      {whole, ""},
		"two tasks":              {slices.Concat(whole, other), ""},
		"with words of a person": {slices.Concat([][]byte{[]byte("looks good to me")}, whole), ""},
		"of another commit": {again(t, func(f *Facts) { f.Commit.Hash = strings.Repeat("9", 40) }),
			"it was written for commit 999999999999"},
		"of another tree": {again(t, func(f *Facts) { f.Commit.Tree = strings.Repeat("9", 40) }),
			"it was written for the tree 999999999999, and the commit has 222222222222"},
		"a receipt was edited": {slices.Concat([][]byte{edited(whole[0], `"exit_code":0`, `"exit_code":1`)},
			whole[1:]), "its result of the check unit is missing or was changed"},
		"its title was edited": {slices.Concat([][]byte{edited(whole[0], "A & B", "A & C")}, whole[1:]),
			"its summary is missing or was changed"},
		"a subject was edited": {slices.Concat(whole[:1],
			[][]byte{edited(whole[1], commitOne, strings.Repeat("9", 40))}, whole[2:]),
			"its result of the check unit is missing or was changed"},
		"a check is missing": {slices.Concat(whole[:1], whole[2:]),
			"its result of the check unit is missing or was changed"},
		"its only check": {again(t, func(f *Facts) { f.Attempt.Checks[0].Passed = false }),
			"the check unit failed"},
		"another command": {slices.Concat(whole[:1],
			again(t, func(f *Facts) { f.Attempt.Checks[0].Command = "true" })[1:2], whole[2:]),
			"its result of the check unit is missing or was changed"},
		"a check too many": {slices.Concat(again(t, func(f *Facts) {
			f.Attempt.Checks = f.Attempt.Checks[:1]
		})[:1], whole[1:]), "its note has a statement about the task that does not follow from it"},
		"no summary": {whole[:3], "its summary is missing or was changed"},
		"another task's summary": {slices.Concat(whole[:3], [][]byte{edited(other[3], "x/2", "x/1")}),
			"its summary is missing or was changed"},
		"a summary that fails": {slices.Concat(whole[:3],
			[][]byte{edited(whole[3], `"verificationResult":"PASSED"`, `"verificationResult":"FAILED"`)}),
			"its summary is missing or was changed"},
		"two receipts of a task": {slices.Concat(whole, again(t, func(f *Facts) { f.Attempt.Number = 3 })[:1]),
			"its note has a statement about the task that does not follow from it"},
		"a look that objected": {again(t, func(f *Facts) { f.Attempt.Result.Looks[0].Objects = true }),
			"guard objected"},
		"another kind": {slices.Concat(whole, [][]byte{
			edited(whole[1], TestResultType, "https://example.org/else")}),
			"its note has a statement about the task that does not follow from it"},
		"a statement of nobody's": {slices.Concat(whole, other[1:2]),
			`it has a statement about "x/2" without a receipt`},
		"no statement": {[][]byte{[]byte(`{"a":1}`)}, "one of its lines is not an in-toto statement"},
		"half a line": {slices.Concat(whole[:2], [][]byte{whole[2][:50]}),
			"one of its lines is not JSON: unexpected end of JSON input"},
	} {
		claims, err := Claims(commitOne, treeOne, Text(tt.note))
		var wrong []string
		if err != nil {
			wrong = append(wrong, err.Error())
		}
		for _, c := range claims {
			wrong = append(wrong, c.Problems...)
		}
		if tt.wants == "" && len(wrong) > 0 || tt.wants != "" && !slices.Contains(wrong, tt.wants) {
			t.Errorf("%s: %q, want %q", name, wrong, tt.wants)
		}
	}
}

func TestJoinKeepsWhatPeopleWrote(t *testing.T) {
	for _, tt := range [][3]string{
		{"", "a\nb\n", "a\nb\n"},
		{"mine\n", "a\n", "mine\na\n"},
		{"mine", "a\n", "mine\na\n"},
		{"a\nb\n", "a\n", "a\nb\n"},
		{"mine\n\nmore\na\n", "a\nb", "mine\n\nmore\na\nb\n"},
		{"mine", "", "mine"},
	} {
		got := string(Join([]byte(tt[0]), []byte(tt[1])))
		if got != tt[2] {
			t.Errorf("%q and %q are %q, want %q", tt[0], tt[1], got, tt[2])
		}
		if twice := string(Join([]byte(got), []byte(tt[1]))); twice != got {
			t.Errorf("%q a second time: %q", tt[1], twice)
		}
	}
}

func runs(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, out)
	}
	return string(out)
}

// A signature counts if it is of these bytes, by a key that is allowed, for receipts.
func TestSignatures(t *testing.T) {
	dir := t.TempDir()
	key := func(name string) (string, string) {
		file := filepath.Join(dir, name)
		runs(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", file)
		public, err := os.ReadFile(file + ".pub")
		if err != nil {
			t.Fatal(err)
		}
		return file, string(public)
	}
	mine, public := key("mine")
	stranger, _ := key("stranger")
	home := filepath.Join(dir, "gpg")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GNUPGHOME", home)
	runs(t, "gpg", "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", "", "--quick-gen-key",
		"me@example.org", "ed25519", "sign", "never")
	t.Cleanup(func() { _ = exec.Command("gpgconf", "--kill", "all").Run() })
	print := ""
	for line := range strings.Lines(runs(t, "gpg", "--with-colons", "--fingerprint", "me@example.org")) {
		if f := strings.Split(line, ":"); f[0] == "fpr" && print == "" {
			print = f[9]
		}
	}
	allowed, err := ReadSigners([]byte("# who counts\nme@example.org " + public + "gpg@example.org openpgp " + print +
		"\n"))
	if err != nil {
		t.Fatal(err)
	}
	payload := statements(t, facts("1"))[0]
	sign := func(k Key) Line {
		t.Helper()
		line, err := k.Sign(t.Context(), payload)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := Read(Text([][]byte{line}))
		if err != nil || len(lines) != 1 || string(lines[0].Payload) != string(payload) ||
			lines[0].Statement.PredicateType != ReceiptType {
			t.Fatalf("%+v, %v", lines, err)
		}
		return lines[0]
	}
	verify := func(l Line) string {
		who, err := allowed.Verify(t.Context(), l)
		if err != nil {
			return err.Error()
		}
		return who
	}
	byMe, byGPG := sign(Key{Format: "ssh", ID: mine}), sign(Key{ID: print})
	if got := verify(byMe); got != "me@example.org" {
		t.Errorf("mine: %s", got)
	}
	if got := verify(byGPG); got != "gpg@example.org" {
		t.Errorf("by gpg: %s", got)
	}
	const nobody = "it is not signed by an allowed signer"
	if got := verify(sign(Key{Format: "ssh", ID: stranger})); got != nobody {
		t.Errorf("a stranger's: %s", got)
	}
	for _, l := range []Line{byMe, byGPG} {
		l.Payload = edited(payload, "A & B", "A & C")
		if got := verify(l); got != nobody {
			t.Errorf("of other bytes: %s", got)
		}
	}
	moved := byMe
	moved.Envelope = &Envelope{PayloadType: payloadType, Payload: payload, Signatures: byGPG.Envelope.Signatures[:0]}
	if got := verify(moved); got != "it is not signed" {
		t.Errorf("an empty envelope: %s", got)
	}
	if got := verify(Line{Payload: payload}); got != "it is not signed" {
		t.Errorf("without an envelope: %s", got)
	}
	none, err := ReadSigners(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := none.Verify(t.Context(), byMe); err == nil || err.Error() != nobody {
		t.Errorf("nobody is allowed: %v", err)
	}
	for key, wants := range map[Key]string{
		{Format: "x509", ID: "a"}: "sign: gpg.format x509 is not supported: it may be ssh or openpgp",
		{Format: "ssh"}:           "sign: git config user.signingkey names no key",
		{Format: "ssh", ID: filepath.Join(dir, "nothing")}: "sign: ssh-keygen: ",
		{ID: "nobody@example.org"}:                         "sign: gpg: ",
	} {
		if _, err := key.Sign(t.Context(), payload); err == nil || !strings.HasPrefix(err.Error(), wants) {
			t.Errorf("%+v: %v", key, err)
		}
	}
	for _, bad := range []string{"just-a-name\n", "me openpgp 1234\n"} {
		if _, err := ReadSigners([]byte(bad)); err == nil {
			t.Errorf("%q can be read", bad)
		}
	}
}

func FuzzNote(f *testing.F) {
	f.Add([]byte("mine\n{}\n"))
	f.Add([]byte(`{"payloadType":"application/vnd.in-toto+json","payload":"e30=","signatures":null}`))
	b, err := json.Marshal(Statement{Type: StatementType, PredicateType: ReceiptType,
		Predicate: json.RawMessage(`{"tag":"x"}`)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, note []byte) {
		claims, err := Claims(commitOne, treeOne, note)
		for _, c := range claims {
			if err == nil && len(c.Problems) == 0 {
				t.Errorf("%q is believed", note)
			}
		}
		Held(note)
		Join(note, note)
	})
}
