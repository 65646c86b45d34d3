# Needs Go, git and a shell. `make help` lists the targets.

PREFIX   ?= $(HOME)/.local
FUZZTIME ?= 20s
# Go stamps the commit into the program, but fails where git refuses to look, as in another user's checkout.
STAMP := -buildvcs=$(shell git rev-parse --verify -q HEAD >/dev/null 2>&1 && echo auto || echo false)
# The race detector needs a C compiler; the packages named here start goroutines or processes.
RACE  := $(shell test "$$(go env CGO_ENABLED)" = 1 && command -v $$(go env CC) >/dev/null 2>&1 && echo -race)
RACED := ./internal/... ./agent ./verify ./gitops ./loop/... ./view/... ./launch
# Systems besides the one that this is, which everything has to build for. TestArchitectures has nothing here depend on
# the processor, so that darwin/arm64 stands for darwin/amd64.
SYSTEMS := darwin/arm64 windows/amd64
# As the program is built, which starts a quarter sooner.
test check: export CGO_ENABLED := 0
# What make snapshot runs where goreleaser is not installed.
GORELEASER := v2.16.0

.PHONY: build demo test check bench descartes-fleet test-crash test-sim test-nights test-cheats test-agents test-browser test-fleet docs man notices recording screenshots vendor-htmx fuzz snapshot install clean help

build: ## build ./descartes
	CGO_ENABLED=0 go build $(STAMP) -trimpath -ldflags "-s -w" -o descartes ./cmd/descartes

descartes-fleet: ## build ./descartes-fleet: descartes with Temporal's SDK in it, for fleets
	CGO_ENABLED=0 go build $(STAMP) -trimpath -ldflags "-s -w" -tags fleet -o descartes-fleet ./cmd/descartes

demo: ## watch a sample tag run from end to end, in a temporary repository
	@echo "compiling, about a minute the first time"
	@$(MAKE) --no-print-directory build
	@./descartes demo

# Many tests wait for processes: more of them at a time than there are processors take a quarter less time. Each runs
# once, and is vetted by make check.
TESTS := go test -vet=off -parallel 4 -timeout 60m
test: ## build everything and run every test, with the race detector where it matters
	go build $(STAMP) ./...
	@test -n "$(RACE)" || echo "no C compiler: the tests run without the race detector"
	$(if $(RACE),CGO_ENABLED=1) $(TESTS) $(RACE) $(RACED)
	raced="$$(go list $(RACED))" && $(TESTS) $$(go list ./... | grep -vxF "$$raced")

check: ## formatting, and vet for every system
	@unformatted="$$(gofmt -l .)"; test -z "$$unformatted" || { echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; }
	go vet ./... ./testdata/bench ./testdata/fakemodel ./testdata/nights
	go vet -tags crashpoints ./...
	go vet -tags "agents fleet" ./cmd/descartes ./fleet/...
	for system in $(SYSTEMS); do echo "go vet for $$system"; GOOS=$${system%/*} GOARCH=$${system#*/} go vet ./... || exit 1; done

bench: build ## measure against the goals; prints a table, fails never (three minutes)
	-go run ./testdata/bench -binary ./descartes
	-go test -run '^$$' -bench . -benchtime 3x ./gitops
	-go test -run '^$$' -bench . -benchtime 100ms ./scheduler ./specbuild ./tasks ./agent ./internal/proc ./internal/sandbox

test-crash: ## kill the program between any two writes, then resume (ten minutes; DESCARTES_CRASH_EVERY=1: at each place; DESCARTES_CRASH_SHARD=1/4: a quarter)
	go test -count=1 -timeout 60m -tags crashpoints -run 'Crash|Kill|WriteFails' ./...

test-sim: ## random nights of the machines that decide, without a process (NIGHTS=n; SEED=s the first; FAULTS=pattern plants faults, . all of them: minutes)
	go test -count=1 -timeout 0 -v -run '$(if $(FAULTS),TestFaults$$,TestNights$$)' ./scheduler/sim ./scheduler/prompt -args $(if $(FAULTS),-faults '$(FAULTS)',-nights $(or $(NIGHTS),100000) -seed $(or $(SEED),0))

test-nights: build ## random runs with kills and a user at work, judged by git and the files alone (Linux; RUNS=n, three minutes for 10; SEED=s repeats one)
	go run ./testdata/nights -binary ./descartes -runs $(or $(RUNS),$(if $(SEED),1,10)) -seed $(or $(SEED),0)

test-cheats: build ## gate over commits that cheat and honest ones (testdata/cheats/*.txtar; CHEATS=word; RECORDER_NPM=dir with npm-vitest, npm-mocha, npm-jest; five minutes)
	go run ./testdata/cheats -binary ./descartes -only "$(CHEATS)"

test-agents: ## run claude, codex, opencode, gemini, qwen, copilot, also by ACP, against a scripted model (AGENTS_CACHE=dir keeps them; AGENTS_TESTS=pattern; 20 minutes)
	@sh testdata/test-agents.sh

test-browser: ## the page of descartes serve in a headless Chromium
	go vet -tags browser ./view/web
	go test -count=1 -tags browser -run 'Browser|Access|Many' -v ./view/web

