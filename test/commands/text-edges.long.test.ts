// Texts as dumps really have them: prompts that hold the answer, other models' tags, questions without their template.
import { beforeAll, describe, expect, it } from 'vitest';
import { type Json, LLAMA, writeCheckpoint } from '../support/checkpoints.js';
import type { FixtureRow } from '../support/program.js';
import { fixtureRows, openScene } from '../support/scene.js';

interface Scored {
  readonly source_file: string;
  readonly id: string;
  readonly status: string;
  readonly values: number[];
  readonly segments: readonly { kind: string; char_end: number }[];
}
type Row = Pick<FixtureRow, 'id' | 'group' | 'completion' | 'answer' | 'reward'> & { prompt: unknown };

const { at, done, json, rows: rowsOf, run, write } = await openScene();
let fixtures: FixtureRow[];
let rows: Row[];

beforeAll(async () => {
  fixtures = await fixtureRows(0, 4);
  rows = fixtures.map(({ id, group, prompt, completion, answer, reward }) => {
    return { id, group, prompt, completion, answer, reward };
  });
});

/** Scores the rows as a dump would have them. */
async function score(name: string, dump: (row: Row) => object, flags = '') {
  await write(`${name}.jsonl`, rows.map(dump));
  const made = await run(`score ${name}.jsonl -o ${name}.scored.jsonl ${flags}`);
  return {
    ...made,
    scored: made.code === 0 ? await rowsOf<Scored>(`${name}.scored.jsonl`).catch(() => []) : [],
  };
}

describe('the whole text, and the whole dialogue, are no prompt', () => {
  const asked = (row: Row, ...more: object[]) => [{ role: 'user', content: row.prompt }, ...more];
  it.each<[string, (row: Row) => object, string]>([
    ['text', (row) => ({ ...row, prompt: `${row.prompt}${row.completion}` }), 'holds the completion'],
    [
      'dialogue',
      (row) => ({ ...row, prompt: asked(row, { role: 'assistant', content: row.completion }) }),
      "ends with the assistant's turn",
    ],
  ])('%s', async (name, dump, reason) => {
    const { code, stderr } = await score(name, dump);
    expect(code).toBe(65);
    expect(stderr).toContain(`prompt: prompt ${reason}`);
    expect(stderr).toContain('prompt_holds_completion 4');
  });

  it('a completion that begins with its prompt is warned of, once', async () => {
    const { stderr, scored } = await score('prefix', (row) => ({
      ...row,
      completion: `${row.prompt}${row.completion}`,
    }));
    expect(stderr.match(/4 traces begin with their prompt/g)).toHaveLength(1);
    expect(scored.every(({ status }) => status.includes('completion:has-prompt'))).toBe(true);
  });
});

describe('tags of other models', () => {
  const tagged = (open: string, close: string) => (row: Row) => ({
    ...row,
    completion: row.completion.replace('<think>', open).replace('</think>', close),
  });
  /** How far the thought of each trace goes, from its opening tag. */
  const thoughts = ({ scored }: { scored: readonly Scored[] }, open: string) =>
    scored.map(
      ({ segments }) => (segments.findLast(({ kind }) => kind === 'thought')?.char_end ?? 0) - open.length,
    );

  it('part thought and answer as <think> does, are told, and the exit template is compared with them', async () => {
    const plain = await score('think', (row) => row);
    const other = await score('reasoning', tagged('<reasoning>', '</reasoning>'));
    expect(thoughts(other, '<reasoning>')).toEqual(thoughts(plain, '<think>'));
    expect(plain.scored.some(({ status }) => status.includes('thought:'))).toBe(false);
    expect(other.scored.every(({ status }) => status.includes('thought:reasoning'))).toBe(true);
    expect(other.stderr).toContain('in 4 of 4 traces the thought ends with </reasoning>, and the policy');
    expect(plain.stderr).not.toContain('the thought ends with');
  });

  it('may be named', async () => {
    const dump = tagged('<pad>', '</pad>');
    const unknown = await score('unknown', dump);
    const named = await score('named', dump, '--thought-tags <pad>,</pad>');
    const plain = await score('plain', (row) => row);
    expect(named.code, named.stderr).toBe(0);
    expect(thoughts(named, '<pad>')).toEqual(thoughts(plain, '<think>'));
    expect(thoughts(unknown, '<pad>')).not.toEqual(thoughts(plain, '<think>'));
    expect(named.scored.every(({ status }) => status.includes('thought:named'))).toBe(true);
    await done('verify named.scored.jsonl');
    for (const wrong of ['<pad>', '<pad>,', 'a,a', 'a,b,c'])
      expect((await score('wrong', dump, `--thought-tags ${wrong}`)).code).toBe(2);
  });

  it('opened in the prompt and again in the completion are told', async () => {
    const { stderr, scored } = await score('twice', (row) => ({ ...row, prompt: `${row.prompt}<think>` }));
    expect(scored.every(({ status }) => status.includes('thought:reopened'))).toBe(true);
    expect(stderr).toContain('4 traces open the thought with a tag that their prompt ends with already');
  });
});

