/** The flags of the segmenters: what they stand for, which go together, and a word list in either form. */
import { execFileSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { resolveSegmentOptions } from '../../dist/cli/job-flags.js';
import { temporaryFolder } from '../support/temporary-folder.js';

describe('what a segmenter is told', () => {
  it('takes a threshold in place of the share', () => {
    expect(resolveSegmentOptions({ segmenter: 'entropy', entropyThreshold: '0' })).toEqual({
      segmenter: 'entropy',
      fixedLength: 64,
      entropyThreshold: 0,
    });
  });

  it.each([
    [{ segmenter: 'adaptive' }, /--adaptive-limit <nats>/],
    [{ segmenter: 'hybrid', adaptiveLimit: '4' }, /add --segmenter adaptive/],
    [{ segmenter: 'newline', keywords: 'Wait' }, /add --segmenter hybrid\|keyword\|adaptive/],
    [{ segmenter: 'cutpoint', entropyShare: '.5' }, /add --segmenter entropy/],
    [{ segmenter: 'entropy', cutpointEvery: '5' }, /leave out --cutpoint-every/],
    [{ segmenter: 'entropy', entropyShare: '.1', entropyThreshold: '2' }, /leave out one/],
    [{ segmenter: 'entropy', entropyShare: '0' }, /--entropy-share 0: expected a number above 0, at most 1/],
    [{ segmenter: 'entropy', entropyShare: 'NaN' }, /--entropy-share NaN/],
    [{ segmenter: 'entropy', entropyThreshold: '-1' }, /--entropy-threshold -1/],
    [{ segmenter: 'cutpoint', cutpointProbability: '1.1' }, /--cutpoint-probability 1\.1/],
    [{ segmenter: 'cutpoint', cutpointEvery: '0' }, /--cutpoint-every 0/],
    [{ segmenter: 'adaptive', adaptiveLimit: 'x' }, /--adaptive-limit x/],
    [{ segmenter: 'keyword', keywords: ' , ' }, /holds no word/],
    [{ segmenter: 'words' }, /hybrid\|newline\|sentence\|keyword\|fixed\|entropy\|cutpoint\|adaptive\|given/],
  ])('%j is refused', (flags, message) => {
    let told = '';
    try {
      resolveSegmentOptions(flags);
    } catch (error) {
      const { message, hint } = error as { message: string; hint: string };
      told = `${message} ${hint}`;
    }
    expect(told).toMatch(message);
  });
});

describe('--keywords', () => {
  const keywords = (text: string) => resolveSegmentOptions({ segmenter: 'keyword', keywords: text }).keywords;

  it('is a list, or a file with a word a line', async () => {
    expect(keywords('Wait, Let me,Wait')).toEqual(['Wait', 'Let me']);
    const folder = await temporaryFolder();
    const path = join(folder, 'words.txt');
    await writeFile(path, 'Wait\r\n\n 等等 \nLet me\n');
    expect(keywords(path)).toEqual(['Wait', '等等', 'Let me']);
    await writeFile(path, 'Well, then\n');
    expect(() => keywords(path)).toThrow('"Well, then" has a comma in it');
    const pipe = join(folder, 'pipe');
    execFileSync('mkfifo', [pipe]);
    for (const other of [folder, pipe]) expect(() => keywords(other)).toThrow(`${other}: is no regular file`);
  });
});
