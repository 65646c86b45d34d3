// notes the single results of vitest's tests
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const out = path.join(path.dirname(fileURLToPath(import.meta.url)), '..', 'results', `vitest.${process.pid}.ndjson`);

export default class {
  // of versions 1 to 3
  onFinished(files = []) {
    if (this.noted) return;
    this.noted = true;
    let lines = '';
    const note = (name, state) => { lines += JSON.stringify([name.join(' > '), state]) + '\n'; };
    const walk = (task, above) => {
      const name = [...above, task.name];
      for (const t of task.tasks || []) walk(t, name);
      if (task.tasks) return;
      const state = task.result?.state;
      note(name, state === 'pass' ? 'pass' : state === 'fail' ? 'fail' : 'skip');
    };
    for (const f of files) {
      const at = [path.relative(process.cwd(), f.filepath)];
      for (const t of f.tasks) walk(t, at);
      if (f.tasks.length === 0 && f.result?.state === 'fail') note(at, 'load');
    }
    fs.appendFileSync(out, lines);
  }

  // from version 3 on
  onTestRunEnd(modules = []) {
    if (this.noted) return;
    this.noted = true;
    let lines = '';
    const note = (name, state) => { lines += JSON.stringify([name.join(' > '), state]) + '\n'; };
    for (const m of modules) {
      const at = path.relative(process.cwd(), m.moduleId);
      let any = false;
      for (const t of m.children.allTests()) {
        any = true;
        const state = t.result()?.state;
        note([at, t.fullName], state === 'passed' ? 'pass' : state === 'failed' ? 'fail' : 'skip');
      }
      if (!any && m.state() === 'failed') note([at], 'load');
    }
    fs.appendFileSync(out, lines);
  }
}
