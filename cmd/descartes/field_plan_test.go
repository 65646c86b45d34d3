package main

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// fieldPlan is a tag of size tasks in waves of width: task i depends on task i-width.
type fieldPlan struct {
	size, width int
	flaky       []int // fail verification once
	refused     []int // their agent says TASK_BLOCKED
	hopeless    []int // never pass verification
	strays      []int // leave a process behind
	committers  []int // commit by themselves
	stagers     []int // put their work into the index
}

// smallPlan has four waves, each with something that ends well.
func smallPlan() fieldPlan {
	return fieldPlan{size: 12, width: 3, flaky: []int{1, 7}, refused: []int{5}, strays: []int{4}, committers: []int{6}, stagers: []int{5, 10}}
}

// largePlan has five waves.
func largePlan() fieldPlan {
	return fieldPlan{size: 50, width: 10, flaky: []int{3, 14, 27, 38}, refused: []int{12}, hopeless: []int{25}, strays: []int{9, 31}, committers: []int{14}, stagers: []int{25}}
}

// outcome is the state that a plan must end in: done, blocked and held tasks.
func (p fieldPlan) outcome() (done, blocked, held []string) {
	fate := make([]string, p.size+1)
	for i := 1; i <= p.size; i++ {
		switch {
		case i > p.width && fate[i-p.width] != "done":
			fate[i] = "held"
			held = append(held, strconv.Itoa(i))
		case slices.Contains(p.refused, i) || slices.Contains(p.hopeless, i):
			fate[i] = "blocked"
			blocked = append(blocked, strconv.Itoa(i))
		default:
			fate[i] = "done"
			done = append(done, strconv.Itoa(i))
		}
	}
	return done, blocked, held
}

func (p fieldPlan) taskFile() []byte {
	type task struct {
		ID        int    `json:"id"`
		Title     string `json:"title"`
		Status    string `json:"status"`
		DependsOn []int  `json:"depends_on"`
	}
	var list []task
	for i := 1; i <= p.size; i++ {
		t := task{ID: i, Title: "Part " + strconv.Itoa(i), Status: "pending", DependsOn: []int{}}
		if i > p.width {
			t.DependsOn = append(t.DependsOn, i-p.width)
		}
		list = append(list, t)
	}
	b, err := json.MarshalIndent(map[string]any{"tag": "t", "tasks": list}, "", "  ")
	if err != nil {
		panic(err)
	}
	return append(b, '\n')
}

// agentScript writes a line before and after its work, and its work over that of earlier attempts.
// Its last act is the line: nothing that it does is lost once that is written.
func (p fieldPlan) agentScript() string {
	alternatives := func(ids []int) string {
		words := []string{"none"}
		for _, id := range ids {
			words = append(words, strconv.Itoa(id))
		}
		return strings.Join(words, "|")
	}
	return `aside=$1 t=$DESCARTES_TASK_ID n=$DESCARTES_ATTEMPT
echo "start $t $n" >>"$aside/ledger"
while [ -e "$aside/hold" ]; do sleep 0.02; done
work="good $t"
case $t in
` + alternatives(p.flaky) + `) if [ ! -e "$aside/failed-$t" ]; then : >"$aside/failed-$t"; work=bad; fi ;;
` + alternatives(p.hopeless) + `) work=bad ;;
esac
case $t in ` + alternatives(p.strays) + `) sleep 300 & ;; esac
echo "$work" >"work-$t.txt"
echo "$t" >shared.txt
case $t in ` + alternatives(p.stagers) + `) git add . ;; esac
case $t in ` + alternatives(p.committers) + `) git add . && git commit -q -m "mine" ;; esac
case $t in
` + alternatives(p.refused) + `) echo "TASK_BLOCKED: this cannot be done" ;;
*) echo "<promise>COMPLETE</promise>" ;;
esac
echo "end $t $n" >>"$aside/ledger"
`
}
