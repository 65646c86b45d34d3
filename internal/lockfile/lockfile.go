// Package lockfile owns the table of the files in which package managers pin versions.
package lockfile

import "path"

// File is what is known of a lock file by its name.
type File struct {
	Update string // the command that installs what it pins; "" if the tools do that by themselves when they run
	ByHand bool   // a person writes it, and no tool
	Frozen string // the command that installs just what it pins and changes nothing else; "" where none is known
}

// files are the lock files by name.
var files = map[string]File{
	"go.sum": {}, "go.work.sum": {}, "Cargo.lock": {}, "rebar.lock": {},
	"paket.lock": {Update: "dotnet paket restore"}, "gradle.lockfile": {}, "flake.lock": {},
	"cabal.project.freeze": {},
	"stack.yaml.lock":      {}, "package-lock.json": {Update: "npm ci", Frozen: "npm ci"}, "npm-shrinkwrap.json": {Update: "npm ci", Frozen: "npm ci"},
	"yarn.lock":      {Update: "yarn install", Frozen: "yarn install --frozen-lockfile"},
	"pnpm-lock.yaml": {Update: "pnpm install", Frozen: "pnpm install --frozen-lockfile"}, "bun.lock": {Update: "bun install", Frozen: "bun install --frozen-lockfile"},
	"bun.lockb": {Update: "bun install", Frozen: "bun install --frozen-lockfile"}, "deno.lock": {Update: "deno install"},
	"uv.lock": {Update: "uv sync", Frozen: "uv sync --frozen"}, "poetry.lock": {Update: "poetry install", Frozen: "poetry install --no-interaction"}, "pdm.lock": {Update: "pdm sync", Frozen: "pdm sync"},
	"Pipfile.lock": {Update: "pipenv sync", Frozen: "pipenv sync"}, "pixi.lock": {Update: "pixi install"},
	"conda-lock.yml": {Update: "conda-lock install"}, "Gemfile.lock": {Update: "bundle install", Frozen: "bundle install"},
	"composer.lock": {Update: "composer install", Frozen: "composer install"}, "mix.lock": {Update: "mix deps.get"},
	"packages.lock.json": {Update: "dotnet restore"}, "pubspec.lock": {Update: "dart pub get"},
	"Podfile.lock": {Update: "pod install"}, "Package.resolved": {Update: "swift package resolve"},
	"Manifest.toml":    {Update: "julia --project -e 'using Pkg; Pkg.instantiate()'"},
	"renv.lock":        {Update: "Rscript -e 'renv::restore()'"},
	"requirements.txt": {Update: "pip install -r requirements.txt", ByHand: true},
	".gitmodules":      {Update: "git submodule update --init", ByHand: true},
}

// Of looks up a file by the last part of its path.
func Of(p string) (File, bool) {
	f, ok := files[path.Base(p)]
	return f, ok
}
