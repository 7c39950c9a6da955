// `posterior`: how far a hint, the answer or a right mate's text in the prompt, makes the tokens so far likelier, by one more pass over the trace.
import { usageError } from '../errors.js';
import { oneOf } from '../flag-values.js';
import { FLOAT32_LIST, requestedColumn } from '../io/arrow/output-columns.js';
import { type AskedValues, type Estimator, type Stage, secondModel, type ValuesOf } from './estimator.js';
import { farMates } from './far-mates.js';
import type { Hint } from './hint.js';
import { refuseLate, refuseStream, WHICH_MATE, withRightMate } from './with-mates.js';

/** What a {@link Hint} tells, in a file that loads no ONNX Runtime; the first is the default. */
const HINTS = ['answer', 'mate'] as const satisfies readonly Hint[];

export const posterior: Estimator = {
  name: 'posterior',
  scores: 'nothing',
  isAttribution: true,
  isMagnitude: true,
  noLevel: 'no values of a state',
  valueName: 'p(hint)',
  card: 'no value: how far a hint, the reference answer or the text of a right mate (`hint`), makes the tokens so far likelier, as a probability',
  flags: [
    ['--hint <what>', `of posterior: what a prompt tells: ${HINTS.join('|')} (default: ${HINTS[0]})`],
    [
      '--hint-mate <which>',
      `of --hint mate: which right completion of the group: ${WHICH_MATE.join('|')} (default: ${WHICH_MATE[0]})`,
    ],
    [
      '--hint-template <file>',
      "of posterior: how a prompt tells the answer, or the mate's text (default: the policy's own)",
    ],
    ['--hint-policy <folder>', 'of posterior: a policy folder that reads the hint (default: --policy)'],
  ],
  configKeys: ['hint', 'hintMate', 'hintTemplate', 'hintPolicy'],
  columns: () => [
    requestedColumn(
      'hint_logprobs',
      FLOAT32_LIST,
      'log-probability of each completion token behind the prompt with the hint, nats',
    ),
  ],
  ask({ hint: asked = HINTS[0], hintMate, hintTemplate, hintPolicy }, { segments, inputs }): AskedValues {
    const hint = oneOf('--hint', String(asked), HINTS);
    const which = oneOf('--hint-mate', String(hintMate ?? WHICH_MATE[0]), WHICH_MATE);
    const isOfMate = hint === 'mate';
    if (hintMate !== undefined && !isOfMate)
      throw usageError(`--hint-mate ${hintMate} has no meaning with --hint ${hint}`, 'add --hint mate');
    if (isOfMate) refuseStream('posterior --hint mate', inputs);
    if (isOfMate && which === 'similar') refuseLate('--hint-mate similar', segments);
    return {
      ...(isOfMate ? { readsMates: true, config: { hint, hintMate: which } } : { readsReferences: true }),
      async open(scene) {
        const { hintedValues, openHint } = await import('./hint.js');
        const { proverConfig } = await import('./prover.js');
        const files = { hint, template: textOf(hintTemplate), policy: textOf(hintPolicy) };
        const { template, reader, hinted, ofAnswer, ofMate } = await openHint(files, scene, {
          ...{ device: scene.choice, signal: scene.signal },
        });
        const valuesBy =
          (pass: Pick<Stage, 'session' | 'window'>): ValuesOf =>
          (scored) =>
            hintedValues(scored, pass);
        const second = reader && secondModel(reader, 'hint policy', valuesBy);
        return {
          ...second,
          config: { hintTemplate: template, ...(reader && { hintPolicy: proverConfig(reader) }) },
          ...(!isOfMate && {
            prepare: async ({ tokens, references }) => ({
              promptIds: hinted(tokens, await ofAnswer(references)),
            }),
          }),
          async start(stage) {
            const { window, whole } = stage;
            const far = isOfMate ? await farMates(whole, window, scene.log, scene.signal) : undefined;
            const started = await second?.start(stage);
            return {
              ...(started ?? { values: valuesBy(stage) }),
              ...(isOfMate && {
                together: (windows) =>
                  withRightMate(windows, far?.mates, which, (item, mate) => hinted(item, ofMate(mate))),
              }),
              async [Symbol.asyncDispose]() {
                await far?.[Symbol.asyncDispose]();
                await started?.[Symbol.asyncDispose]?.();
              },
            };
          },
        };
      },
    };
  },
};

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
