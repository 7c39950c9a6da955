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
  const config = TokenizerConfig.parse(parsed(await untrustedText(checkpoint, 'tokenizer_config.json')));
  const eos = config.eos_token;
  const spelled = eos ? await tokenizer.encode(eos) : new Int32Array(0);
  const [only] = spelled;
  if (spelled.length === 1 && only !== undefined && only < vocab && tokenizer.isSpecial(only))
    stops.add(only);
  return [...stops].sort((a, b) => a - b);
}

function parsed(text: string | undefined): unknown {
  try {
    return text === undefined ? {} : JSON.parse(text);
  } catch {
    return {}; // whoever needs the file says what is wrong with it
  }
}
