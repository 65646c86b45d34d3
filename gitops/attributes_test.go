package gitops

import "testing"

func TestConversionIn(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.sh("git init -q .; git config filter.on.clean cat; git config filter.must.required true; git config filter.empty.clean ''")
	c := s.config()
	for _, tt := range []struct {
		text, want string
	}{
		{"", ""},
		{"# * text\n\n", ""},
		{"* text=auto\n", "text=auto"},
		{"*.txt text", "text"},
		{"*.sh eol=lf\n", "eol=lf"},
		{"*.sh eol=cr\n", ""},
		{"*.png binary\n*.jpg -text\n*.x !text -filter -ident\n", ""},
		{"*.c ident\n", "ident"},
		{"*.c crlf=input\n", "crlf=input"},
		{"*.c -crlf\n", ""},
		{"*.psd filter=lfs diff=lfs merge=lfs -text\n", ""}, // no such filter is configured: git leaves it alone
		{"*.psd filter=on\n", "filter=on"},
		{"*.psd filter=must\n", "filter=must"},
		{"*.psd filter=empty\n", ""},
		{"*.txt working-tree-encoding=UTF-16\n", "working-tree-encoding=UTF-16"},
		{"*.txt working-tree-encoding=UTF-8\n", ""},
		{"*.go diff=golang linguist-generated merge=union export-ignore whitespace=tab\n", ""},
		{"\"a text\" -diff\n", ""},
		{"\"a \\\" b\" text\r\n", "text"},
		{"[attr]mine text\n", "text"},
		{"[attr]mine -diff\n*.x mine\n", ""},
		{"text\n", ""}, // a pattern without attributes
		{"\xef\xbb\xbf* ident\n", "ident"},
		{"\"open text\n", ""},
	} {
		got, kind := conversionIn([]byte(tt.text), c)
		if got != tt.want || (kind == noConversion) != (tt.want == "") {
			t.Errorf("%q: got %q %d, want %q", tt.text, got, kind, tt.want)
		}
	}
	for _, tt := range []struct {
		text string
		want conversion
	}{
		{"* text=auto eol=lf\n", lineEnds},
		{"* text=auto\n*.bat eol=crlf\n", fullConversion},
		{"*.c ident\n* crlf=input\n", fullConversion},
		{"* -text\n", noConversion},
	} {
		if _, got := conversionIn([]byte(tt.text), c); got != tt.want {
			t.Errorf("%q: got %d, want %d", tt.text, got, tt.want)
		}
	}
}
