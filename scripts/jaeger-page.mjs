// Opens a page of Jaeger in Chromium, does some actions in order, and prints a line of JSON about the page at the end.
//
//	node scripts/jaeger-page.mjs URL [ACTION …]
//
// The tests and scripts/jaeger-pictures.sh run it. It needs playwright-core in build/viewers and a Chromium.
import { createRequire } from 'node:module';
import { existsSync } from 'node:fs';
const require = createRequire(new URL('../build/viewers/', import.meta.url));
const { chromium } = require('playwright-core');

const [url, ...actions] = process.argv.slice(2);
const program = process.env.CHROMIUM || ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync);
const browser = await chromium.launch({ executablePath: program, args: ['--no-sandbox'] });
const page = await browser.newPage({ viewport: { width: 1360, height: 700 } });
page.setDefaultTimeout(Number(process.env.PATIENCE_MS || 120_000));

const said = { errors: [], found: 0, critical: [], ms: 0 };
// Jaeger's critical path catches its own errors and logs them as plain messages.
page.on('console', m => {
	if (m.type() === 'error' || /error/i.test(m.text())) said.errors.push(m.text());
});
page.on('pageerror', e => said.errors.push(String(e)));

const perform = {
	// find=TEXT: opens the page anew with a text in its find box. What is typed there leads to the same address.
	async find(text) {
		await page.goto(`${url}?uiFind=${encodeURIComponent(text)}`);
		await page.waitForSelector('.TracePageSearchBar--count');
		said.found = Number(await page.textContent('.TracePageSearchBar--count'));
	},
	// collapse: folds the tree, so that the root shows the whole critical path as [left, width] in percent.
	async collapse() {
		await page.locator('.TimelineCollapser--btn').last().click();
		await page.waitForFunction(() => document.querySelectorAll('.span-row').length === 1);
		said.critical = await page.$$eval('.SpanBar--criticalPath', all => all.map(e => [parseFloat(e.style.left), parseFloat(e.style.width)]));
	},
	// open=NAME, tags: opens the first visible span of that name, and its tags.
	async open(name) {
		await page.locator('.span-row', { has: page.locator('.endpoint-name', { hasText: new RegExp(`^${name}$`) }) }).first().locator('.span-view').click();
	},
	async tags() {
		await page.locator('.AccordianKeyValues--header').first().click();
	},
	// zoom=FROM:TO: shows a part of the trace, in percent, by a drag over the overview.
	async zoom(part) {
		const box = await page.locator('.ViewingLayer').boundingBox();
		const [from, to] = part.split(':').map(p => box.x + box.width * Number(p) / 100);
		await page.mouse.move(from, box.y + box.height / 2);
		await page.mouse.down();
		await page.mouse.move(to, box.y + box.height / 2, { steps: 5 });
		await page.mouse.up();
	},
	// statistics: shows the sums by operation, the longest first.
	async statistics() {
		await page.hover('.AltViewOptions');
		await page.click('text=Trace Statistics');
		await page.locator('.NameSelector').first().click();
		await page.locator('.FilteredList--ListItem', { hasText: 'Operation Name' }).click();
		await page.locator('th', { hasText: 'Total' }).first().click();
		await page.locator('th', { hasText: 'Total' }).first().click();
	},
	async click(selector) {
		await page.click(selector);
	},
	async picture(file) {
		await page.mouse.move(5, 5);
		await page.waitForTimeout(500); // for animations
		await page.screenshot({ path: file });
	},
};

const began = Date.now();
await page.goto(url);
await page.waitForSelector('.span-row');
said.ms = Date.now() - began;
said.title = await page.textContent('.TracePageHeader--title');
said.spans = Number(await page.locator('.LabeledList--item', { hasText: 'Total Spans' }).locator('strong').textContent());
for (const a of actions) {
	const [name, ...rest] = a.split('=');
	await perform[name](rest.join('='));
}
console.log(JSON.stringify(said));
await browser.close();
