// The tokens after which a policy's completions end, as its checkpoint names them.
import { join } from 'node:path';
import { z } from 'zod';
import { usageError } from '../../errors.js';
import type { Log } from '../../report/log.js';
import type { PolicyTokenizer } from '../text/tokenizer.js';
import { untrustedText } from '../text/untrusted-files.js';

const id = z.number().int().nonnegative();
const Ids = z.union([id.transform((one) => [one]), z.array(id)]);
const Named = z.object({ eos_token_id: Ids.nullish().catch(undefined) }).catch({});
const Token = z.union([z.string(), z.object({ content: z.string() }).transform(({ content }) => content)]);
const TokenizerConfig = z.object({ eos_token: Token.nullish().catch(undefined) }).catch({});

/**
 * `eos_token_id` of generation_config.json and of config.json, and the tokenizer's `eos_token`, each once: chat checkpoints end
 * a turn by one and a text by another. None where nothing is named: then only a limit ends a completion.
 * @throws RredcotError (exit 2) for an id that the vocabulary does not have
 */
export async function readStops(
  checkpoint: string,
  tokenizer: PolicyTokenizer,
  vocab: number,
): Promise<readonly number[]> {
  const stops = new Set<number>();
  for (const name of ['generation_config.json', 'config.json']) {
    const text = await untrustedText(checkpoint, name);
    for (const stop of Named.parse(parsed(text)).eos_token_id ?? []) {
      if (stop >= vocab)
        throw usageError(
          `${join(checkpoint, name)}: eos_token_id is ${stop}, config.json has a vocabulary of ${vocab}`,
          'both files must be of the same checkpoint',
        );
      stops.add(stop);
    }
  }
  const config = TokenizerConfig.parse(parsed(await untrustedText(checkpoint, 'tokenizer_config.json')));
  const eos = config.eos_token;
  const spelled = eos ? await tokenizer.encode(eos) : new Int32Array(0);
  const [only] = spelled;
  if (spelled.length === 1 && only !== undefined && only < vocab && tokenizer.isSpecial(only))
    stops.add(only);
  return [...stops].sort((a, b) => a - b);
}

/**
 * The tokens after which a policy's own completions end, the user's beside its own; where there is none, that is told.
 * @param stop raw value of `--stop`: an id, or a text that is one token
 * @throws RredcotError (exit 2) for what is no token
 */
export async function stopsOf(
  { decoding, architecture: { vocab } }: Writes,
  stop: string | undefined,
  tokenizer: PolicyTokenizer,
  log: Pick<Log, 'warn'>,
): Promise<readonly number[]> {
  const own = decoding?.stops ?? [];
  if (stop === undefined) {
    if (own.length === 0) log.warn('no_stop', `${NO_STOP}: --stop <text|id> names one`);
    return own;
  }
  const ids = /^\d+$/.test(stop) ? Int32Array.of(Number(stop)) : await tokenizer.encode(stop);
  const [id] = ids;
  if (ids.length === 1 && id !== undefined && id >= 0 && id < vocab) return [...new Set([...own, id])];
  throw usageError(
    `--stop ${stop}: ${ids.length === 1 ? `the policy has ${vocab} tokens` : `is ${ids.length} tokens of the policy (${ids.join(', ')})`}, expected one`,
    'rredcot policy info <folder> shows how it spells a text; give the id of one token',
  );
}

/** What of a policy folder says so. */
interface Writes {
  readonly architecture: { readonly vocab: number };
  readonly decoding?: { readonly stops: readonly number[] };
}

/** What a policy lacks of which nobody knows where its completions end. */
export const NO_STOP =
  'the policy names no end token: a limit of tokens alone ends what it writes, and mc counts nothing that is cut';

function parsed(text: string | undefined): unknown {
  try {
    return text === undefined ? {} : JSON.parse(text);
  } catch {
    return {}; // whoever needs the file says what is wrong with it
  }
}
