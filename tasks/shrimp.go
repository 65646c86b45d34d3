package tasks

// shrimp is the tasks.json of the Shrimp task manager: a list whose tasks have a name, and dependencies {"taskId"}.
type shrimp struct{ taskMaster }

func (shrimp) Match(t *text) bool {
	if !t.json() || !t.flat() {
		return false
	}
	for _, v := range t.get("tasks").Array() {
		one := members(v)
		return one.get("name").Exists() && !one.get("title").Exists()
	}
	return false
}

// Tags is Task Master's tag for lists without one: they have the same name.
func (shrimp) Tags(t *text) []string { return []string{master} }

// shrimpWords are the words of Shrimp for statuses.
var shrimpWords = map[Status]string{Pending: "pending", InProgress: "in_progress", Blocked: "blocked",
	Failed: "blocked", Done: "completed"}

func (shrimp) SetStatus(t *Task, s Status) (Status, string) { return worded(shrimpWords, t, s) }
