package gate

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// signatureLimit bounds how much of an error is compared.
const signatureLimit = 4 << 10

// Signature is an error without what differs from run to run: numbers, times, addresses, hashes and
// paths of temporary files are taken out, of other paths the directories. Two errors are the same if
// their signatures are.
func Signature(text string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(text, "\n") {
		for token := range strings.FieldsSeq(line) {
			if b.Len() >= signatureLimit {
				return b.String()
			}
			b.WriteString(normalToken(clip(token, 512)))
			b.WriteByte(' ')
		}
	}
	return strings.TrimSpace(b.String())
}

func normalToken(token string) string {
	if at := strings.IndexAny(token, `/\`); at >= 0 {
		low := strings.ToLower(strings.ReplaceAll(token, `\`, "/"))
		if strings.Contains(low, "/tmp") || strings.HasPrefix(low, "tmp/") || strings.Contains(low, "/var/folders/") || strings.Contains(low, "/temp/") {
			return "<path>"
		}
		low = strings.TrimRight(low, "/")
		token = "<path>" + token[min(len(token), strings.LastIndexByte(low, '/')+1):]
	}
	var b strings.Builder
	for len(token) > 0 {
		n := opaque(token)
		if n > 0 {
			if !strings.HasSuffix(b.String(), "#") {
				b.WriteByte('#')
			}
			token = token[n:]
			continue
		}
		_, size := utf8.DecodeRuneInString(token)
		clock := len(token) > 1 && token[0] == 'T' && token[1] >= '0' && token[1] <= '9' && strings.HasSuffix(b.String(), "#")
		if word := wordLen(token); word > 0 && !clock {
			size = word
		}
		b.WriteString(token[:size])
		token = token[size:]
	}
	return b.String()
}

// opaque is the length of the number, time, address or hash that s begins with.
func opaque(s string) int {
	if len(s) > 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X') {
		n := 2
		for n < len(s) && hexDigit(s[n]) {
			n++
		}
		return n
	}
	digits, n := 0, 0
	for n < len(s) && hexDigit(s[n]) {
		if s[n] >= '0' && s[n] <= '9' {
			digits++
		}
		n++
	}
	if whole := wordLen(s); digits > 0 && n >= 6 && (whole == n || whole == 0) {
		return n // a hash
	}
	if s[0] < '0' || s[0] > '9' {
		return 0
	}
	n = 1
	for n < len(s) && (s[n] >= '0' && s[n] <= '9' || strings.IndexByte(".,:", s[n]) >= 0 && n+1 < len(s) && s[n+1] >= '0' && s[n+1] <= '9') {
		n++
	}
	return n + unitLen(s[n:])
}

// unitLen is the length of the unit of time or size that follows a number.
func unitLen(s string) int {
	n := wordLen(s)
	switch strings.ToLower(s[:n]) {
	case "s", "ms", "us", "µs", "μs", "ns", "m", "h", "d", "sec", "secs", "min", "mins", "b", "kb", "mb", "gb", "t", "z":
		return n
	}
	for _, unit := range []string{"ms", "µs", "μs", "us", "ns", "h", "m", "s"} { // 1m2.5s
		if strings.HasPrefix(s, unit) && len(s) > len(unit) && s[len(unit)] >= '0' && s[len(unit)] <= '9' {
			return len(unit)
		}
	}
	return 0
}

func hexDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// wordLen is the length of the letters and digits that s begins with, if it begins with a letter; of
// a run that begins with a digit, 0 unless a letter is in it.
func wordLen(s string) int {
	n, letter := 0, false
	for i, r := range s {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' {
			break
		}
		letter = letter || unicode.IsLetter(r)
		n = i + utf8.RuneLen(r)
		if r == utf8.RuneError {
			break
		}
	}
	if !letter {
		return 0
	}
	return min(n, len(s))
}

// failure is the signature of what went wrong in an iteration, and the line that shows it; both are ""
// where nothing did. Of a failed verification the lines that speak of an error count, or else the last.
func failure(f Facts) (signature, shown string) {
	if f.Err != "" {
		return "iteration: " + Signature(f.Err), oneLine(f.Err, 300)
	}
	if f.Verify == nil || f.Verify.Passed {
		return "", ""
	}
	return Failed(f.Verify.Output)
}

// Failed is the signature of what a failed verification printed, and the line that shows it.
func Failed(output string) (signature, shown string) {
	var told, last []string
	for line := range strings.SplitSeq(output, "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if last = append(last, line); len(last) > 5 {
			last = last[1:]
		}
		low := strings.ToLower(clip(line, 300))
		for _, w := range []string{"error", "fail", "panic", "exception", "undefined", "cannot", "expected"} {
			if strings.Contains(low, w) && len(told) < 30 {
				told = append(told, line)
				break
			}
		}
	}
	if len(told) == 0 {
		told = last
	}
	if len(told) == 0 {
		return "verify: no output", "verify failed without any output"
	}
	return "verify: " + Signature(strings.Join(told, "\n")), oneLine(told[0], 300)
}
