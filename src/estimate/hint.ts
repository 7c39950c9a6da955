// Puts a hint, the reference answer or a peer's text, into a trace's prompt by a hint template.
import { z } from 'zod';
import { TraceRejected, usageError } from '../errors.js';
import { HINT_TEMPLATE } from '../model/onnx/folder.js';
import type { ModelChoice, OpenModel } from '../model/onnx/open-model.js';
import { joinIds } from '../model/text/ids.js';
import { givenOrOwn } from '../model/text/untrusted-files.js';
import type { Reference } from '../trace.js';
import { openSecond, type ReadTokens, tokenCheck } from './second-policy.js';

/** What a hint tells: a reference's answer, or the text of one of the group's right completions. */
type HintKind = 'answer' | 'peer';

/** How a prompt tells it. */
interface HintTemplate {
  /** with `{answer}` where the reference stands, or `{peer}` where a peer's text does */
  readonly text: string;
  /** it goes before the last occurrence of this text in the prompt; to the prompt's end where that is empty */
  readonly before: string;
}

const READER = { name: 'hint policy', code: 'hint', flag: '--hint-policy' } as const;

/**
 * Opens what reads hints.
 * @param files a template, where it is not the folder's own; a policy that reads them, where it is not the policy itself
 * @param own the policy whose traces they are
 * @returns reader: another policy than the one that cuts, undefined where it is that
 * @throws RredcotError (exit 2) where there is no template, or none that is one; as `openSecond` for its policy
 */
export async function openHint(
  hint: HintKind,
  { template: path, policy: folder }: { readonly template?: string; readonly policy?: string },
  own: Pick<OpenModel, 'policy' | 'tokenizer'>,
  opts: ModelChoice,
) {
  const reader = folder === undefined ? undefined : await openSecond(folder, own.tokenizer, opts, READER);
  const template = await readTemplate(hint, path, folder ?? own.policy.path);
  const { tokenizer, policy } = reader ?? own;
  const { vocab, maxTokens } = policy.architecture;
  const check = reader?.check ?? tokenCheck(own.tokenizer, tokenizer, vocab, maxTokens, READER);
  const before = await tokenizer.encode(template.before);
  const [lead = '', tail = ''] = template.text.split(placeOf('peer'));
  const [leadIds, tailIds] = [await tokenizer.encode(lead), await tokenizer.encode(tail)];
  return {
    template,
    reader,
    /** Ids of a hint that tells the answer. @throws TraceRejected (`no_reference`) */
    async ofAnswer(references: readonly Reference[]): Promise<Int32Array> {
      const answer = bestOf(references);
      // the answer's own dollar signs are no patterns
      return tokenizer.encode(template.text.replace(placeOf('answer'), () => answer));
    },
    /** Ids of a hint that is a peer's text, in the tokens in which it was written. */
    ofPeer: (ids: Int32Array): Int32Array => joinIds(leadIds, ids, tailIds),
    /** Ids of the prompt with a hint in it. @throws TraceRejected (`hint`, `hint_tokens`, `hint_too_long`) */
    hinted({ promptIds, completionIds }: ReadTokens, told: Int32Array): Int32Array {
      const prompt = withHint(promptIds, told, before, template.before);
      check({ promptIds: prompt, completionIds }, []);
      return prompt;
    },
  };
}

function placeOf(hint: HintKind): string {
  return `{${hint}}`;
}

async function readTemplate(hint: HintKind, path: string | undefined, folder: string): Promise<HintTemplate> {
  const place = placeOf(hint);
  const schema = z.strictObject({ text: z.string().includes(place), before: z.string().default('') });
  const expected = `a file with {"text": "… ${place} …", "before": "…"}, with --hint-template`;
  const found = await givenOrOwn(schema, path, folder, HINT_TEMPLATE, expected);
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