# Temporal's server as a team has it, where PostgreSQL is installed; POSTGRES= tests on the development server.
POSTGRES = $(if $(wildcard /usr/lib/postgresql/*/bin/postgres),$(CURDIR)/build/temporal)

test-fleet: ## a fleet on this machine with a real server on PostgreSQL, and kills (20 minutes; RUNS=n nights; POSTGRES= without)
	@command -v temporal >/dev/null || { echo "installing the temporal server program, which takes some minutes"; go install github.com/temporalio/cli/cmd/temporal@v1.5.1; } || \
	{ echo "it cannot be installed here: nothing was tested"; exit 1; }
	go vet -tags fleet ./fleet/... ./cmd/descartes
	go test -count=1 -tags fleet ./cmd/descartes -run '^TestDeploy'
	$(if $(POSTGRES),GOBIN=$(POSTGRES) go install -ldflags "-s -w" go.temporal.io/server/cmd/server@v1.29.1 go.temporal.io/server/cmd/tools/sql@v1.29.1)
	PATH="$$PATH:$$(go env GOPATH)/bin" go test -count=1 -timeout 120m -parallel 3 -tags fleet ./fleet/temporal -v -args -runs $(or $(RUNS),3) -postgres "$(POSTGRES)"

docs: ## renew what docs/ has from the code: commands, settings, exit codes, rules of the guard, schemas
	go test -count=1 ./cmd/descartes ./config ./view ./verify/judge -run '^TestDocs$$' -update

man: ## write the manual pages to build/man
	rm -rf build/man
	SOURCE_DATE_EPOCH="$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || date +%s)}" go test -count=1 ./cmd/descartes -run '^TestMan$$' -man $(CURDIR)/build/man

# Of the modules that either program links on any system, of Go itself, and of the page's scripts (0BSD, in assets/VENDORED.md).
notices: ## write the licences of what is linked to build/NOTICES
	@mkdir -p build
	@for system in linux $(SYSTEMS); do GOOS=$${system%/*} go list -deps -tags fleet -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/descartes || exit 1; done | \
	sort -u | { cat; echo "Go $$(go env GOVERSION) $$(go env GOROOT)"; } | while read -r module version dir; do \
		printf '%s %s\n\n' "$$module" "$$version"; \
		files="$$(find "$$dir/" -maxdepth 1 -type f \( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'notice*' \) | sort)"; \
		if test -n "$$files"; then cat $$files; else echo "No licence in the module: see https://$$module"; fi; \
		printf '\n%s\n\n' ------------------------------------------------------------------------; done >build/NOTICES

recording: ## record the demo at a terminal for README: docs/images/demo.svg (Linux)
	go test -count=1 ./cmd/descartes -run '^TestDemoPicture$$' -recording $(CURDIR)/docs/images/demo.svg

screenshots: build ## the README's pictures, of the demo
	mkdir -p docs/images
	dir="$$(mktemp -d)" && { ./descartes demo --dir "$$dir/demo" >"$$dir/out" || cat "$$dir/out"; } && cd "$$dir/demo/tally" && \
	{ $(CURDIR)/descartes serve >"$$dir/address" & page=$$!; until test -s "$$dir/address" || ! kill -0 $$page; do sleep 0.1; done; } && cd $(CURDIR) && \
	SCREENSHOTS_OF="$$(cat "$$dir/address")" SCREENSHOTS_IN=$(CURDIR)/docs/images go test -count=1 -tags browser -run Screenshots ./view/web; \
	kill $$page; rm -rf "$$dir"

vendor-htmx: ## fetch the scripts of the page again, in the versions that assets/VENDORED.md names
	cd view/web/assets && for f in $$(sed -n 's/^| \([a-z.-]*\.js\) | \([a-z.-]*\) | \([0-9.]*\) |.*/\1=\2@\3/p' VENDORED.md); do \
		dir="$$(mktemp -d)" && npm pack --silent --pack-destination "$$dir" "$${f#*=}" && tar xzf "$$dir"/*.tgz -C "$$dir" && \
		cp "$$dir/package/dist/htmx.min.js" "$${f%%=*}" && rm -r "$$dir"; done

fuzz: ## each fuzz target for FUZZTIME
	@grep -rl --include='*_test.go' '^func Fuzz' . | while read -r file; do \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$$file"); do \
			echo "$$(dirname "$$file") $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")" || exit 1; \
		done; \
	done

snapshot: ## build a release into dist/ without publishing it; says what it leaves out
	@skip=publish; \
	docker buildx version >/dev/null 2>&1 && docker info >/dev/null 2>&1 || { skip="$$skip,docker"; echo "no docker with buildx: the container image is left out"; }; \
	command -v syft >/dev/null || { skip="$$skip,sbom"; echo "no syft: the lists of components (SBOM) are left out"; }; \
	goreleaser="$$(command -v goreleaser || echo go run github.com/goreleaser/goreleaser/v2@$(GORELEASER))"; \
	$$goreleaser check && $$goreleaser release --snapshot --clean --skip="$$skip"

install: build ## copy descartes to PREFIX/bin (PREFIX=~/.local), and the manual pages if make man has written them
	mkdir -p "$(DESTDIR)$(PREFIX)/bin"
	cp descartes "$(DESTDIR)$(PREFIX)/bin/descartes.new"
	mv "$(DESTDIR)$(PREFIX)/bin/descartes.new" "$(DESTDIR)$(PREFIX)/bin/descartes"
	@! test -d build/man || { mkdir -p "$(DESTDIR)$(PREFIX)/share/man/man1" && cp build/man/*.1 "$(DESTDIR)$(PREFIX)/share/man/man1"; }
	@test "$$(command -v descartes)" = "$(PREFIX)/bin/descartes" || echo 'To type just descartes: export PATH="$(PREFIX)/bin:$$PATH"'

clean: ## remove what the build made
	rm -rf descartes build

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r target what; do printf '%-18s %s\n' "$$target" "$$what"; done
