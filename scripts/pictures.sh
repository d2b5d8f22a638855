#!/bin/sh
# Makes the pictures of docs/viewing.md: the demo's program on the simulator, measured by its device's clock, then each viewer's own page in a
# headless Chromium. Perfetto and Jaeger have their pages on no registry, so there is no picture of them. Needs chromium, npm and
# pngquant, which makes the files small.
set -eu
cd "$(dirname "$0")/.."
for tool in chromium npm node pngquant; do
	command -v $tool >/dev/null 2>&1 || { echo "pictures.sh needs $tool" >&2; exit 1; }
done
SPEEDSCOPE=1.25.0
T=$(mktemp -d)
PIDS=
trap 'for p in $PIDS; do kill $p 2>/dev/null || true; done; rm -rf "$T"' EXIT INT TERM

ACLSIM_KERNELS="$PWD/bin/examples/decoder_kernels.so" bin/acltrace record -q --sim --device-time -o "$T/demo.aclt" -- bin/examples/tiny_decoder >/dev/null
bin/acltrace export chrome "$T/demo.aclt" -o "$T/demo.json"
bin/acltrace export pprof "$T/demo.aclt" -o "$T/demo.pb.gz"
(cd "$T" && file=$(npm pack --silent "speedscope@$SPEEDSCOPE") && tar xzf "$file")
cp "$T/demo.json" "$T/package/dist/release/"

# A page has its data from a server: a browser reads no files for it.
cat >"$T/serve.mjs" <<'JS'
import http from 'node:http'; import fs from 'node:fs'; import path from 'node:path';
const [dir, out] = process.argv.slice(2), types = {'.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.wasm': 'application/wasm'};
const s = http.createServer((q, a) => {
	const f = path.join(dir, path.normalize(new URL(q.url, 'http://x').pathname));
	fs.readFile(f, (e, b) => { a.writeHead(e ? 404 : 200, {'Content-Type': types[path.extname(f)] ?? 'application/octet-stream'}); a.end(e ? '' : b); });
}).listen(0, '127.0.0.1', () => fs.writeFileSync(out, String(s.address().port)));
JS
node "$T/serve.mjs" "$T/package/dist/release" "$T/port" &
PIDS="$PIDS $!"
PPROF=$(node -e 'const s=require("net").createServer().listen(0,"127.0.0.1",()=>{console.log(s.address().port);s.close()})')
go tool pprof -http="127.0.0.1:$PPROF" -no_browser "$T/demo.pb.gz" >/dev/null 2>&1 &
PIDS="$PIDS $!"
n=0
until [ -s "$T/port" ] && curl -fs "http://127.0.0.1:$PPROF/ui/flamegraph" >/dev/null 2>&1; do
	n=$((n + 1))
	[ $n -lt 200 ] || { echo "a server does not start" >&2; exit 1; }
	sleep 0.1
done

# shoot NAME URL WIDTH,HEIGHT takes a picture of a page, once it has drawn itself.
shoot() {
	chromium --headless=new --no-sandbox --disable-gpu --use-gl=angle --use-angle=swiftshader --enable-unsafe-swiftshader --hide-scrollbars \
		--user-data-dir="$T/profile" --window-size="$3" --virtual-time-budget=20000 --screenshot="$T/$1.png" "$2" >/dev/null 2>&1
	pngquant --force --strip --speed 1 --output "docs/pictures/$1.png" 64 "$T/$1.png"
}
mkdir -p docs/pictures
shoot speedscope "http://127.0.0.1:$(cat "$T/port")/index.html#profileURL=demo.json" 1280,300
shoot pprof "http://127.0.0.1:$PPROF/ui/flamegraph?si=device_time" 1280,300
shoot pprof-top "http://127.0.0.1:$PPROF/ui/top?si=device_time" 1280,460
ls -l docs/pictures
