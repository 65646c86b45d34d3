package tasks

import (
	"strings"

	"descartes/tasks/prose"
)

// nodeFields finds the first five fields of a node line. Only a title may hold bars, escaped.
func nodeFields(text string, cut *[5]span) bool {
	from := 0
	for k := range cut {
		to := from
		for to < len(text) && text[to] != '|' {
			if k == 1 && text[to] == '\\' && to+1 < len(text) {
				to++
			}
			to++
		}
		cut[k] = span{int32(from), int32(to)}
		if to == len(text) && k < 4 {
			return false
		}
		from = to + 1
	}
	return true
}

// bareBars looks for status, complexity and priority further on, where a title that was written by hand has bars without backslashes.
func bareBars(text string, cut *[5]span) bool {
	const most = 20 // bars
	bars := []int32{cut[1].start - 1}
	for at := int(cut[1].start); at < len(text) && len(bars) < most; at++ {
		if text[at] == '|' {
			bars = append(bars, int32(at))
		}
	}
	if len(bars) < most {
		bars = append(bars, int32(len(text)))
	}
	part := func(k int) string { return strings.TrimSpace(text[bars[k]+1 : bars[k+1]]) }
	for k := 2; k+3 < len(bars); k++ {
		_, letter := statusOf(part(k))
		if !letter || !prose.IsNumber(part(k+1)) || len(part(k+2)) != 1 || !strings.Contains("CHML", part(k+2)) {
			continue
		}
		cut[1].end = bars[k]
		for n := range 3 {
			cut[2+n] = span{bars[k+n] + 1, bars[k+n+1]}
		}
		return true
	}
	return false
}

func unescapeTitle(text string) string {
	if strings.IndexByte(text, '\\') < 0 {
		return text
	}
	return strings.NewReplacer(`\\`, `\`, `\|`, `|`, `\n`, "\n").Replace(text)
}
