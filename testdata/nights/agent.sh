#!/bin/sh
# The agent of a night. tools/tasks/<id> says what it does, in words that are the functions below.
id=$DESCARTES_TASK_ID n=$DESCARTES_ATTEMPT
[ -z "$LEDGER" ] || echo "$(date +%s%N) $id" >>"$LEDGER"

shared() { grep -lx "FILE $1" -r shared 2>/dev/null | head -1; } # whoever renamed it, its first line says which it is

line() { # FILE SECTION|end: a line of this task in a file that others change, too
	f=$(shared $1)
	[ -n "$f" ] || { mkdir -p shared && f=shared/$1.txt && { echo "FILE $1" && seq -f 'section %.0f' 1 20; } >$f; }
	grep -qx "line $id" -r shared && return
	if [ $2 = end ]; then echo "line $id" >>$f; else sed -i "/^section $2\$/a line $id" $f; fi
}
rename() { f=$(shared $1); [ -z "$f" ] || mv "$f" shared/$1-$id.txt; }
delete() { rm -f misc/$1.txt; }
edit() { mkdir -p misc && echo "edit of $id" >>misc/$1.txt; }
mode() { [ ! -e misc/$1.txt ] || chmod +x misc/$1.txt; }
link() { mkdir -p misc && rm -rf misc/$1.txt && ln -s ../fn.txt misc/$1.txt; }
crlf() { printf 'edit of %s\r\n' $id >>misc/crlf.txt; }
binary() { mkdir -p misc && printf '\000\001%s' $id >misc/$1.bin; }
case_() { [ ! -e case/$1.txt ] || mv case/$1.txt case/$1.TXT; }
ignore() { echo "/made-$id/" >>.gitignore && mkdir -p made-$id made-$1 && echo $id >made-$id/own && echo $id >made-$1/of-$id; }
folder() { if [ -d dir$1 ]; then rm -rf dir$1 && echo file >dir$1; else rm -f dir$1 && mkdir dir$1 && echo dir >dir$1/a; fi; }
define() { echo "fn$id" >fn.txt && for c in calls/*; do echo "fn$id" >$c; done; }
call() { mkdir -p calls && cat fn.txt >calls/$id; }
work() { mkdir -p work && printf 'task %s\n%s\n' $id $1 >work/$id; } # only this task writes it

# what an agent should not do
commit() { git add -A && git commit -qm "of agent $id"; }
amend() { commit && git commit -q --amend -m "of agent $id, amended"; }
reset() { echo x >>misc/1.txt && git reset -q --hard; }
stash() { echo x >>misc/1.txt && git stash -q -u; }
clean() { git clean -fdxq; }
switch() { git checkout -q -b "of-agent-$id-$n"; }
force() { echo x >agent.ign && git add -f -A; }
litter() { echo x >litter-$id.ign && mkdir -p ignored/of-agent && echo x >ignored/of-agent/$id; }
gc() { git gc -q --prune=now; }
rmgit() { rm -rf .git; }
stay() { setsid sleep 300 & (trap '' TERM && sleep 301) & }

fail() { [ "$n" -gt "$1" ] && rm -f FAIL || echo x >FAIL; }
die() { [ "$n" -gt "$1" ] || exit 3; }

. tools/tasks/$id >/dev/null 2>&1
echo TASK_COMPLETE
