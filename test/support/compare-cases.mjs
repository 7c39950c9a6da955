// The cases of compare-builds: which commands run over which inputs. A case's outputs are what it leaves in its folder.

const FORMATS = ['parquet', 'arrow', 'jsonl'];
/** where the fields of dumps are that no preset tells */
const MAPS = [
  [/^math500_reference/, 'id=unique_id,prompt=problem,completion=solution,reference=answer'],
  [/^math500_/, 'id=item_id,prompt=prompt,completion=full_response,reward=is_correct,reference=ground_truth'],
];
/** traces of a dump that are scored; the dumps' traces are long, so few */
const SCORED = [
  [/^gsm8k/, 24],
  [/^math500_reference/, 24],
  [/^math500_/, 1],
  [/^thought_anchors/, 1],
];
const SCORED_OTHERS = 2;

const found = (table, name) => table.find(([pattern]) => pattern.test(name))?.[1];
const one = (name, ...args) => ({ name, commands: [{ args }] });

/** Commands that make a run of two shards. */
function sharded(name, format, ...args) {
  const shards = ['0/2', '1/2'].map((shard) => ({
    args: [...args, '-o', 'out/', '--format', format, '--shard', shard, '--rows-per-part', '100'],
  }));
  return { name, commands: shards };
}

function fixtureCases(quick) {
  const few = ['--limit', quick ? '24' : '96'];
  const score = ['score', 'inputs/chains.jsonl'];
  const forms = [
    ['--estimator', 'joint', '--baseline', 'group'],
    ['--sigma', 'rudder'],
    ['--references', 'group'],
  ];
  const segmenters = ['newline', 'fixed'];
  return [
    one('score', ...score, ...(quick ? few : []), '-o', 'out.parquet'),
    ...['arrow', 'jsonl', 'jsonl.gz'].map((ending) =>
      one(`score ${ending}`, ...score, ...few, '-o', `out.${ending}`),
    ),
    ...forms.map((form) => one(`score ${form.join(' ')}`, ...score, ...form, ...few, '-o', 'out.parquet')),
    one('score text', 'score', 'inputs/text.jsonl', ...few, '-o', 'out.parquet'),
    one('segment', 'segment', 'inputs/chains.jsonl', ...(quick ? few : []), '-o', 'out.parquet'),
    ...FORMATS.map((format) =>
      one(
        `segment --no-policy ${format}`,
        'segment',
        'inputs/chains.jsonl',
        '--no-policy',
        '-o',
        `out.${format}`,
      ),
    ),
    ...segmenters.map((segmenter) =>
      one(
        `segment --segmenter ${segmenter}`,
        ...['segment', 'inputs/chains.jsonl', '--segmenter', segmenter, '--max-segments', '5', ...few],
        ...['-o', 'out.jsonl'],
      ),
    ),
    one(
      'segments by the row',
      'segment',
      'inputs/processbench.jsonl',
      '--segmenter',
      'given',
      '-o',
      'out.jsonl',
    ),
  ];
}

function runCases(quick) {
  const score = ['score', quick ? 'inputs/few.jsonl' : 'inputs/part.jsonl'];
  const segment = ['segment', 'inputs/hurt.jsonl', '--no-policy'];
  return [
    sharded('run score', 'parquet', ...score),
    sharded('run score, referenceSet group', 'parquet', ...score, '--references', 'group'),
    sharded('run score, JSONL parts', 'jsonl', ...score),
    sharded('run segment', 'parquet', ...segment),
    sharded('run segment, JSONL parts', 'jsonl', ...segment),
    sharded('run segment, Arrow parts', 'arrow', ...segment),
    ...[['chains.parquet'], ['chains.arrow'], ['chains.jsonl', 'list.json']].map((names) =>
      sharded(
        `run segment of ${names.join(', ')}`,
        'parquet',
        ...['segment', ...names.map((name) => `inputs/${name}`), '--no-policy'],
      ),
    ),
    {
      name: 'run again, and joined',
      commands: [
        { args: [...segment, '-o', 'out/', '--rows-per-part', '128'] },
        { args: [...segment, '-o', 'out/', '--rows-per-part', '128'] },
        { args: ['verify', 'out'] },
        { args: ['filter', 'out', '-o', 'out.parquet'] },
      ],
    },
  ];
}

