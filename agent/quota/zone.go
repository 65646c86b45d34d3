package quota

import (
	"strconv"
	"strings"
	"time"

	"descartes/internal/lazyregexp"
)

// zoneWords match what stands after a time of day as its zone: an offset or a short name, known or not.
const zoneWords = `(?-i:(?:UTC|GMT)? ?[+-]\d{1,2}(?::?\d\d)?\b|[A-Z]{2,5}\b)`

// zoneNames are the short names that mean one zone alone. CST and IST, for instance, are three each.
var zoneNames = map[string]string{
	"UTC": "+0", "GMT": "+0", "WET": "+0", "WEST": "+1", "BST": "+1", "CET": "+1", "CEST": "+2", "EET": "+2",
	"EEST": "+3", "MSK": "+3", "SGT": "+8", "HKT": "+8", "JST": "+9", "KST": "+9", "AEST": "+10", "AEDT": "+11",
	"EST": "-5", "EDT": "-4", "CDT": "-5", "MST": "-7", "MDT": "-6", "PST": "-8", "PDT": "-7",
	"ET": "America/New_York", "CT": "America/Chicago", "MT": "America/Denver", "PT": "America/Los_Angeles",
}

var zoneOffset = lazyregexp.New(`^(?:UTC|GMT)? ?([+-])(\d{1,2}):?(\d\d)?$`)

// zoneOf is the zone that a time of day is told in, nil if it is not known.
func zoneOf(name string) *time.Location {
	name = strings.TrimSpace(name)
	if known, ok := zoneNames[name]; ok {
		name = known
	}
	if m := zoneOffset.FindStringSubmatch(name); m != nil {
		hours, _ := strconv.Atoi(m[2])
		minutes, _ := strconv.Atoi(m[3])
		if hours > 14 || minutes > 59 {
			return nil
		}
		seconds := (hours*60 + minutes) * 60
		if m[1] == "-" {
			seconds = -seconds
		}
		return time.FixedZone("", seconds)
	}
	if zone, err := time.LoadLocation(name); err == nil && name != "" && name != "Local" {
		return zone
	}
	return nil
}
