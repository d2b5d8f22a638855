// Opens a page of `acltrace export html` in Chromium, does some actions in order, and prints a line of JSON about the page at the end.
//
//	node scripts/html-page.mjs FILE [ACTION …]
//
// The tests and scripts/html-picture.sh run it. It needs playwright-core in build/viewers and a Chromium.
import { createRequire } from 'node:module';
import { existsSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
const require = createRequire(new URL('../build/viewers/', import.meta.url));
const { chromium } = require('playwright-core');

const [file, ...actions] = process.argv.slice(2);
const program = process.env.CHROMIUM || ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync);
const browser = await chromium.launch({ executablePath: program, args: ['--no-sandbox'] });
const page = await browser.newPage({ viewport: { width: 1360, height: Number(process.env.WINDOW || 900) }, colorScheme: process.env.DARK ? 'dark' : 'light' });
page.setDefaultTimeout(Number(process.env.PATIENCE_MS || 120_000));

const said = { errors: [], requests: [], texts: [] };
page.on('console', m => m.type() === 'error' && said.errors.push(m.text()));
page.on('pageerror', e => said.errors.push(String(e)));
page.on('request', r => r.url().startsWith('file:') || said.requests.push(r.url()));
page.on('dialog', d => { said.errors.push('dialog ' + d.message()); d.dismiss(); });
async function open(file) {
	await page.goto(pathToFileURL(file).href);
	await page.waitForSelector('body[data-ready]', { state: 'attached' }).catch(e => said.errors.push(file + ': ' + e));
}
await open(file);

const perform = {
	// open=FILE: opens another page.
	open,
	// click=SELECTOR@X:Y: clicks into the first such element, at a part of its width and height in percent; without @, at its middle.
	async click(at) {
		const [selector, place] = at.split('@'), e = page.locator(selector).first();
		await e.scrollIntoViewIfNeeded();
		const box = await e.boundingBox(), [x, y] = (place || '50:50').split(':').map(Number);
		await e.click({ position: { x: box.width * x / 100, y: Math.min(box.height - 1, box.height * y / 100) } });
	},
	// press=KEY: presses a key.
	async press(key) { await page.keyboard.press(key); },
	// text=SELECTOR: adds the texts of these elements to what is printed.
	async text(selector) { said.texts.push(await page.$$eval(selector, all => all.map(e => e.innerText))); },
	// values=SELECTOR: adds the raw values of these cells.
	async values(selector) { said.texts.push(await page.$$eval(selector, all => all.map(e => e.dataset.value ?? ''))); },
	// picture=FILE: takes a picture of the whole page.
	async picture(path) { await page.mouse.move(0, 0); await page.screenshot({ path, fullPage: !process.env.WINDOW }); },
};
for (const action of actions) {
	const [, name, value] = action.match(/^([a-z]+)=?(.*)$/s);
	await perform[name](value);
}
console.log(JSON.stringify(said));
await browser.close();
