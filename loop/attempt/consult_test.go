package attempt

import "testing"

func TestDecode(t *testing.T) {
	t.Parallel()
	type answer struct{ Verdict string }
	for name, c := range map[string]struct{ words, want string }{
		"none":           {"I approve.", ""},
		"bare":           {`{"verdict": "approve"}`, "approve"},
		"fenced":         {"I read it.\n```json\n{\"verdict\": \"reject\"}\n```\nThat is all.", "reject"},
		"the last":       {`{"verdict": "approve"} and then {"verdict": "unsure"}`, "unsure"},
		"nested":         {`{"verdict": "reject", "criteria": [{"verdict": "approve"}]}`, "reject"},
		"other objects":  {`{"a": {"b": 1}} {"verdict": "approve"} {"c": 2}`, "approve"},
		"braces in text": {`func f() { return } {"verdict": "approve"} }`, "approve"},
		"broken":         {`{"verdict": "approve"`, ""},
		"other type":     {`{"verdict": 7}`, ""},
		"many braces":    {string(make([]byte, 10)) + "{{{{{{{{{{", ""},
	} {
		var got answer
		if err := Decode(c.words, "verdict", &got); (err != nil) != (c.want == "") || got.Verdict != c.want {
			t.Errorf("%s: got %q, %v; want %q", name, got.Verdict, err, c.want)
		}
	}
}
