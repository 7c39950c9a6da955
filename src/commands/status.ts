// `rredcot status`: what of a run is done and what is missing, while it is under way or after it has died.
import { EXIT, type ExitCode } from '../errors.js';
import { shardName } from '../io/files/chunks.js';
import { partText } from '../io/write/part.js';
import { are, count, plural } from '../plural.js';
import { escapeControls, printableJson } from '../printable.js';
import { sumFigures } from '../report/figures.js';
import { duration } from '../report/progress.js';
import { figureLines, figureRecord } from '../report/run-figures.js';
import { sumCounts } from '../run/records.js';
import { hiddenFolders } from '../run/remove.js';
import { locateRun, type RunState, readRunState, type ShardState } from '../run/state.js';

/**
 * Tells a run's state on stdout.
 * @param print takes one line
 */
export async function status(
  out: string,
  { json }: { readonly json: boolean },
  print: (line: string) => void,
): Promise<ExitCode> {
  const folder = await locateRun(out);
  if (folder === undefined) {
    // a single file appears when it is whole, and its run folder goes away with that
    print(
      json
        ? printableJson(JSON.stringify({ output: out, finished: true }))
        : `${out}: a file, and no run is under way`,
    );
    return EXIT.done;
  }
  const state = await readRunState(folder);
  const others = (await hiddenFolders(out)).filter((each) => each !== folder);
  if (json) print(printableJson(JSON.stringify({ ...statusRecord(out, state), others })));
  else for (const line of statusLines(out, state, Date.now())) print(line);
  if (json) return EXIT.done;
  for (const other of others)
    print(
      escapeControls(`${other}: of another run of this output; --overwrite with the next one removes it`),
    );
  return EXIT.done;
}

/** The state for programs; names as in the run folder's own records. */
function statusRecord(out: string, state: RunState): Record<string, unknown> {
  const { description, shards } = state;
  return {
    output: out,
    folder: state.folder,
    command: description.command,
    format: description.output,
    rows_per_chunk: description.rows_per_chunk,
    finished: state.isFinished,
    success: state.hasSuccess,
    part: state.part ?? null,
    warnings: state.warnings,
    input_rows: state.rows,
    ...sumCounts(shards.map(({ counts }) => counts)),
    ...figureRecord(sumFigures(shards.map(({ figures }) => figures))),
    chunks: shards.reduce((sum, { chunks }) => sum + chunks, 0),
    chunks_expected: total(shards),
    shards: shards.map(({ shard, isDone, chunks, counts, expected, missing, updatedMs }) => ({
      shard: shard.index,
      done: isDone,
      chunks,
      chunks_expected: expected,
      missing,
      ...counts,
      updated: updatedMs === null ? null : new Date(updatedMs).toISOString(),
    })),
  };
}

const HEADINGS = ['shard', 'chunks', 'rows', 'traces', 'rejects', 'tokens', 'state'] as const;
/** more chunk numbers than this are cut short */
const MAX_NUMBERS = 8;

/** The state for people: a table of shards, their sum, and what is missing. */
function statusLines(out: string, state: RunState, nowMs: number): string[] {
  const { description, shards } = state;
  const table: (readonly string[])[] = [HEADINGS, ...shards.map((shard) => tableRow(shard, nowMs))];
  if (shards.length > 1) {
    const sum = sumCounts(shards.map(({ counts }) => counts));
    const done = shards.reduce((n, { chunks }) => n + chunks, 0);
    table.push(['all', doneOfAll(done, total(shards)), ...figures(sum), '']);
  }
  const widths = HEADINGS.map((_, n) => Math.max(...table.map((row) => row[n]?.length ?? 0)));
  const aligned = (cell: string, n: number) => {
    const isText = n === 0 || n === HEADINGS.length - 1;
    return isText ? cell.padEnd(widths[n] as number) : cell.padStart(widths[n] as number);
  };
  const lines = table.map((row) => row.map(aligned).join('  ').trimEnd());
  const unfinished = shards.filter(({ isDone, missing }) => !isDone || missing.length > 0);
  const rows = state.rows === null ? '' : `, ${plural(state.rows, 'input row')}`;
  lines.unshift(
    `${out}: ${description.command} to ${description.output}${rows}, ${plural(description.rows_per_chunk, 'row')} a chunk`,
  );
  lines.push(...figureLines(sumFigures(shards.map(({ figures }) => figures))));
  for (const { code, message } of state.warnings) lines.push(escapeControls(`${code}: ${message}`));
  // what is missing of a run is told below
  if (state.isFinished && state.part !== undefined)
    lines.push(`part: the run ${partText(state.part)}, so that groups may lack traces`);
  for (const { shard, missing } of unfinished.filter(({ missing }) => missing.length > 0))
    lines.push(`missing in ${shardName(shard)}: ${ranges(missing)}`);
  lines.push(closingLine(state, unfinished.length));
  return lines;
}

function closingLine({ hasSuccess, shards }: RunState, unfinished: number): string {
  if (unfinished > 0)
    return `not finished: ${unfinished} of ${plural(shards.length, 'shard')} ${are(unfinished)} not done; the same command again goes on`;
  return hasSuccess ? 'finished (_SUCCESS)' : 'every shard is done, but _SUCCESS is not there';
}

function tableRow(
  { shard, isDone, chunks, counts, expected, missing, updatedMs }: ShardState,
  nowMs: number,
) {
  const age =
    updatedMs === null ? '' : `, last record ${duration(Math.max(0, nowMs - updatedMs) / 1000)} ago`;
  const state = isDone
    ? missing.length === 0
      ? 'done'
      : 'done, files are gone'
    : chunks === 0
      ? 'not begun, or in its first chunk'
      : `begun${age}`;
  return [shardName(shard), doneOfAll(chunks, expected), ...figures(counts), state];
}

function figures({ rows, traces, rejects, tokens }: ReturnType<typeof sumCounts>): string[] {
  return [rows, traces, rejects, tokens].map(count);
}

function doneOfAll(done: number, expected: number | null): string {
  return `${done}/${expected ?? '?'}`;
}

function total(shards: readonly ShardState[]): number | null {
  const all = shards.map(({ expected }) => expected);
  return all.includes(null) ? null : all.reduce<number>((sum, expected) => sum + Number(expected), 0);
}

/** Chunk numbers in order as people write them: 0–3, 7, 9–12, … */
export function ranges(numbers: readonly number[]): string {
  const parts: string[] = [];
  for (let from = 0, to = 0; from < numbers.length; from = ++to) {
    while (numbers[to + 1] === (numbers[to] as number) + 1) to++;
    parts.push(from === to ? `${numbers[from]}` : `${numbers[from]}–${numbers[to]}`);
  }
  return parts.length <= MAX_NUMBERS
    ? parts.join(', ')
    : `${parts.slice(0, MAX_NUMBERS).join(', ')}, … (${count(numbers.length)} chunks)`;
}
