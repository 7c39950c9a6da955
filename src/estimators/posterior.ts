// `posterior`: how far a hint of the answer in the prompt makes the tokens so far likelier, by one more pass over the trace.
import { HINT_COLUMNS } from '../estimate/models/columns.js';
import type { Estimator } from './estimator.js';

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
  columns: () => HINT_COLUMNS,
  ask: ({ hintTemplate, hintPolicy }) => ({
    readsReferences: true,
    async open(scene) {
      const { openHint } = await import('../estimate/models/hint.js');
      const { hintedValues } = await import('../estimate/models/hinted-values.js');
      const { proverConfig } = await import('../estimate/models/prover.js');
      const files = { template: textOf(hintTemplate), policy: textOf(hintPolicy) };
      const hint = await openHint(files, scene, { device: scene.choice, signal: scene.signal });
      const { template, reader } = hint;
      return {
        config: { hintTemplate: template, ...(reader && { hintPolicy: proverConfig(reader) }) },
        beside: reader ? [reader.policy] : [],
        prepare: async ({ tokens, references }) => ({ promptIds: await hint.hinted(tokens, references) }),
        async start({ session: own, window, note }) {
          const { PolicySession } = await import('../policy/run/session.js');
          const other = reader && (await PolicySession.open(reader.policy, reader.device));
          if (other) note(other, 'hint policy');
          const session = other ?? own;
          return {
            isSecondPass: true,
            values: (scored) => hintedValues(scored, { session, window }),
            [Symbol.asyncDispose]: async () => other?.close(),
          };
        },
        [Symbol.asyncDispose]: () => hint[Symbol.asyncDispose](),
      };
    },
  }),
};

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
