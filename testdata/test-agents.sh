#!/bin/sh
# Runs the tests that need real agent programs: installs these from npm, then runs the tests against the scripted
# model of testdata/fakemodel in a network namespace that has nothing but the loopback device. A program that cannot be
# had is named, and its tests are skipped.
#
#   AGENTS_CACHE   folder that keeps the programs between two runs (default: a temporary one)
#   AGENTS_TESTS   pattern of the tests to run (default: Agents)
set -eu
cd "$(dirname "$0")/.."

# The newest of each, and the name of its program.
wanted="claude @anthropic-ai/claude-code@2.1.332
codex @openai/codex@0.171.0
opencode opencode-ai@1.18.33
gemini @google/gemini-cli@0.61.0
qwen @qwen-code/qwen-code@0.24.4
copilot @github/copilot@1.0.102
claude-agent-acp @agentclientprotocol/claude-agent-acp@0.101.0
codex-acp @zed-industries/codex-acp@0.16.0"

fail() {
	echo "test-agents: $*" >&2
	exit 1
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM HUP

alone="unshare -n"
[ "$(id -u)" = 0 ] || alone="unshare -rn"
command -v npm >/dev/null || fail "npm is not installed"
command -v ip >/dev/null || fail "there is no program ip (iproute2)"
$alone ip link set lo up 2>"$scratch/why" || fail "no network namespace can be made here: $(tail -n 1 "$scratch/why")"

programs=${AGENTS_CACHE:-$scratch}/clients # a folder for each, so that one that is missing takes no other along
had=0
while read -r name package; do
	folder=$programs/$name
	if [ "$(cat "$folder/installed" 2>/dev/null)" != "$package" ]; then
		mkdir -p "$folder"
		echo "test-agents: npm installs $package"
		if ! npm install --no-audit --no-fund --prefix "$folder" "$package" >"$scratch/npm" 2>&1; then
			echo "test-agents: $name is left out: $(grep -m 1 -i error "$scratch/npm" || tail -n 1 "$scratch/npm")"
			continue
		fi
		if [ ! -x "$folder/node_modules/.bin/$name" ]; then
			echo "test-agents: $name is left out: $package has no such program"
			continue
		fi
		echo "$package" >"$folder/installed"
	fi
	had=$((had + 1))
done <<EOF
$wanted
EOF
[ "$had" -gt 0 ] || fail "none of the programs could be had"

go test ./testdata/fakemodel
go build -o "$scratch/fakemodel" ./testdata/fakemodel
go test -c -tags agents -o "$scratch/descartes.test" ./cmd/descartes
code=0
(
	cd cmd/descartes
	{
		AGENTS_PROGRAMS=$programs AGENTS_MODEL=$scratch/fakemodel $alone sh -c 'ip link set lo up && exec "$@"' sh \
			"$scratch/descartes.test" -test.run "${AGENTS_TESTS:-Agents}" -test.timeout 90m -test.v 2>&1 || code=$?
		echo "$code" >"$scratch/code"
	} | tee "$scratch/out"
)
code=$(cat "$scratch/code")

# A line for each client: the tests below a test's name begin with its name.
echo
while read -r name package; do
	version=${package##*@}
	[ -f "$programs/$name/installed" ] || version=missing
	sed -n 's/^ *--- \([A-Z]*\): TestAgents[A-Za-z]*\/\([^ /#]*\).*/\1 \2/p' "$scratch/out" |
		awk -v name="$name" -v version="$version" '
			$2 == name || $2 == name "-acp" && (name == "gemini" || name == "opencode" || name == "qwen" || name == "copilot") {
				n[$1]++ }
			END { printf "test-agents: %-16s %-8s passed %d, failed %d, skipped %d\n", name, version, n["PASS"], n["FAIL"], n["SKIP"] }'
done <<EOF
$wanted
EOF
exit "$code"
