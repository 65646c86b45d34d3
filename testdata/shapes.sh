# A project of one shape and two runs in it, which share a slot. The program is V=1 in src.sh, and want says what it has to be. Each shape sets up what
# leads to src.sh, and its verify command goes that way: it has to accept an honest change and refuse a broken one.
set -e
trap 'test $? = 0 || cat $WORK/out $WORK/err' EXIT
export DESCARTES_BASELINE=require
: >$WORK/out >$WORK/err
# shape NAME [FOLDER]: a new repository, in which the script goes on
shape() {
	echo "== $1"; cd $WORK; for d in repo beside home/.local agent.calls; do test ! -e $d || chmod -R u+rwx $d; rm -rf $d; done; mkdir -p beside ${2-repo}; cd ${2-repo}; git init -q
	mkdir -p .scud/tasks; echo V=1 >src.sh; echo 1 >want; echo 'ignored*' >.gitignore; printf 'pool:\n  keep: [ignored*]\n' >descartes.yaml
	for t in 1 2 3; do echo '{"tag":"t'$t'","tasks":[{"id":'$t',"title":"T","status":"pending"}]}' >.scud/tasks/t$t.json; done
	printf '%s\n' '1: write src.sh V=2' '1: write want 2' '2: write src.sh V=broken' '3: write src.sh V=3' '3: write want 3' '*: say <promise>COMPLETE</promise>' >$WORK/agent
}
commit() { git add -A; git commit -qm start; }
# run CODE TASK VERIFY flags...
run() {
	code=$1 task=$2 verify=$3 got=0; shift 3
	descartes run t$task --command fakeagent --verify "$verify" --max-attempts 1 "$@" >$WORK/out 2>$WORK/err || got=$?
	test $got = $code || { echo "exit status $got, not $code"; return 1; }
}
# try VERIFY flags...
try() {
	run 0 1 "$@"; same
	run 3 2 "$@"; same
}
# same: the user's tree has the honest change and nothing else
same() { test "$(cat src.sh want | tr -d '\r' | tr '\n' ,)" = V=2,2,; git diff --exit-code HEAD -- . ':!.scud'; }
said() { cat $WORK/out $WORK/err | grep -e "$1" >/dev/null || { echo "not said: $1"; return 1; }; }
unsaid() { ! cat $WORK/out $WORK/err | grep -e "$1"; }
V='{ . ./src.sh && test "$V" = "$(cat want)"; }' # what a verify command ends in
# unmounted: from here on nothing can be mounted
unmounted() {
	mkdir $WORK/bin
	for p in git sh cat chmod cp date descartes fakeagent grep ln mkdir mv printf rm sed sort stat tail touch tr; do ln -s "$(command -v $p)" $WORK/bin/$p; done
	PATH=$WORK/bin
}
