package gate

import "strings"

// Open are the items that are not checked off, in the plan's order. An item with entries of its own
// counts only where all of those are checked: it is the entries that are the work.
func (p *Plan) Open() []Item {
	if p == nil {
		return nil
	}
	var open []Item
	for i, it := range p.Items {
		if !it.Checked && !(it.Parent && p.openBelow(i)) {
			open = append(open, it)
		}
	}
	return open
}

func (p *Plan) openBelow(i int) bool {
	for _, it := range p.Items[i+1:] {
		if it.Depth <= p.Items[i].Depth {
			return false
		}
		if !it.Checked {
			return true
		}
	}
	return false
}

// Checked is the number of items that are checked off.
func (p *Plan) Checked() int {
	n := 0
	if p != nil {
		for _, it := range p.Items {
			if it.Checked {
				n++
			}
		}
	}
	return n
}

// NewlyChecked are the items without entries of their own that are checked in after and were not in
// before. An item is known by its words without what stands in a closing bracket, so that a note that
// is added or taken off makes no other item. Without a plan before there is nothing to compare with.
func NewlyChecked(before, after *Plan) []Item {
	if before == nil || after == nil {
		return nil
	}
	was := map[string]int{}
	for _, it := range before.Items {
		if it.Checked {
			was[key(it.Text)]++
		}
	}
	var fresh []Item
	for _, it := range after.Items {
		if !it.Checked {
			continue
		}
		if k := key(it.Text); was[k] > 0 {
			was[k]--
		} else if !it.Parent {
			fresh = append(fresh, it)
		}
	}
	return fresh
}

// key is what an item is known by.
func key(text string) string {
	text = strings.TrimRight(text, " .*_`~")
	if strings.HasSuffix(text, ")") {
		if at := strings.LastIndex(text, "("); at > 0 {
			text = text[:at]
		}
	}
	if k := strings.Join(words(text), " "); k != "" {
		return k
	}
	return text
}
