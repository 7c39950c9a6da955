// A real browser, where the machine has Debian's Chromium: what an HTML file of ours does in it, and whether it asks for anything.
import { existsSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { type Browser, chromium, type Page } from 'playwright-core';

const PATH = ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find(existsSync);

/** Whether there is one; tests without are skipped by name. */
export const HAS_BROWSER = PATH !== undefined;
export const SKIPPED = HAS_BROWSER ? '' : ' (skipped: no chromium)';

export function openBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: PATH as string, args: ['--no-sandbox'] });
}

/**
 * `heard`: requests for anything but the file, errors, and what the console was told. `took`: milliseconds until it had loaded.
 */
export async function openPage(
  browser: Browser,
  path: string,
  { colorScheme = 'light', hash = '' }: { colorScheme?: 'light' | 'dark'; hash?: string } = {},
): Promise<{ page: Page; heard: string[]; took: number }> {
  const page = await browser.newPage({ colorScheme, viewport: { width: 1280, height: 900 } });
  const heard: string[] = [];
  const file = pathToFileURL(path).href;
  page.on('request', (request) => {
    if (request.url().split('#')[0] !== file) heard.push(`request ${request.url()}`);
  });
  page.on('pageerror', (error) => heard.push(`error ${error.message}`));
  page.on('console', (message) => heard.push(`console ${message.text()}`));
  page.on('dialog', (dialog) => {
    heard.push(`dialog ${dialog.message()}`);
    return dialog.dismiss();
  });
  const before = performance.now();
  await page.goto(`${file}${hash}`);
  return { page, heard, took: performance.now() - before };
}
