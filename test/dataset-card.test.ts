// The dataset card: its front matter as YAML readers and `datasets` take it, and what it tells.

import { spawnSync } from 'node:child_process';
import {
  Binary,
  Bool,
  type DataType,
  DateDay,
  DateMillisecond,
  Decimal,
  Dictionary,
  DurationNanosecond,
  Field,
  FixedSizeBinary,
  FixedSizeList,
  Float16,
  Float32,
  Float64,
  Int8,
  Int32,
  IntervalDayTime,
  LargeBinary,
  LargeList,
  LargeUtf8,
  List,
  Map_,
  Null,
  Struct,
  TimeMicrosecond,
  TimeSecond,
  Timestamp,
  TimestampMicrosecond,
  TimestampSecond,
  TimeUnit,
  Uint64,
  Utf8,
} from 'apache-arrow';
import { describe, expect, it } from 'vitest';
import { arrowFeature, columnFeatures } from '../dist/io/arrow-features.js';
import { type OurColumn, type OutputColumn, outputColumns } from '../dist/io/columns.js';
import { type CardFacts, datasetCard } from '../dist/io/dataset-card.js';
import { EXPORT_FORMS } from '../dist/io/export/exports.js';
import { featureLines, hubFeature } from '../dist/io/hub-features.js';
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

function described(columns: readonly OutputColumn[]): CardFacts['columns'] {
  return columns.map(({ name, type }) => ({ name, feature: hubFeature(type) }));
}

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
    format: 'parquet',
    columns: described(outputColumns(passThrough, OUR_COLUMNS)),
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
    const steps = card({ columns: described(outputColumns([], EXPORT_FORMS.prm.columns)) });
    expect(steps).toContain('- name: "labels"\n      list: bool');
    expect(steps).not.toContain('w = σ·T');
    // logprobs are the export's, reward is the input's own: neither is the column that we write under this name
    const given = [{ name: 'reward', as: 'reward', type: { kind: 'string' } }] as const;
    const shifted = card({
      columns: described(outputColumns(given, EXPORT_FORMS.tinker.columns)),
      metadata: { 'rredcot.config': JSON.stringify({ ...CONFIG, export: 'tinker' }) },
    });
    expect(shifted).toContain('| `logprobs` | `list<float32>` |');
    expect(shifted).toContain('Besides, from the input: `reward`.');
    expect(shifted).not.toMatch(/reward ζ|log-probability of each completion token/);
    const metadata = { 'rredcot.version': '0.1.0', 'rredcot.config': '{"command":"segment"}' };
    const names: OurColumn[] = ['id', 'segments'];
    const cut = card({ metadata, columns: described(outputColumns([], names)), rows: 0 });
    expect(cut).toContain('cut into segments');
    expect(cut).not.toMatch(/How σ was made|sha256/);
    expect(cut).toContain('"n<1K"');
  });

  it('leaves the features to the reader where a type has no name there', () => {
    const text = card({ columns: [{ name: 'x', feature: null }] });
    expect(text).not.toContain('dataset_info');
    expect(text).toContain('configs:');
    expect(text).toContain('Besides, from the input: `x`.');
  });

  it('of JSONL names no features, since each row brings the keys of its input row', () => {
    const columns = described(outputColumns([], OUR_COLUMNS));
    const text = card({ format: 'jsonl', columns, files: 'chunks/*-of-*/*.jsonl' });
    expect(text).toContain('        path: "chunks/*-of-*/*.jsonl"\n---\n');
    expect(text).toContain('Besides, each row has the keys of its input row.');
    expect(text).toContain('| `sigma` | `list<float32>` |');
    expect(card()).not.toContain('the keys of its input row');
  });
});

const item = (type: DataType) => new Field('item', type, true);
const A_INT = new Struct([new Field('a', new Int8(), true)]);
const TEXT_BY_TEXT = new Map_(
  new Field(
    'entries',
    new Struct([new Field('key', new Utf8()), new Field('value', new Utf8())]),
    false,
  ) as never,
);

