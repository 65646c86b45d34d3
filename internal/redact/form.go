package redact

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf16"
)

// shortestLine is the length of a line of a value with several that is masked by itself: programs indent them.
const shortestLine = 16

// forms are the ways in which a value may be printed, the value itself among them.
func forms(value string) []string {
	value = strings.TrimSpace(value)
	if value == "" {
		return nil
	}
	list := append([]string{value}, escaped(value)...)
	list = append(list, percent(value)...)
	list = append(list, encoded(value)...)
	if strings.Contains(value, "\n") {
		for line := range strings.Lines(value) {
			if line = strings.TrimSpace(line); len(line) >= shortestLine && !strings.HasPrefix(line, "-----") {
				list = append(list, line)
				list = append(list, escaped(line)...)
			}
		}
	}
	return list
}

// escaped is a value inside a JSON string: as Go and JavaScript write it, as Python and PHP do, and once more
// inside the string that another JSON document holds it in.
func escaped(value string) []string {
	plain, html := inJSON(value, false), inJSON(value, true)
	list := []string{plain, html, ascii(plain), ascii(html), strings.ReplaceAll(plain, "/", `\/`)}
	for _, once := range list[:3] {
		list = append(list, inJSON(once, false), inJSON(once, true))
	}
	return list
}

// inJSON is a text as it appears between the quotes of a JSON string.
func inJSON(s string, html bool) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	if err := e.Encode(s); err != nil { // a string can be encoded
		panic(err)
	}
	out := strings.TrimSuffix(b.String(), "\n")
	return out[1 : len(out)-1]
}

// ascii writes every other character as \u and four digits.
func ascii(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < 0x80 {
			b.WriteRune(r)
			continue
		}
		for _, u := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, u)
		}
	}
	return b.String()
}

// percent is a value in a URL: in a query, in a path, as encodeURIComponent writes it, and with small letters.
func percent(value string) (list []string) {
	strict := strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
	component := strict
	for _, c := range []string{"!", "'", "(", ")", "*"} {
		component = strings.ReplaceAll(component, fmt.Sprintf("%%%02X", c[0]), c)
	}
	list = []string{url.QueryEscape(value), url.PathEscape(value), strict, component}
	for _, s := range list[:4] {
		list = append(list, smallHex(s))
	}
	return list
}

func smallHex(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], strings.ToLower(string(b[i+1:i+3])))
			i += 2
		}
	}
	return string(b)
}

// encoded is a value in base64, within something longer too.
func encoded(value string) (list []string) {
	for skip := range 3 {
		list = append(list, inBase64(value, skip)...)
	}
	return list
}

// inBase64 is a value within something longer that was encoded, such as user:password, with skip bytes (modulo 3)
// before it: the characters that the value alone decides. What it shares with its neighbours is at most four bits
// at each end. With skip 0 it is also the encoding of the value itself.
func inBase64(value string, skip int) (list []string) {
	padded := strings.Repeat("\x00", skip) + value
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		whole := enc.EncodeToString([]byte(padded))
		from, to := (skip*8+5)/6, len(padded)*8/6
		list = append(list, whole[from:to])
		if skip == 0 {
			list = append(list, whole)
		}
	}
	return list
}