function inputCases(quick) {
  const few = ['--limit', quick ? '12' : '48'];
  const noPolicy = ['segment', '--no-policy'];
  return [
    ...['packed.jsonl.gz', 'list.json', 'chains.parquet', 'chains.arrow'].flatMap((name) => [
      one(`score ${name}`, 'score', `inputs/${name}`, ...few, '-o', 'out.parquet'),
      one(`segment ${name}`, ...noPolicy, `inputs/${name}`, '-o', 'out.arrow'),
    ]),
    one('rejects, score', 'score', 'inputs/hurt.jsonl', ...few, '-o', 'out.parquet'),
    ...FORMATS.map((format) =>
      one(`rejects, ${format}`, ...noPolicy, 'inputs/hurt.jsonl', '-o', `out.${format}`),
    ),
    one('rejects, too many', ...noPolicy, 'inputs/hurt.jsonl', '--max-rejects', '2', '-o', 'out.parquet'),
    one('several inputs', ...noPolicy, 'inputs/list.json', 'inputs/chains.jsonl', '-o', 'out.parquet'),
    one('columns', ...noPolicy, 'inputs/chains.jsonl', '--columns', 'id,segments', '-o', 'out.parquet'),
    {
      name: 'stdin to stdout',
      commands: [
        { args: [...noPolicy], stdin: 'inputs/chains.jsonl', stdout: 'out.jsonl' },
        { args: [...noPolicy, '-o', '-'], stdin: 'inputs/chains.jsonl', stdout: 'out.arrows' },
        { args: [...noPolicy, '-o', '-'], stdin: 'inputs/chains.arrow', stdout: 'columnar.arrows' },
        {
          args: ['score', ...few, '-o', '-', '--format', 'jsonl'],
          stdin: 'inputs/text.jsonl',
          stdout: 'scored.jsonl',
        },
      ],
    },
  ];
}

/** Fixtures of Arrow and Parquet, the presets' dumps, and the dumps of --data. */
function fileCases(files, quick) {
  const columnar = files.filter(
    ({ name }) => /\.(arrows?|parquet)$/.test(name) && !name.startsWith('chains.'),
  );
  const presets = files.filter(
    ({ name, dump }) =>
      !dump && /\.jsonl$/.test(name) && !/^(chains|text|hurt|few|part)\.|\.join\./.test(name),
  );
  const joined = (name) => files.find((file) => file.name === name.replace('.jsonl', '.join.jsonl'))?.name;
  return [
    ...columnar.flatMap(({ name }) =>
      FORMATS.filter((format) => !quick || format === 'parquet').map((format) =>
        one(`${name} to ${format}`, 'segment', `inputs/${name}`, '--no-policy', '-o', `out.${format}`),
      ),
    ),
    ...(quick ? [] : presets).flatMap(({ name }) => {
      const join = joined(name) === undefined ? [] : ['--join', `inputs/${joined(name)}`];
      return [
        one(
          `preset ${name} segment`,
          'segment',
          `inputs/${name}`,
          ...join,
          '--no-policy',
          '-o',
          'out.parquet',
        ),
        one(`preset ${name} score`, 'score', `inputs/${name}`, ...join, '--limit', '6', '-o', 'out.jsonl'),
      ];
    }),
    ...files.filter(({ dump }) => dump).flatMap(({ name }) => dumpCases(name, quick)),
  ];
}

function dumpCases(name, quick) {
  const map = found(MAPS, name) === undefined ? [] : ['--map', found(MAPS, name)];
  const few = ['--limit', String(found(SCORED, name) ?? SCORED_OTHERS)];
  const segment = ['segment', `inputs/${name}`, ...map];
  if (quick) return [one(`${name} segment`, ...segment, '--no-policy', '-o', 'out.parquet')];
  return [
    ...FORMATS.map((format) =>
      one(`${name} segment ${format}`, ...segment, '--no-policy', '-o', `out.${format}`),
    ),
    ...FORMATS.map((format) =>
      sharded(`${name} run ${format}`, format, ['-o', `out.${format}`], ...segment, '--no-policy'),
    ),
    one(`${name} segment, policy`, ...segment, ...few, '-o', 'out.parquet'),
    ...(few[1] === '24' ? FORMATS : ['parquet']).map((format) =>
      one(`${name} score ${format}`, 'score', `inputs/${name}`, ...map, ...few, '-o', `out.${format}`),
    ),
  ];
}

/** All cases, the costly ones first. */
export function makeCases(files, quick) {
  return [...fixtureCases(quick), ...runCases(quick), ...inputCases(quick), ...fileCases(files, quick)];
}
