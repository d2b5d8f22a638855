// Prints what DuckDB answers to statements, as JSON: for each an array of lines, with tabs between values.
//
//	node duckdb.mjs FOLDER '["select 1", …]'
import {DuckDBInstance} from '@duckdb/node-api';

process.chdir(process.argv[2]);
const duckdb = await (await DuckDBInstance.create(':memory:')).connect();
const answers = [];
for (const statement of JSON.parse(process.argv[3])) {
  const rows = await (await duckdb.runAndReadAll(statement)).getRows();
  answers.push(rows.map(row => row.map(v => v === null ? '' : String(v)).join('\t')));
}
console.log(JSON.stringify(answers));
