#!/bin/sh
# Runs the tests that need real agent programs: installs these from npm, then runs the tests against the scripted
# model of testdata/fakemodel in a network namespace that has nothing but the loopback device.
#
#   AGENTS_CACHE   folder that keeps the programs between two runs (default: a temporary one)
#   AGENTS_TESTS   pattern of the tests to run (default: Agents)
set -eu
cd "$(dirname "$0")/.."

skip() {
	echo "test-agents: skipped: $*"
	exit 0
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM HUP

alone="unshare -n"
[ "$(id -u)" = 0 ] || alone="unshare -rn"
command -v ip >/dev/null || skip "there is no program ip (iproute2)"
$alone ip link set lo up 2>"$scratch/why" || skip "no network namespace can be made here: $(tail -n 1 "$scratch/why")"

programs=${AGENTS_CACHE:-$scratch}/programs # npm takes a folder named like a package for the package
bin=$programs/node_modules/.bin
wanted="@anthropic-ai/claude-code@2.1.197 @openai/codex@0.169.0 opencode-ai@1.18.33 @google/gemini-cli@0.61.0 @qwen-code/qwen-code@0.24.4 @github/copilot@1.0.102"
newest=$programs/newest/node_modules/.bin # beside the claude that tells some things otherwise
claude=@anthropic-ai/claude-code@2.1.330
if [ "$(cat "$programs/installed" 2>/dev/null)" != "$wanted $claude" ]; then
	command -v npm >/dev/null || skip "npm is not installed"
	mkdir -p "$programs/newest"
	echo "test-agents: npm installs $wanted $claude"
	# shellcheck disable=SC2086 # one argument for each package
	npm install --no-audit --no-fund --prefix "$programs" $wanted >"$scratch/npm" 2>&1 ||
		skip "npm cannot fetch the programs: $(grep -m 1 -i error "$scratch/npm" || tail -n 1 "$scratch/npm")"
	npm install --no-audit --no-fund --prefix "$programs/newest" "$claude" >"$scratch/npm" 2>&1 ||
		skip "npm cannot fetch the newest claude: $(grep -m 1 -i error "$scratch/npm" || tail -n 1 "$scratch/npm")"
	for program in "$bin/claude" "$newest/claude" "$bin/codex" "$bin/opencode" "$bin/gemini" "$bin/qwen" "$bin/copilot"; do
		HOME=$scratch "$program" --version >/dev/null 2>"$scratch/why" || skip "$program does not run here: $(tail -n 1 "$scratch/why")"
	done
	echo "$wanted $claude" >"$programs/installed"
fi

go test ./testdata/fakemodel
go build -o "$scratch/fakemodel" ./testdata/fakemodel
go test -c -tags agents -o "$scratch/descartes.test" ./cmd/descartes
cd cmd/descartes
AGENTS_BIN=$bin AGENTS_NEWEST=$newest AGENTS_MODEL=$scratch/fakemodel $alone sh -c 'ip link set lo up && exec "$@"' sh \
	"$scratch/descartes.test" -test.run "${AGENTS_TESTS:-Agents}" -test.timeout 60m -test.v
