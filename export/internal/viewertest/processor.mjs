// Runs queries of SQL on traces with Perfetto's trace processor.
//
//	node processor.mjs FOLDER
//
// FOLDER holds the trace processor as WebAssembly: see scripts/viewers.sh. Each line of the input is a request {"trace": PATH, "queries": [SQL, …]} and
// is answered by a line {"rows": [[[column, …], …], …]} or {"error": TEXT}.
import {readFileSync} from 'node:fs';
import {resolve} from 'node:path';
import {createInterface} from 'node:readline';

process.chdir(process.argv[2]);
const {EngineBase} = await import(resolve('engine.mjs'));

// The bundle is made for a worker of a browser: it expects no process, one message with a port, and to fetch its code.
console.log = console.warn = () => {}; // the output is for answers
const self = {location: {href: ''}, onmessage: null};
class File {
  open(method, path) { this.path = path; }
  send() { this.response = readFileSync(this.path); }
}
const code = readFileSync('engine_bundle.node.js', 'utf8');
new Function('self', 'process', 'XMLHttpRequest', 'importScripts', 'WorkerGlobalScope', code)(self, undefined, File, () => {}, class {});

class Engine extends EngineBase {
  id = 'test';
  mode = 'WASM';
  waiting = [];
  port = {onmessage: null, postMessage: (data) => this.onRpcResponseBytes(data)};
  rpcSendRequestBytes(data) {
    if (this.port.ready) this.port.onmessage({data});
    else this.waiting.push(data);
  }
  start() {
    this.port.ready = true;
    for (const data of this.waiting.splice(0)) this.port.onmessage({data});
  }
}
const engine = new Engine();
self.onmessage({data: engine.port});
await new Promise((done) => setTimeout(done, 50)); // its own start is a chain of promises
engine.start();

async function answer({trace, queries}) {
  await engine.resetTraceProcessor({cropTrackEvents: false, ingestFtraceInRawTable: false, analyzeTraceProtoContent: false, ftraceDropUntilAllCpusValid: false, forceFullSort: false});
  const bytes = readFileSync(trace);
  for (let at = 0; at < bytes.length; at += 32 << 20) await engine.parse(new Uint8Array(bytes.subarray(at, at + (32 << 20))));
  await engine.notifyEof();
  const all = [];
  for (const query of queries) {
    const result = await engine.query(query);
    const columns = result.columns();
    const rows = [];
    for (const it = result.iter({}); it.valid(); it.next()) {
      rows.push(columns.map((c) => {
        const v = it.get(c);
        return v === null ? '' : String(v);
      }));
    }
    all.push(rows);
  }
  return {rows: all};
}

for await (const line of createInterface({input: process.stdin})) {
  let reply;
  try {
    reply = await answer(JSON.parse(line));
  } catch (e) {
    reply = {error: String(e)};
  }
  process.stdout.write(JSON.stringify(reply) + '\n');
}
