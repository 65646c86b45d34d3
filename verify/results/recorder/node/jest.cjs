// notes the single results of jest's tests, and hands them on as they are
'use strict';
const fs = require('fs');
const path = require('path');

const out = path.join(__dirname, '..', 'results', `jest.${process.pid}.ndjson`);

module.exports = (results) => {
  let lines = '';
  const note = (name, state) => { lines += JSON.stringify([name, state]) + '\n'; };
  for (const file of results.testResults) {
    const at = path.relative(process.cwd(), file.testFilePath);
    if (file.testExecError) note(at, 'load');
    for (const t of file.testResults) {
      note([at, ...t.ancestorTitles, t.title].join(' > '), { passed: 'pass', failed: 'fail' }[t.status] || 'skip');
    }
  }
  fs.appendFileSync(out, lines);
  return results;
};
