// Writes the README.md of a finished folder: a dataset card, so that a hub can take it as it is.

import type { OutputColumn } from '../io/arrow/output-columns.js';
import type { PassThroughColumn } from '../io/arrow/schema.js';
import { writeText } from '../io/files/atomic-file.js';
import { textOf } from '../io/files/files.js';
import { CONFIG_KEY, type OutputFormat } from '../io/write/output.js';
import { count } from '../plural.js';
import { markdownCode, printableJson } from '../printable.js';

/** What a card tells of a folder of scored traces. Nothing in it depends on place or time. */
export interface CardFacts {
  readonly format: OutputFormat;
  /** the output's; each row of JSON lines brings the keys of its input row besides */
  readonly ourColumns: readonly OutputColumn[];
  readonly passThrough: readonly PassThroughColumn[];
  /** of every file: `rredcot.version`, `rredcot.config`, and `rredcot.policy.sha256` where there was a policy */
  readonly metadata: Readonly<Record<string, string>>;
  /** what the estimator and the σ rule do */
  readonly words?: { readonly estimator?: string | undefined; readonly rule?: string | undefined };
  /** traces in all files */
  readonly rows: number;
  readonly rejects: number;
}

const DONE: Readonly<Record<string, string>> = { score: 'scored', segment: 'cut into segments' };

/** Writes the card, unless one is there: that of another shard, or of somebody else. */
export async function writeCard(path: string, facts: CardFacts): Promise<void> {
  if ((await textOf(path)) !== undefined) return;
  await writeText(path, datasetCard(facts)).catch(async (error: unknown) => {
    if ((await textOf(path)) === undefined) throw error;
  });
}

export function datasetCard(facts: CardFacts): string {
  return `${frontMatter(facts)}\n${body(facts)}`;
}

/** What every card begins with. */
export const CARD_HEAD = '---\npretty_name: "Reasoning traces with token-wise credit"\n';

function frontMatter({ format }: CardFacts): string {
  // a loader finds the columns' types in the files
  const lines = [
    'tags:',
    '  - rredcot',
    '  - reasoning',
    '  - chain-of-thought',
    'configs:',
    '  - config_name: default',
    '    data_files:',
    '      - split: train',
    // a JSON string is a YAML string; quoted always, since `no`, `1` and `null` are none
    `        path: ${JSON.stringify(`part-*.${format}`)}`,
    '---',
  ];
  return `${CARD_HEAD}${lines.join('\n')}\n`;
}

function body({ format, ourColumns, passThrough, metadata, rows, rejects, words }: CardFacts): string {
  const config = JSON.parse(metadata[CONFIG_KEY] ?? '{}') as Record<string, unknown>;
  const hasSigma = ourColumns.some(({ name }) => name === 'sigma');
  const input = format === 'jsonl' ? [] : passThrough.map(({ as }) => as);
  const parts = [
    '# Reasoning traces with token-wise credit',
    `${count(rows)} chain-of-thought traces, ${DONE[String(config.command)] ?? 'scored'} offline by rredcot ${metadata['rredcot.version'] ?? ''}; ${count(rejects)} more were rejected.`,
    ...(config.command === 'score' ? sigmaSection(config, words, hasSigma) : []),
    ...policySection(metadata, config),
    ...besideSection(config),
    '## Columns',
    table(
      ['column', 'meaning'],
      ourColumns.map(({ name, meaning = '' }) => [`\`${name}\``, meaning]),
    ),
    ...(input.length === 0 ? [] : [`Besides, from the input: ${input.map(markdownCode).join(', ')}.`]),
    ...(format === 'jsonl' ? ['Besides, each row has the keys of its input row.'] : []),
    '## How it was made',
    `\`\`\`json\n${printableJson(JSON.stringify(config, null, 2))}\n\`\`\``,
  ];
  return `${parts.join('\n\n')}\n`;
}

function sigmaSection(
  config: Record<string, unknown>,
  words: CardFacts['words'],
  hasSigma: boolean,
): string[] {
  const named = (key: 'estimator' | 'rule'): string => {
    const name = `\`${String([config[key]].flat()[0])}\``;
    return words?.[key] === undefined ? name : `${name}: ${words[key]}`;
  };
  const use = `In a trainer, multiply each token's advantage by w = σ·T, which has mean 1 over the trace (by σ itself where the loss sums over tokens). Multiply advantages, never rewards.`;
  return [
    '## How σ was made',
    [
      `- segments: \`${config.segmenter}\`${config.maxSegments === undefined ? '' : `, ${config.maxSegments} thoughts at most`}`,
      `- value of a state, ${named('estimator')}`,
      `- from values to σ, ${named('rule')}`,
      `- baseline \`${config.baseline}\`, residual \`${config.residual}\`, within a segment \`${config.within}\`${config.mix === undefined ? '' : `, \`${config.mix}\` of σ spread evenly`}${config.cap === undefined ? '' : `, weights cut at \`${config.cap}\``}${config.steps === undefined ? '' : `, steps \`${config.steps}\``}`,
    ].join('\n'),
    ...(hasSigma ? [use] : []),
    'The method is RREDCoT ([arXiv 2606.06475](https://arxiv.org/abs/2606.06475)); exit template, σ rule and baselines are choices of rredcot.',
  ];
}

function policySection(
  metadata: Readonly<Record<string, string>>,
  { ofPolicy }: Record<string, unknown>,
): string[] {
  const files = metadata['rredcot.policy.sha256'];
  if (files === undefined) return [];
  const title =
    ofPolicy === undefined ? 'The policy that scored it' : 'The policy whose tokenizer counted its tokens';
  return [`## ${title}`, hashTable(JSON.parse(files))];
}

/** The files of the prover, where values are its. */
function besideSection({ prover }: Record<string, unknown>): string[] {
  const { files } = (prover ?? {}) as { readonly files?: Readonly<Record<string, string>> };
  if (files === undefined) return [];
  return ['## The prover, under which states were valued', hashTable(files)];
}

function hashTable(files: Readonly<Record<string, string>>): string {
  const rows = Object.entries(files).map(([name, sha256]) => [markdownCode(name), markdownCode(sha256)]);
  return table(['file', 'sha256'], rows);
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}
