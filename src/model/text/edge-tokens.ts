// The tokens that stand at the edges of what a policy reads and writes, as its files name them.
import { join } from 'node:path';
import { z } from 'zod';
import { usageError } from '../../errors.js';
import { jsonOf } from '../../io/arrow/json.js';
import { namedToken, type PolicyTokenizer } from './tokenizer.js';
import { untrustedText } from './untrusted-files.js';

const id = z.number().int().nonnegative();
const Ids = z.union([id.transform((one) => [one]), z.array(id)]);
const Named = z.object({ eos_token_id: Ids.nullish().catch(undefined) }).catch({});
const NamedToken = z.unknown().transform(namedToken).optional();
const Config = z
  .object({ eos_token: NamedToken, pad_token: NamedToken, unk_token: NamedToken, bos_token: NamedToken })
  .catch({});
const CONFIG = 'tokenizer_config.json';
const Added = z.array(z.object({ id: z.number(), content: z.string(), special: z.boolean() })).catch([]);
const Tokenizer = z.looseObject({ added_tokens: Added }).catch({ added_tokens: [] });

type Encoder = Pick<PolicyTokenizer, 'encode' | 'isSpecial'>;

/** The tokens after which completions end: `eos_token_id` of both configs, and the tokenizer's `eos_token`. @throws RredcotError (exit 2) for one that is none */
export async function readStops(
  checkpoint: string,
  tokenizer: Encoder,
  vocab: number,
): Promise<readonly number[]> {
  const stops = new Set<number>();
  for (const name of ['generation_config.json', 'config.json'])
    for (const stop of Named.parse(await jsonIn(checkpoint, name)).eos_token_id ?? []) {
      if (stop >= vocab)
        throw usageError(
          `${join(checkpoint, name)}: eos_token_id is ${stop}, config.json has a vocabulary of ${vocab}`,
          'both files must be of the same checkpoint',
        );
      stops.add(stop);
    }
  const end = await endOfText(checkpoint, tokenizer, vocab);
  if (end !== undefined) stops.add(end);
  return [...stops].sort((a, b) => a - b);
}

/** The tokenizer's `eos_token`, which ends a text; undefined where it is no special token. */
export async function endOfText(
  checkpoint: string,
  tokenizer: Encoder,
  vocab: number,
): Promise<number | undefined> {
  const { eos_token: eos } = Config.parse(await jsonIn(checkpoint, CONFIG));
  const [only, ...more] = eos ? await tokenizer.encode(eos) : [];
  const isOne = only !== undefined && more.length === 0 && only < vocab && tokenizer.isSpecial(only);
  return isOne ? only : undefined;
}

/** What a policy pads with, ends with, and begins every prompt with. */
export interface EdgeTokens {
  readonly pads: ReadonlySet<number>;
  readonly ends: ReadonlySet<number>;
  readonly start?: number | undefined;
  /** how a text spells those that pad and end */
  readonly texts: readonly (readonly [text: string, id: number])[];
}

/** A text as the edge tokens that it begins and ends with, and between them the rest, of no id (-1). */
export function edgePieces(text: string, { texts }: EdgeTokens): readonly (readonly [string, number])[] {
  let rest = text;
  const taken = (side: 'startsWith' | 'endsWith') => {
    const all: (typeof texts)[number][] = [];
    for (;;) {
      const one = texts.find(([token]) => rest[side](token));
      if (one === undefined) return all;
      all.push(one);
      rest = side === 'endsWith' ? rest.slice(0, -one[0].length) : rest.slice(one[0].length);
    }
  };
  const [before, behind] = [taken('startsWith'), taken('endsWith').reverse()];
  return [...before, ...(rest === '' ? [] : [[rest, -1] as const]), ...behind];
}

/** Of any policy: the pad token, others that are called so (`<|vision_pad|>`), and the unknown one, with which trainers pad as well. */
export async function edgeTokens(policy: string): Promise<EdgeTokens> {
  const { pad_token: pad, unk_token: unknown, bos_token: bos } = Config.parse(await jsonIn(policy, CONFIG));
  const { added_tokens: added, post_processor: around } = Tokenizer.parse(
    await jsonIn(policy, 'tokenizer.json'),
  );
  const isPad = (content: string) => content === unknown || /pad\W*$/i.test(content);
  const padding = added.filter(({ content, special }) => content === pad || (special && isPad(content)));
  const pads = new Set(padding.map(({ id }) => id));
  const idOf = (name: string) => added.find(({ content }) => content === name)?.id ?? -1;
  const names = { encode: (name: string) => Int32Array.of(idOf(name)), isSpecial: (id: number) => id >= 0 };
  const ends = new Set(await readStops(policy, names, Number.POSITIVE_INFINITY));
  const isAdded = bos !== undefined && JSON.stringify(around ?? null).includes(JSON.stringify(bos));
  const edges = added.filter(({ content, id }) => content && (pads.has(id) || ends.has(id)));
  const texts = edges.map(({ content, id }) => [content, id] as const);
  return { pads, ends, ...(isAdded && { start: idOf(bos) }), texts };
}

/** A file's JSON; empty where there is none: whoever needs it says what is wrong with it. */
async function jsonIn(folder: string, name: string): Promise<unknown> {
  return jsonOf((await untrustedText(folder, name)) ?? '') ?? {};
}
