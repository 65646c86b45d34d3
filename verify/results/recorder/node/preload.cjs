// has mocha, jest and vitest note the single results of tests
'use strict';
const fs = require('fs');
const path = require('path');
const Module = require('module');

const write = fs.appendFileSync, text = JSON.stringify;
const out = path.join(__dirname, '..', 'results', `js.${process.pid}.ndjson`);
const note = (name, state) => write(out, text([name, state]) + '\n');

// the changed files of tests, where they are to run alone
let only = [];
try { only = fs.readFileSync(path.join(__dirname, '..', 'only'), 'utf8').split('\n').filter(Boolean); } catch {}
const narrowed = () => fs.writeFileSync(path.join(__dirname, '..', 'results', 'narrowed'), '');

// mocha: its runner tells of each test
const load = Module._load;
const patched = new WeakSet();
Module._load = function (request, parent) {
  const got = load.apply(this, arguments);
  if (typeof got === 'function' && !patched.has(got) && /(?:^|[\\/])runner(?:\.js)?$/.test(request) && got.prototype) {
    let file = '';
    try { file = Module._resolveFilename(request, parent); } catch {}
    if (/[\\/]mocha[\\/]lib[\\/]runner\.js$/.test(file)) {
      patched.add(got);
      watch(got);
    }
  }
  return got;
};

function watch(Runner) {
  const run = Runner.prototype.run;
  Runner.prototype.run = function () {
    const kept = (list) => list.filter((x) => only.some((f) => x.file && x.file.endsWith(path.sep + f)));
    const [suites, tests] = [kept(this.suite.suites), kept(this.suite.tests)];
    if (suites.length + tests.length > 0) {
      Object.assign(this.suite, { suites, tests });
      this.total = this.suite.total();
      narrowed();
    }
    const name = (t) => [t.file ? path.relative(process.cwd(), t.file) : '', ...t.titlePath()].filter(Boolean).join(' > ');
    this.on('pass', (t) => note(name(t), 'pass'));
    this.on('fail', (t) => note(name(t), t.type === 'hook' ? 'load' : 'fail'));
    this.on('pending', (t) => note(name(t), 'skip'));
    return run.apply(this, arguments);
  };
}

// jest and vitest: one more reader of the results, by a flag
let main = '';
try { main = fs.realpathSync(process.argv[1] || ''); } catch {}
const has = (flag) => process.argv.some((a) => a === flag || a.startsWith(flag + '='));
const add = (...flags) => {
  const at = process.argv.indexOf('--');
  process.argv.splice(at < 0 ? process.argv.length : at, 0, ...flags);
};
if (/[\\/]jest(?:-cli)?[\\/]bin[\\/]jest\.js$/.test(main) && !has('--testResultsProcessor') && !has('--listTests')) {
  add('--testResultsProcessor=' + path.join(__dirname, 'jest.cjs'));
  alone('--runTestsByPath');
} else if (/[\\/]vitest[\\/]vitest\.mjs$/.test(main)) {
  const reporters = has('--reporter') ? [] : reports();
  if (reporters) {
    add(...[...reporters, path.join(__dirname, 'vitest.mjs')].map((r) => '--reporter=' + r));
    alone();
  }
}

// alone names the changed files of tests, where none are named: words that may belong to a flag count as such
function alone(...flags) {
  if (process.argv.slice(2).some((a) => !a.startsWith('-') && a !== 'run')) return;
  const files = only.map((f) => {
    const parts = f.split('/');
    while (parts.length > 0 && !fs.existsSync(parts.join('/'))) parts.shift();
    return parts.join('/');
  }).filter((f) => /\.[cm]?[jt]sx?$/.test(f));
  if (files.length === 0) return;
  add(...flags, ...files);
  narrowed();
}

if (/[\\/](?:mocha|jest|vitest)[\\/]bin[\\/]|[\\/]vitest\.mjs$/.test(main)) fs.appendFileSync(out, '');

// reports gives the reporters that a project's own settings name, since a flag takes their place; null where they are
// more than names
function reports() {
  for (const f of fs.readdirSync('.')) {
    if (!/^(?:vite|vitest)\.config\.|^vitest\.workspace\./.test(f)) continue;
    const text = fs.readFileSync(f, 'utf8').replace(/^\s*\/\/.*$/gm, '');
    if (!/\breporters\b/.test(text)) continue;
    const [, list] = /\breporters\s*:\s*\[?((?:\s*['"][\w./-]+['"]\s*,?)+)\]?\s*[,}]/.exec(text) || [];
    return list ? list.match(/[\w./-]+/g) : null;
  }
  return ['default'];
}
