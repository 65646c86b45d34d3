// notes the single results of node's own runner of tests
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const out = path.join(path.dirname(fileURLToPath(import.meta.url)), '..', 'results', `node.${process.pid}.ndjson`);
const write = fs.appendFileSync, text = JSON.stringify;

export default async function* (events) {
  const above = [];
  for await (const { type, data } of events) {
    if (type === 'test:start') {
      above[data.nesting] = data.name;
      continue;
    }
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    if (data.details?.type === 'suite') continue;
    const file = data.file ? path.relative(process.cwd(), data.file) : '';
    const name = [...above.slice(0, data.nesting), data.name];
    const load = data.file && data.nesting === 0 && path.resolve(data.name) === data.file;
    let state = type === 'test:pass' ? 'pass' : load ? 'load' : 'fail';
    if (data.skip !== undefined || data.todo !== undefined) state = 'skip';
    if (load) {
      if (state === 'load') write(out, text([file, state]) + '\n');
      continue;
    }
    write(out, text([[file, ...name].filter(Boolean).join(' > '), state]) + '\n');
  }
}
