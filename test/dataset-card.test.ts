// The dataset card: its front matter as YAML readers and `datasets` take it, and what it tells.

import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { type OurColumn, outputColumns } from '../dist/io/columns.js';
import { type CardFacts, datasetCard } from '../dist/io/dataset-card.js';
import { EXPORT_FORMS } from '../dist/io/export/exports.js';
import { OUR_COLUMNS } from '../dist/io/output.js';
import type { ColumnType } from '../dist/io/schema.js';

const LIST_OF_STRUCT: ColumnType = {
  kind: 'list',
  element: { kind: 'struct', fields: [{ name: 'role', type: { kind: 'string' } }] },
};
const CONFIG = {
  command: 'score',
  estimator: 'pr',
  rule: 'rudder',
  baseline: 'auto',
  residual: 'uniform',
  within: 'uniform',
  segmenter: 'hybrid',
  maxSegments: 40,
};

function card(changes: Partial<CardFacts> = {}): string {
  const passThrough = [
    { name: 'no', as: 'no', type: { kind: 'json' } },
    { name: 'messages', as: 'messages', type: LIST_OF_STRUCT },
    {
      name: 'a: "b"',
      as: 'a: "b"',
      type: { kind: 'struct', fields: [{ name: 'x', type: { kind: 'double' } }] },
    },
  ] as const;
  return datasetCard({
    columns: outputColumns(passThrough, OUR_COLUMNS),
    metadata: {
      'rredcot.version': '0.1.0',
      'rredcot.config': JSON.stringify(CONFIG),
      'rredcot.policy.sha256': '{"policy.onnx":"67c1"}',
    },
    rows: 1234,
    rejects: 5,
    files: 'chunks/*-of-*/*.parquet',
    ...changes,
  });
}

/** The front matter as PyYAML reads it, which is what `datasets` uses. */
function frontMatter(text: string): Record<string, unknown> {
  const yaml = /^---\n(.*?)\n---\n/s.exec(text)?.[1] as string;
  const program = 'import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.stdin.read())))';
  const { stdout, stderr } = spawnSync('python3', ['-c', program], { input: yaml, encoding: 'utf8' });
  if (stdout === '') throw new Error(stderr);
  return JSON.parse(stdout) as Record<string, unknown>;
}

const hasYaml = spawnSync('python3', ['-c', 'import yaml']).status === 0;

describe('a dataset card', () => {
  it.skipIf(!hasYaml)('has front matter that YAML readers take (skipped without PyYAML)', () => {
    const { configs, dataset_info, size_categories } = frontMatter(card()) as {
      configs: unknown;
      size_categories: string[];
      dataset_info: { features: { name: string }[]; splits: unknown };
    };
    expect(configs).toEqual([
      { config_name: 'default', data_files: [{ split: 'train', path: 'chunks/*-of-*/*.parquet' }] },
    ]);
    expect(size_categories).toEqual(['1K<n<10K']);
    expect(dataset_info.splits).toEqual([{ name: 'train', num_examples: 1234 }]);
    expect(dataset_info.features.map(({ name }) => name)).toEqual([
      'no',
      'messages',
      'a: "b"',
      ...OUR_COLUMNS,
    ]);
    const feature = (name: string) => dataset_info.features.find((item) => item.name === name);
    expect(feature('no')).toEqual({ name: 'no', dtype: 'string' });
    expect(feature('messages')).toEqual({ name: 'messages', list: [{ name: 'role', dtype: 'string' }] });
    expect(feature('a: "b"')).toEqual({ name: 'a: "b"', struct: [{ name: 'x', dtype: 'float64' }] });
    expect(feature('sigma')).toEqual({ name: 'sigma', list: 'float32' });
    expect(feature('reference_logprobs')).toEqual({ name: 'reference_logprobs', list: { list: 'float32' } });
    expect(feature('source_row')).toEqual({ name: 'source_row', dtype: 'int64' });
    expect((feature('segments') as unknown as { list: object[] }).list.slice(0, 2)).toEqual([
      { name: 'start', dtype: 'int32' },
      { name: 'end', dtype: 'int32' },
    ]);
  });

  it('tells every column, how σ was made, and with which policy', () => {
    const text = card();
    for (const name of OUR_COLUMNS)
      expect(text).toMatch(new RegExp(`^\\| \`${name}\` \\| [^|]+ \\| [^|]+ \\|$`, 'm'));
    expect(text).toContain(
      '1,234 chain-of-thought traces, scored offline by rredcot 0.1.0; 5 more were set aside.',
    );
    expect(text).toContain('- segments: `hybrid`, 40 thoughts at most');
    expect(text).toContain('- value of a state, `pr`: the probability of the reference answer');
    expect(text).toContain('- baseline `auto`, residual `uniform`, within a segment `uniform`');
    expect(text).toContain('| `policy.onnx` | `67c1` |');
    expect(text).toContain('w = σ·T');
    expect(text).toContain('Besides, from the input: `no`, `messages`, `a: "b"`.');
    expect(card()).toBe(text);
  });

  it('of an export or a segmentation tells what there is', () => {
    const steps = card({ columns: outputColumns([], EXPORT_FORMS.prm.columns) });
    expect(steps).toContain('- name: "labels"\n      list: bool');
    expect(steps).not.toContain('w = σ·T');
    // logprobs are the export's, reward is the input's own: neither is the column that we write under this name
    const given = [{ name: 'reward', as: 'reward', type: { kind: 'string' } }] as const;
    const shifted = card({
      columns: outputColumns(given, EXPORT_FORMS.tinker.columns),
      metadata: { 'rredcot.config': JSON.stringify({ ...CONFIG, export: 'tinker' }) },
    });
    expect(shifted).toContain('| `logprobs` | `list<float32>` |');
    expect(shifted).toContain('Besides, from the input: `reward`.');
    expect(shifted).not.toMatch(/reward ζ|log-probability of each completion token/);
    const metadata = { 'rredcot.version': '0.1.0', 'rredcot.config': '{"command":"segment"}' };
    const names: OurColumn[] = ['id', 'segments'];
    const cut = card({ metadata, columns: outputColumns([], names), rows: 0 });
    expect(cut).toContain('cut into segments');
    expect(cut).not.toMatch(/How σ was made|sha256/);
    expect(cut).toContain('"n<1K"');
  });

  it('leaves the features to the reader where a type has no name there', () => {
    const type = { kind: 'decimal' } as unknown as ColumnType;
    const text = card({ columns: [{ name: 'x', type: { kind: 'list', element: type } }] });
    expect(text).not.toContain('dataset_info');
    expect(text).toContain('configs:');
  });
});
