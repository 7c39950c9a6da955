// `posterior`: how far a hint of the answer in the prompt makes the tokens so far likelier, by one more pass over the trace.
import { posteriorValues } from '../estimate/value.js';
import { FLOAT32_LIST, requestedColumn } from '../io/arrow/output-columns.js';
import { thoughtEnds } from '../io/scored/stored-rows.js';
import { type Estimator, type Stage, secondModel, type Values } from './estimator.js';

export const posterior: Estimator = {
  name: 'posterior',
  scores: 'nothing',
  isAttribution: true,
  isMagnitude: true,
  noLevel: 'no values of a state',
  valueName: 'p(hint)',
  card: 'no value: how far a hint of the reference answer makes the tokens so far likelier, as a probability',
  flags: [
    ['--hint-template <file>', "of posterior: how a prompt tells the answer (default: the policy's own)"],
    ['--hint-policy <folder>', 'of posterior: a policy folder that reads the hint (default: --policy)'],
  ],
  configKeys: ['hintTemplate', 'hintPolicy'],
  columns: () => [
    requestedColumn(
      'hint_logprobs',
      FLOAT32_LIST,
      'log-probability of each completion token behind the prompt with the hint, nats',
    ),
  ],
  *remade(row) {
    const hinted = row.requested?.hint_logprobs;
    // without an answer the last state may lie before the end token
    if (!(hinted instanceof Float32Array) || !row.logprobs || row.segments.at(-1)?.kind !== 'answer') return;
    const ends = thoughtEnds(row);
    // s_0 lies behind the tag that opens the thought, which is part of the first segment
    for (let start = 0; start <= (ends[0] ?? 0); start++) {
      const values = posteriorValues(row.logprobs, hinted, Int32Array.of(start, ...ends));
      yield { from: 'logprobs and hint_logprobs', values };
    }
  },
  ask: ({ hintTemplate, hintPolicy }) => ({
    readsReferences: true,
    async open(scene) {
      const { hintedValues, openHint } = await import('../estimate/models/hint.js');
      const { proverConfig } = await import('../estimate/models/prover.js');
      const files = { template: textOf(hintTemplate), policy: textOf(hintPolicy) };
      const { template, reader, hinted } = await openHint(files, scene, {
        ...{ device: scene.choice, signal: scene.signal },
      });
      const valuesBy =
        (pass: Pick<Stage, 'session' | 'window'>): Values =>
        (scored) =>
          hintedValues(scored, pass);
      return {
        config: { hintTemplate: template, ...(reader && { hintPolicy: proverConfig(reader) }) },
        prepare: async ({ tokens, references }) => ({ promptIds: await hinted(tokens, references) }),
        start: (stage) => ({ isSecondPass: true, values: valuesBy(stage) }),
        ...(reader && secondModel(reader, 'hint policy', valuesBy)),
      };
    },
  }),
};

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
