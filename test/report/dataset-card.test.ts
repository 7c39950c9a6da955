// The dataset card: its front matter as YAML readers and `datasets` take it, and what it tells.
import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { ESTIMATORS, wordsOf } from '../../dist/estimate/registry.js';
import { type CardFacts, datasetCard } from '../../dist/report/dataset-card.js';
import { OUR_COLUMNS, ourColumn } from '../../dist/scored/columns.js';

const CONFIG = {
  ...{ command: 'score', estimator: 'pr', rule: 'rudder', baseline: 'auto', residual: 'uniform' },
  ...{ within: 'uniform', segmenter: 'hybrid', maxSegments: 40 },
};

function passed(...names: readonly string[]) {
  return names.map((name) => ({ name, as: name, type: { kind: 'string' as const } }));
}

function card(changes: Partial<CardFacts> = {}): string {
  return datasetCard({
    format: 'parquet',
    ourColumns: OUR_COLUMNS.map(ourColumn),
    passThrough: passed('no', 'messages', 'a: "b"'),
    metadata: {
      'rredcot.version': '0.1.0',
      'rredcot.config': JSON.stringify(CONFIG),
      'rredcot.policy.sha256': '{"policy.onnx":"67c1"}',
    },
    rows: 1234,
    rejects: 5,
    words: wordsOf(CONFIG),
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
    const { configs, ...others } = frontMatter(card());
    expect(configs).toEqual([
      { config_name: 'default', data_files: [{ split: 'train', path: 'part-*.parquet' }] },
    ]);
    // the files state their columns' types themselves
    expect(Object.keys(others).sort()).toEqual(['pretty_name', 'tags']);
  });

  it('names columns and files as they are, whatever Markdown would make of them', () => {
    const evil = 'x`</details>\n# Heading\u202e';
    const policy = JSON.stringify({ 'a|b`.json': '67c1' });
    const metadata = { 'rredcot.config': JSON.stringify(CONFIG), 'rredcot.policy.sha256': policy };
    const text = card({ passThrough: passed(evil), metadata });
    expect(text).toContain('Besides, from the input: ``x`</details>⏎# Heading\\u{202e}``.');
    expect(text).not.toMatch(/^# Heading|\u202e/m);
    expect(text).toContain('| ``a\\|b`.json`` | `67c1` |');
  });

  it('tells every column, how σ was made, and with which policy', () => {
    const text = card();
    for (const name of OUR_COLUMNS) expect(text).toMatch(new RegExp(`^\\| \`${name}\` \\| [^|]+ \\|$`, 'm'));
    expect(text).toContain(
      '1,234 chain-of-thought traces, scored offline by rredcot 0.1.0; 5 more were rejected.',
    );
    expect(text).toContain('- segments: `hybrid`, 40 thoughts at most');
    expect(text).toContain('- value of a state, `pr`: the probability of the reference answer');
    expect(text).toContain('- baseline `auto`, residual `uniform`, within a segment `uniform`');
    expect(text).toContain('| `policy.onnx` | `67c1` |');
    expect(text).toContain('w = σ·T');
    expect(text).toContain('Besides, from the input: `no`, `messages`, `a: "b"`.');
    expect(card()).toBe(text);
  });

  it.each(ESTIMATORS)('says what the values of $name are', ({ name: estimator }) => {
    const config = { ...CONFIG, estimator };
    const text = card({ metadata: { 'rredcot.config': JSON.stringify(config) }, words: wordsOf(config) });
    expect(text).toMatch(new RegExp(`^- value of a state, \`${estimator}\`: .{20}`, 'm'));
  });

  it('of a segmentation tells what there is, and of JSONL that each row brings the keys of its input row', () => {
    const metadata = { 'rredcot.version': '0.1.0', 'rredcot.config': '{"command":"segment"}' };
    const cut = card({ metadata, ourColumns: (['id', 'segments'] as const).map(ourColumn), rows: 0 });
    expect(cut).toContain('cut into segments');
    expect(cut).not.toMatch(/How σ was made|sha256|the keys of its input row/);
    const text = card({ format: 'jsonl' });
    expect(text).toContain('        path: "part-*.jsonl"\n---\n');
    expect(text).toContain('Besides, each row has the keys of its input row.');
  });
});
