// The tokens after which a policy's completions end, as its checkpoint names them.
import { join } from 'node:path';
import { z } from 'zod';
import { usageError } from '../../errors.js';
import type { PolicyTokenizer } from './tokenizer.js';
import { untrustedText } from './untrusted-files.js';

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
  const end = await endOfText(checkpoint, tokenizer, vocab);
  if (end !== undefined) stops.add(end);
  return [...stops].sort((a, b) => a - b);
}

/** The tokenizer's `eos_token`, which ends a text; undefined where it is no special token. */
export async function endOfText(
  checkpoint: string,
  tokenizer: PolicyTokenizer,
  vocab: number,
): Promise<number | undefined> {
  const config = TokenizerConfig.parse(parsed(await untrustedText(checkpoint, 'tokenizer_config.json')));
  const [only, ...more] = config.eos_token ? await tokenizer.encode(config.eos_token) : [];
  const isOne = only !== undefined && more.length === 0 && only < vocab && tokenizer.isSpecial(only);
  return isOne ? only : undefined;
}

function parsed(text: string | undefined): unknown {
  try {
    return text === undefined ? {} : JSON.parse(text);
  } catch {
    return {}; // whoever needs the file says what is wrong with it
  }
}