/** A policy that nobody has told where its texts begin and end. */
describe('a policy with random weights', () => {
  const build = async (name: string, config: Json, more: Record<string, unknown> = {}) => {
    const checkpoint = `${name}-checkpoint`;
    const size = { vocab_size: 259, max_position_embeddings: 512 };
    writeCheckpoint(at(checkpoint), { ...LLAMA, ...size, ...config });
    const own = await json(`${checkpoint}/tokenizer_config.json`);
    await write(`${checkpoint}/tokenizer_config.json`, JSON.stringify({ ...own, ...more }));
    return (await done(`policy build ${checkpoint} -o ${name}`)).stderr;
  };
  const TEMPLATE =
    "{% for message in messages %}<u>{{ message['content'] }}<a>\n{% endfor %}{% if add_generation_prompt %}<b>{% endif %}";

  it('that has a chat template tells raw questions, and nothing that the template made', async () => {
    await build('chat', {}, { chat_template: TEMPLATE });
    const flags = '--policy chat --reward-range 0,1';
    const raw = await score('raw', (row) => row, flags);
    expect(raw.code, raw.stderr).toBe(0);
    expect(raw.scored.every(({ status }) => status.split(';').includes('prompt:raw-question'))).toBe(true);
    expect(raw.stderr.match(/4 traces have a raw question/g)).toHaveLength(1);
    const asked = (row: Row) => ({ ...row, prompt: `<u>${row.prompt}<a>\n<b>` });
    const messages = (row: Row) => ({ ...row, prompt: [{ role: 'user', content: row.prompt }] });
    for (const dump of [asked, messages]) {
      const { stderr, scored } = await score('asked', dump, `${flags} --overwrite`);
      expect(stderr).not.toContain('raw question');
      expect(scored.some(({ status }) => status.includes('raw-question'))).toBe(false);
    }
  });

  it('says where add_bos_token contradicts tokenizer.json, and what it does', async () => {
    const bos = { bos_token: '<|end|>', add_bos_token: true };
    const built = await build('bos', {}, bos);
    const said = 'has add_bos_token true, and tokenizer.json puts no <|end|> before a text';
    expect(built).toContain(said);
    const { stdout } = await done('policy info bos');
    expect(stdout).toMatch(/^prompt start {2}none$/m);
    expect(stdout).toContain(said);
    expect((await score('bos', (row) => row, '--policy bos')).stderr.split(said)).toHaveLength(2);
    const ids = new Map(fixtures.map((row) => [row.id, row.prompt_ids]));
    const given = await score('bos-ids', (row) => ({ ...row, prompt_ids: ids.get(row.id) }), '--policy bos');
    expect([given.code, given.stderr.includes('add_bos_token')]).toEqual([0, false]);
    const quiet = await build('no-bos', {}, { ...bos, add_bos_token: false });
    expect(quiet).not.toContain('add_bos_token');
  });

  it('that names no end token says so at build and in info', async () => {
    const built = await build('endless', { eos_token_id: null }, { eos_token: null });
    for (const text of [built, (await done('policy info endless')).stdout])
      expect(text).toMatch(/^ ?end tokens +none named$/m);
  });
});
