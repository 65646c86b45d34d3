# One case for loops of every kind: project KIND makes a repository with two small tasks in it and edits that nobody is to touch,
# start KIND VERIFY flags... runs the loop. An iteration of a prompt stands for a task.
project() {
	cd "$WORK"; rm -rf repo agent.calls; mkdir repo; cd repo; git init -q
	case $1 in
	tag) mkdir -p .scud/tasks; echo '{"tag":"x","tasks":[{"id":1,"title":"One","status":"pending"},{"id":2,"title":"Two","status":"pending"}]}' >.scud/tasks/x.json;;
	build) printf -- '- [ ] One\n- [ ] Two\n' >IMPLEMENTATION_PLAN.md;;
	esac
	echo mine >mine.txt; git add -A; git commit -qm start
	echo more >>mine.txt; echo mine >untracked.txt
}
start() {
	kind=$1 verify=$2; shift 2
	case $kind in
	tag) descartes loop start --scud-tag x --command fakeagent --verify "$verify" --allow-dirty "$@";;
	prompt) descartes loop start --prompt go --auto-commit --command fakeagent --verify "$verify" --max-iterations 3 "$@";;
	build) descartes build 3 --command fakeagent --verify "$verify" "$@";;
	esac
}
# kept looks whether those edits are there, and at what came of the loop.
kept() {
	test "$(cat mine.txt untracked.txt | tr '\n' ,)" = mine,more,mine,
	test "$(git symbolic-ref HEAD)" = refs/heads/main
	test "$(git status --porcelain | tr '\n' ,)" = ' M mine.txt,?? untracked.txt,'
	test "$(cat one.txt),$(cat two.txt)" = one,two
	test -z "$(git log --format=%s | sort | uniq -d)"
	git fsck --strict --no-dangling
}
# finish KIND resumes the loop, unless it is done, and looks at what came of it.
finish() {
	if ! git show HEAD:two.txt >/dev/null 2>&1; then
		descartes loop resume >../out 2>&1
	fi
	kept
}
