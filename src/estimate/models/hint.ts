// Puts the reference answer into a trace's prompt by a hint template, and values traces by what the policy that reads it says of them.
import { z } from 'zod';
import { TraceRejected, usageError } from '../../errors.js';
import { HINT_TEMPLATE } from '../../policy/folder.js';
import type { ModelChoice, OpenModel } from '../../policy/run/open-model.js';
import { givenOrOwn } from '../../policy/text/template-file.js';
import type { BadRow } from '../../rows.js';
import type { Reference } from '../../trace.js';
import { joinIds } from '../references.js';
import { noReferences, posteriorValues } from '../value.js';
import type { PassJob, Scored, Valued } from '../windows.js';
import { openProver, type ReadTokens, readAgain, type SecondPass, tokenCheck } from './prover.js';

/** How a prompt tells the answer. */
export interface HintTemplate {
  /** with `{answer}` where the reference stands */
  readonly text: string;
  /** it goes before the last occurrence of this text in the prompt; to the prompt's end where that is empty */
  readonly before: string;
}

const HintTemplateSchema = z.strictObject({
  text: z.string().includes('{answer}'),
  before: z.string().default(''),
});

/** Where they are. */
export interface HintOptions {
  /** a file; undefined: that of the policy's folder */
  readonly template: string | undefined;
  /** the folder of a policy that reads hints; undefined: the policy itself */
  readonly policy: string | undefined;
}

const READER = { name: 'hint policy', code: 'hint', flag: '--hint-policy' } as const;

/**
 * Opens what reads hints.
 * @param own the policy whose traces they are
 * @returns reader: another policy than the one that cuts, undefined where it is that
 * @throws RredcotError (exit 2) where there is no template, or none that is one; as `openProver` for its policy
 */
export async function openHint(
  { template: path, policy: folder }: HintOptions,
  own: Pick<OpenModel, 'policy' | 'tokenizer'>,
  opts: ModelChoice,
) {
  const reader = folder === undefined ? undefined : await openProver(folder, own.tokenizer, opts, READER);
  const template = await readTemplate(path, folder ?? own.policy.path);
  const { tokenizer, policy } = reader ?? own;
  const { vocab, maxTokens } = policy.architecture;
  const check = reader?.check ?? tokenCheck(own.tokenizer, tokenizer, vocab, maxTokens, READER);
  const before = await tokenizer.encode(template.before);
  return {
    template,
    reader,
    /** Ids of the prompt with the hint in it. @throws TraceRejected (`no_reference`, `hint`, `hint_tokens`, `hint_too_long`) */
    async hinted({ promptIds, completionIds }: ReadTokens, references: readonly Reference[]) {
      const answer = bestOf(references);
      // the answer's own dollar signs are no patterns
      const hint = await tokenizer.encode(template.text.replace('{answer}', () => answer));
      const prompt = withHint(promptIds, hint, before, template.before);
      check({ promptIds: prompt, completionIds }, []);
      return prompt;
    },
  };
}

async function readTemplate(path: string | undefined, folder: string): Promise<HintTemplate> {
  const expected = 'a file with {"text": "… {answer} …", "before": "…"}, with --hint-template';
  const found = await givenOrOwn(HintTemplateSchema, path, folder, HINT_TEMPLATE, expected);
  if (found !== undefined) return found;
  throw usageError(`${folder}/${HINT_TEMPLATE}: --estimator posterior needs a hint template`, expected);
}

/** The answer of the reference that earns most, the first of equals. */
function bestOf(references: readonly Reference[]): string {
  const [first] = references.toSorted((a, b) => b.utility - a.utility);
  if (first !== undefined && first.utility > 0) return first.answer;
  throw new TraceRejected(
    'no_reference',
    'no reference has a utility above 0, expected one for the hint of --estimator posterior: --map reference=<path>',
  );
}

/** @param name of `before`, for the error */
export function withHint(
  promptIds: Int32Array,
  hint: Int32Array,
  before: Int32Array,
  name: string,
): Int32Array {
  if (before.length === 0) return joinIds(promptIds, hint);
  for (let at = promptIds.length - before.length; at >= 0; at--)
    if (before.every((id, i) => promptIds[at + i] === id))
      return joinIds(promptIds.subarray(0, at), hint, promptIds.subarray(at));
  throw new TraceRejected(
    'hint',
    `the prompt has no tokens of ${JSON.stringify(name)}, before which the hint is to go: --hint-template <one that fits>`,
  );
}

/** Values by how a hint changes what the policy says of a trace's tokens: one more pass (METHOD §3, `posterior`). */
export function hintedValues<T extends PassJob>(
  scored: AsyncIterable<Scored<T> | BadRow>,
  how: SecondPass,
): AsyncGenerator<Valued<T> | BadRow> {
  return readAgain(
    scored,
    how,
    'the reader of the hint',
    ({ logprobs, segmentation: { exits } }, hinted) => ({
      values: posteriorValues(logprobs, hinted.logprobs, exits),
      columns: { hint_logprobs: hinted.logprobs },
      ...noReferences(exits.length),
    }),
  );
}
