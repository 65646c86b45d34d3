package tasks

import "testing"

// The formats that people have on disk, each as small as it can be.
func TestFormats(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path, tag, src string
		want           []string
	}{
		"a tag's own file": {"x.json", "x", `{"tag": "x", "tasks": [{"id": 2, "title": "B", "status": "pending", "complexity": 2, "depends_on": [1]},
			{"id": 1, "title": "A", "status": "done", "complexity": 1}], "waves": [{"number": 1, "task_ids": [1, 2, 9]}]}`,
			[]string{"2 pending B <- 1", "1 done A"}},
		"SCUD's list of tags": {"tasks.json", "x", `{"x": {"name": "x", "tasks": [{"id": "1", "title": "A", "status": "expanded", "dependencies": [], "subtasks": ["1.1"]},
			{"id": "1.1", "title": "a", "status": "pending", "dependencies": [], "parent_id": "1"}]}}`,
			[]string{"1 expanded A", "1.1 pending a in 1"}},
		"SCUD's oldest list": {"tasks.json", "p1", `{"p1": {"name": "p1", "tasks": [{"id": "p1:1", "title": "[PARENT] A", "status": "completed", "dependencies": []},
			{"id": "p1:1.1", "title": "a", "status": "completed", "dependencies": ["p1:1"]}]}}`,
			[]string{"1 done A", "1.1 done a <- 1 in 1"}},
		"Task Master's tags": {"tasks.json", "master", `{"master": {"tasks": [{"id": 12, "title": "A", "status": "pending", "dependencies": [3, "7"], "subtasks": [
			{"id": 1, "title": "a", "status": "done", "dependencies": []}, {"id": 2, "title": "b", "status": "pending", "dependencies": [1, 3]}]},
			{"id": 3, "title": "B", "status": "done"}, {"id": "7", "title": "C", "status": "todo"}]}}`,
			[]string{"12 pending A <- 3,7", "12.1 done a in 12", "12.2 pending b <- 12.1,3 in 12", "3 done B", "7 pending C"}},
		"Task Master's old list": {"tasks.json", "", `{"tasks": [{"id": 4, "title": "A", "status": "completed", "subtasks": [{"id": 4.10, "title": "a", "status": "pending"}]}], "metadata": {"projectName": "x"}}`,
			[]string{"4 done A", "4.10 pending a in 4"}},
		"SCUD's graph": {"tasks.scg", "z", "# SCUD Graph v1\r\n# Epic: z\r\n@nodes\r\n1 | a \\| b | D | 3 | H\r\n2 | B | ? | 5 | M\r\n2.1 | C | F | 0 | X\r\n@edges\r\n2 -> 1\r\n@parents\r\n2: 2.1\r\n",
			[]string{"1 done a | b", "2 pending B <- 1", "2.1 deferred C in 2"}},
		"Ralph's stories": {"prd.json", "", `{"branchName": "ralph/x", "userStories": [{"id": "US-2", "title": "B", "priority": 2, "passes": false}, {"id": "US-1", "title": "A", "priority": 1, "passes": true}]}`,
			[]string{"US-2 pending B <- US-1", "US-1 done A"}},
		"beads": {"issues.jsonl", "", `{"id": "bd-1", "title": "A", "status": "closed"}` + "\n" +
			`{"id": "bd-2", "title": "B", "status": "open", "dependencies": [{"issue_id": "bd-2", "depends_on_id": "bd-1", "type": "blocks"}]}` + "\n",
			[]string{"bd-1 done A", "bd-2 pending B <- bd-1"}},
		"Shrimp": {"tasks.json", "", `{"tasks": [{"id": "a", "name": "A", "status": "completed", "dependencies": []}, {"id": "b", "name": "B", "status": "pending", "dependencies": [{"taskId": "a"}]}]}`,
			[]string{"a done A", "b pending B <- a"}},
		"Spec Kit":     {"tasks.md", "", "## Phase 1\n- [x] T001 A\n- [ ] T002 [P] [US1] B\n- [ ] T003 [P] C (depends on T001)\n", []string{"T001 done A", "T002 pending B <- T001", "T003 pending C (depends on T001) <- T001"}},
		"cc-sdd":       {"tasks.md", "", "- [ ] 1. A\n- [ ] 1.1 (P) a\n- [ ] 1.2 (P) b\n- [ ]* 1.3 c\n", []string{"1 pending A", "1.1 pending a in 1", "1.2 pending b in 1"}},
		"ai-dev-tasks": {"tasks-x.md", "", "# Task List: X\n## Tasks\n- [ ] 1.0 A\n  - [x] 1.1 a\n  - [ ] 1.2 b\n", []string{"1.0 pending A", "1.1 done a in 1.0", "1.2 pending b <- 1.1 in 1.0"}},
		"Agent OS":     {"tasks.md", "", "# Task Breakdown: X\n### Task Group 1: Data\n- [ ] 1.0 Complete data\n  - [ ] 1.1 Write\n  - [ ] 1.2 Check\n", []string{"1.0 pending Complete data", "1.1 pending Write in 1.0", "1.2 pending Check <- 1.1 in 1.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := Parse(c.path, c.tag, []byte(c.src))
			if err != nil {
				t.Fatal(err)
			}
			sameLines(t, taskLines(f.Tasks()), c.want)
		})
	}
	const array = `[{"title": "A", "dependencies": []}, {"title": "B", "dependencies": ["1"]}]`
	if f, err := Parse("phase0.json", "", []byte(array)); err == nil {
		t.Errorf("a bare array: got %+v", f)
	}
}
