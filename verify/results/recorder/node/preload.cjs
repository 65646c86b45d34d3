// has mocha, jest and vitest note the single results of tests
'use strict';
const fs = require('fs');
const path = require('path');
const Module = require('module');

const write = fs.appendFileSync, text = JSON.stringify;
const out = path.join(__dirname, '..', 'results', `js.${process.pid}.ndjson`);
const note = (name, state) => write(out, text([name, state]) + '\n');

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
} else if (/[\\/]vitest[\\/]vitest\.mjs$/.test(main) && !reports()) {
  if (!has('--reporter')) add('--reporter=default');
  add('--reporter=' + path.join(__dirname, 'vitest.mjs'));
}

// reports says whether a project's own settings name reporters: a flag would take their place
function reports() {
  return fs.readdirSync('.').some((f) => /^(?:vite|vitest)\.config\.|^vitest\.workspace\./.test(f) &&
    /\breporters\b/.test(fs.readFileSync(f, 'utf8')));
}
