// The tokens that stand at the edges of what a policy reads and writes, as its files name them.
import { z } from 'zod';
import { readStops } from './stops.js';
import type { PolicyTokenizer } from './tokenizer.js';
import { untrustedText } from './untrusted-files.js';

/** What a policy pads with, ends with, and begins every prompt with. */
export interface EdgeTokens {
  readonly pads: ReadonlySet<number>;
  readonly ends: ReadonlySet<number>;
  readonly start?: number | undefined;
}

const Token = z.union([z.string(), z.object({ content: z.string() }).transform(({ content }) => content)]);
const Config = z.object({ pad_token: Token, unk_token: Token, bos_token: Token }).partial().catch({});
const Added = z.array(z.object({ id: z.number(), content: z.string(), special: z.boolean() })).catch([]);
const Tokenizer = z.looseObject({ added_tokens: Added }).catch({ added_tokens: [] });

/** Of any policy: the pad token, others that are called so (`<|vision_pad|>`), and the unknown one, with which trainers pad as well. */
export async function edgeTokens(policy: string): Promise<EdgeTokens> {
  const parsed = async (name: string): Promise<unknown> => {
    const text = (await untrustedText(policy, name)) ?? '';
    return new Response(text).json().catch(() => ({})); // whoever opens the policy says what is wrong
  };
  const {
    pad_token: pad,
    unk_token: unknown,
    bos_token: bos,
  } = Config.parse(await parsed('tokenizer_config.json'));
  const { added_tokens: added, post_processor: around } = Tokenizer.parse(await parsed('tokenizer.json'));
  const pads = added.filter(
    ({ content, special }) =>
      content === pad || (special && (content === unknown || /pad\W*$/i.test(content))),
  );
  const idOf = (name: string) => added.find(({ content }) => content === name)?.id ?? -1;
  const names = { encode: (name: string) => Int32Array.of(idOf(name)), isSpecial: (id: number) => id >= 0 };
  const ends = await readStops(policy, names as unknown as PolicyTokenizer, Number.POSITIVE_INFINITY);
  const isAdded = bos !== undefined && JSON.stringify(around ?? null).includes(JSON.stringify(bos));
  return {
    pads: new Set(pads.map(({ id }) => id)),
    ends: new Set(ends),
    ...(isAdded && { start: idOf(bos) }),
  };
}
