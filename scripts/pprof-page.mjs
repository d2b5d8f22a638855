// Opens a page in Chromium and makes a picture of it.
//
//	node scripts/pprof-page.mjs URL FILE
//
// It needs playwright-core in build/viewers and a Chromium.
import { createRequire } from 'node:module';
import { existsSync } from 'node:fs';
const require = createRequire(new URL('../build/viewers/', import.meta.url));
const { chromium } = require('playwright-core');

const [url, file] = process.argv.slice(2);
const program = process.env.CHROMIUM || ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync);
const browser = await chromium.launch({ executablePath: program, args: ['--no-sandbox'] });
const page = await browser.newPage({ viewport: { width: 1360, height: 190 } });
await page.goto(url);
await page.waitForTimeout(1000); // for the layout
await page.screenshot({ path: file });
await browser.close();
