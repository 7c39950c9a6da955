/// <reference lib="dom" />
// The page of a scored file in a real browser: nothing leaves, nothing hostile runs, keys reach everything, both themes can be read.
import { mkdir, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { HAS_BROWSER, openBrowser, openPage, SKIPPED } from '../../support/browser.js';
import { CHAIN, PROMPT, ROOT } from '../../support/program.js';
import { fixtureRows, openScene } from '../../support/scene.js';

/** Runs where markup is not inert, and says so. */
const HOSTILE = '<img src=x onerror=alert(1)><script>alert(2)</script></script></pre>\u202e<b>bold';
/** Where what it looked like is kept, in both themes. */
const SHOTS = process.env.RREDCOT_SCREENSHOTS || join(ROOT, 'artefacts/screenshots');

const { at, done, write } = await openScene();

describe.skipIf(!HAS_BROWSER)(`the page of a scored file${SKIPPED}`, () => {
  const path = at('report.html');
  let browser: Browser;

  beforeAll(async () => {
    const chain = CHAIN.replace('<think>\n', `<think>\n${HOSTILE}\n`);
    const hostile = { id: `hostile ${HOSTILE}`, group: HOSTILE, prompt: PROMPT, completion: chain };
    await write('traces.jsonl', [...(await fixtureRows(0, 64)), { ...hostile, answer: '7', reward: 1 }]);
    await done('score traces.jsonl -o scored.parquet --sigma share,rudder');
    await done('report scored.parquet -o report.html --traces 65');
    browser = await openBrowser();
  });
  afterAll(() => browser?.close());

  const shot = async (page: Page, name: string) => {
    await mkdir(SHOTS, { recursive: true });
    await page.screenshot({ path: join(SHOTS, `${name}.png`), fullPage: true });
  };
  const violations = async (page: Page): Promise<string[]> => {
    await page.evaluate(
      await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8'),
    );
    const found = (await page.evaluate('axe.run()')) as {
      violations: { id: string; nodes: { html: string }[] }[];
    };
    return found.violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`);
  };

  it.each(['light', 'dark'] as const)('opens in %s, sends nothing, contents axe', async (colorScheme) => {
    const { page, heard, took } = await openPage(browser, path, { colorScheme });
    expect(took).toBeLessThan(5000);
    expect(await page.locator('h2').first().textContent()).toBe('Overview');
    await shot(page, `run-${colorScheme}`);
    expect(await violations(page)).toEqual([]);
    await page.goto(`${page.url().split('#')[0]}#trace-2`);
    await page.waitForSelector('#tokens .u-wrap');
    await shot(page, `trace-${colorScheme}`);
    expect(await page.locator('#trace').textContent()).toContain('Its own answer');
    expect(await violations(page)).toEqual([]);
    expect(heard).toEqual([]);
    await page.close();
  });

  it('breaks no number at the width of a telephone, and scrolls tables alone', async () => {
    const { page } = await openPage(browser, path);
    await page.setViewportSize({ width: 400, height: 900 });
    for (const hash of ['#run', '#trace-2']) {
      await page.goto(`${page.url().split('#')[0]}${hash}`);
      await page.evaluate(() => {
        for (const each of document.querySelectorAll('details')) each.open = true;
      });
      const { broken, numbers } = await page.evaluate(() => {
        const cells = [...document.querySelectorAll('td')].filter((cell) =>
          /^[−+]?[\d.,]+$/.test(cell.textContent),
        );
        const lines = (cell: Node) => {
          const range = document.createRange();
          range.selectNodeContents(cell);
          return new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size;
        };
        return { broken: cells.filter((cell) => lines(cell) > 1).length, numbers: cells.length };
      });
      expect(numbers).toBeGreaterThan(20);
      expect(broken).toBe(0);
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(400);
    }
    await page.close();
  });

  it('shows a hostile trace as text', async () => {
    const { page, heard } = await openPage(browser, path, { hash: '#traces' });
    await page.fill('#search', 'onerror');
    await page.waitForFunction(() => document.querySelectorAll('#list li').length === 1);
    await page.click('#list a');
    await page.waitForSelector('#tokens .u-wrap');
    expect(await page.locator('#trace .text').first().textContent()).toContain(
      '<img src=x onerror=alert(1)>',
    );
    expect(await page.locator('#trace .text').first().textContent()).toContain('\\u{202e}');
    expect(await page.locator('main img, main script').count()).toBe(0);
    expect(heard).toEqual([]);
    // the policy holds for whoever finds a way in all the same
    await page.evaluate(() => {
      const script = document.createElement('script');
      script.textContent = 'window.ran = true';
      document.body.append(script);
    });
    expect(await page.evaluate(() => (window as unknown as { ran?: boolean }).ran)).toBe(undefined);
    expect(heard.join()).toMatch(/Content Security Policy/);
    await page.close();
  });

  it('is used with keys alone: pages, search, filter, a trace, its segments, the theme', async () => {
    const { page, heard } = await openPage(browser, path);
    const focused = () => page.evaluate(() => document.activeElement?.textContent?.trim() ?? '');
    const tabTo = async (text: string) => {
      for (let n = 0; n < 200 && !(await focused()).startsWith(text); n++) await page.keyboard.press('Tab');
      expect(await focused()).toMatch(new RegExp(`^${text}`));
    };
    await tabTo('Traces');
    await page.keyboard.press('Enter');
    await page.waitForSelector('#traces:not([hidden])');
    await tabTo('Theme');
    for (const name of ['light', 'dark', 'as the system']) {
      await page.keyboard.press('Enter');
      expect(await focused()).toBe(`Theme: ${name}`);
    }
    await page.keyboard.press('Tab');
    const label = () => page.evaluate(() => document.activeElement?.id);
    expect(await label()).toBe('search');
    await page.keyboard.type('top-0001');
    await page.waitForFunction(() => document.querySelectorAll('#list li').length === 8);
    await page.keyboard.press('Tab');
    expect(await label()).toBe('kind');
    await page.keyboard.press('Tab');
    expect(await label()).toBe('order');
    await page.keyboard.press('Tab');
    expect(await focused()).toMatch(/^top-0001\/0/);
    await page.keyboard.press('Enter');
    await page.waitForSelector('#tokens .u-wrap');
    expect(await focused()).toBe('top-0001/0');
    while (await page.evaluate(() => document.activeElement?.getAttribute('role') !== 'listbox'))
      await page.keyboard.press('Tab');
    expect(await page.locator('#segment').textContent()).toMatch(/^segment 1 of/);
    await page.keyboard.press('ArrowRight');
    expect(await page.locator('#segment').textContent()).toMatch(/^segment 2 of .* v̂ .* σ /);
    await page.keyboard.press('End');
    expect(await page.locator('#segment').textContent()).toMatch(/the answer/);
    expect(heard).toEqual([]);
    await page.close();
  });

  it('prints a trace without its list and controls', async () => {
    const { page } = await openPage(browser, path, { hash: '#trace-1' });
    await page.waitForSelector('#tokens .u-wrap');
    await page.emulateMedia({ media: 'print' });
    for (const place of ['.side', '#theme', 'nav']) expect(await page.locator(place).isVisible()).toBe(false);
    expect(await page.locator('#trace .text').first().isVisible()).toBe(true);
    await page.close();
  });
});