/** What `Features.from_arrow_schema` of datasets 5.0.1 makes of each type, as its YAML. */
const FEATURES: readonly (readonly [DataType, unknown])[] = [
  [new Null(), { dtype: 'null' }],
  [new Bool(), { dtype: 'bool' }],
  [new Int8(), { dtype: 'int8' }],
  [new Uint64(), { dtype: 'uint64' }],
  [new Float16(), { dtype: 'float16' }],
  [new Float32(), { dtype: 'float32' }],
  [new Float64(), { dtype: 'float64' }],
  [new Utf8(), { dtype: 'string' }],
  [new LargeUtf8(), { dtype: 'large_string' }],
  [new Binary(), { dtype: 'binary' }],
  [new LargeBinary(), { dtype: 'large_binary' }],
  // the one type that it refuses by itself, and reads where the card says so
  [new FixedSizeBinary(16), { dtype: 'binary' }],
  [new DateDay(), { dtype: 'date32' }],
  [new DateMillisecond(), { dtype: 'date64' }],
  [new TimeSecond(), { dtype: 'time32[s]' }],
  [new TimeMicrosecond(), { dtype: 'time64[us]' }],
  [new TimestampSecond(), { dtype: 'timestamp[s]' }],
  [new TimestampMicrosecond('UTC'), { dtype: 'timestamp[us, tz=UTC]' }],
  [new Timestamp(TimeUnit.NANOSECOND, '+05:30'), { dtype: 'timestamp[ns, tz=+05:30]' }],
  [new DurationNanosecond(), { dtype: 'duration[ns]' }],
  [new Decimal(2, 10, 128), { dtype: 'decimal128(10, 2)' }],
  [new Decimal(-4, 40, 256), { dtype: 'decimal256(40, -4)' }],
  [new Dictionary(new LargeUtf8(), new Int32()), { dtype: 'large_string' }],
  [A_INT, { struct: [{ name: 'a', dtype: 'int8' }] }],
  [new List(item(new TimeSecond())), { list: 'time32[s]' }],
  [new LargeList(item(new Int32())), { large_list: 'int32' }],
  [new FixedSizeList(3, item(new Float32())), { list: 'float32', length: 3 }],
  [new FixedSizeList(2, item(A_INT)), { list: [{ name: 'a', dtype: 'int8' }], length: 2 }],
  [new List(item(new LargeList(item(new Null())))), { list: { large_list: 'null' } }],
];

/** Types that `datasets` has no name for: it refuses them, or a newer one finds its own way. */
const NAMELESS: readonly DataType[] = [
  new IntervalDayTime(),
  new Decimal(2, 9, 32),
  new Timestamp(TimeUnit.SECOND, 'somewhere else'),
  TEXT_BY_TEXT,
  new List(item(TEXT_BY_TEXT)),
  new Struct([new Field('a', new IntervalDayTime(), true)]),
];

describe('the features of a columnar input', () => {
  it.skipIf(!hasYaml)('are its types by the names that `datasets` has (skipped without PyYAML)', () => {
    const columns = FEATURES.map(([type], n) => {
      return { name: `c${n}`, feature: arrowFeature(new Field(`c${n}`, type, true)) };
    });
    const lines = featureLines(columns, '  ') as string[];
    const { features } = frontMatter(`---\nfeatures:\n${lines.join('\n')}\n---\n`) as { features: object[] };
    for (const [n, [type, expected]] of FEATURES.entries())
      expect(features[n], `${type}`).toEqual({ name: `c${n}`, ...(expected as object) });
  });

  it('are left to the reader for what has no name there', () => {
    for (const type of NAMELESS) expect(arrowFeature(new Field('x', type, true)), `${type}`).toBeNull();
    const extension = new Map([['ARROW:extension:name', 'arrow.json']]);
    expect(arrowFeature(new Field('x', new Utf8(), true, extension))).toBeNull();
    expect(
      arrowFeature(new Field('x', new List(new Field('item', new Utf8(), true, extension)), true)),
    ).toBeNull();
    expect(featureLines([{ name: 'x', feature: null }], '')).toBeNull();
  });

  it('are those of the file: Parquet has no seconds', () => {
    const arrow = new Field('at', new List(item(new TimestampSecond('UTC'))), true);
    const column = { name: 'input_at', type: { kind: 'json' }, arrow, value: () => null } as const;
    const dtype = (format: 'parquet' | 'arrow') =>
      featureLines([{ name: 'x', feature: columnFeatures(format)(column) }], '')?.[1];
    expect(dtype('arrow')).toBe('  list: "timestamp[s, tz=UTC]"');
    expect(dtype('parquet')).toBe('  list: "timestamp[ms, tz=UTC]"');
  });
});
