// Proposes paths for `--map` by the names that such columns have, where their values fit.

import { shellWord } from '../../printable.js';
import { type Columns, FIELDS, type Field, objectIn } from './fields.js';
import { isDialogue } from './messages.js';

interface ProposedPlace {
  readonly path: string;
  readonly name: string;
  readonly value: unknown;
  /** of a list, of whose items `value` is the first: how many these are */
  readonly length?: number | undefined;
}

/** What columns are called, without their case, `_` and `-`; the likelier names first. */
const NAMES: Partial<Record<Field, string>> = {
  completion: `completion fullresponse modelresponse response generatedsolution generatedtext generation modeloutput
    modelcompletion output prediction rollout trace cot chainofthought reasoning completions responses generations
    outputs predictions rollouts samples candidates resps text content message`,
  prompt: 'prompt question problem problemstatement instruction query userprompt input messages conversation',
  reference: `reference references groundtruth truth goldanswer goldenanswer referenceanswer gtanswer expectedanswer
    correctanswer finalanswer gold gts gt answer answers target expected solution`,
  reward: `reward iscorrect correct correctness accuracyreward accuracy acc score passed verified isright rewards scores
    corrects`,
  group: 'group groupid problemid questionid promptid uid',
};

const isText = (value: unknown): boolean => typeof value === 'string' && value !== '';
const isNumber = (value: unknown): boolean => typeof value === 'number' || typeof value === 'bigint';

const FITS: Partial<Record<Field, (value: unknown) => boolean>> = {
  completion: isText,
  prompt: (value) => isText(value) || isDialogue(value),
  reference: (value) =>
    isText(value) || isNumber(value) || (Array.isArray(value) && (isText(value[0]) || isNumber(value[0]))),
  reward: (value) => typeof value === 'boolean' || isNumber(value),
  group: (value) => isText(value) || isNumber(value),
};

/** Paths for `fields`, as far as names and values tell; those of one list go with the completion's, where that is known. */
export function proposePaths(
  columns: Columns,
  fields: readonly Field[],
  completion?: string,
): ReadonlyMap<Field, string> {
  const places = placesOf(columns);
  const proposed = new Map<Field, string>();
  let trace = places.find(({ path }) => path === completion);
  for (const field of ['completion', ...FIELDS] as const) {
    if (!fields.includes(field) || proposed.has(field)) continue;
    const fitting = places.filter((place) => goesWith(place, field, trace));
    const found = bestPlace(fitting, field);
    if (found === undefined) continue;
    proposed.set(field, found.path);
    if (field === 'completion') trace = found;
  }
  return proposed;
}

export function mapText(paths: ReadonlyMap<Field, string>): string | undefined {
  if (paths.size === 0) return undefined;
  return mapFlag(
    FIELDS.flatMap((field) => (paths.has(field) ? [`${field}=${paths.get(field)}`] : [])).join(','),
  );
}

/** A value of `--map` with the flag, as one copies it into a shell: brackets that match no file stay as they are. */
export function mapFlag(value: string): string {
  const bare = value.replaceAll(/[[\]]/g, '');
  return `--map ${shellWord(bare) === bare ? value : shellWord(value)}`;
}

/** Only a reward may differ between the traces of a list, and only within the list or beside it, item by item. */
function goesWith({ path, length }: ProposedPlace, field: Field, trace: ProposedPlace | undefined): boolean {
  if (field === 'completion') return !path.startsWith('prompt[');
  return length === undefined || (field === 'reward' && length === trace?.length);
}

function bestPlace(places: readonly ProposedPlace[], field: Field): ProposedPlace | undefined {
  const names = NAMES[field]?.split(/\s+/) ?? [];
  const fitting = places.filter(({ value }) => FITS[field]?.(value) === true);
  // a reward of the trace's own list comes before one of the row
  const isBehind = field === 'reward' && places.some(({ length }) => length !== undefined);
  const rank = ({ name, length }: ProposedPlace): number => {
    const at = names.indexOf(plain(name));
    // a solution that marks no answer is none; a reward function may have any name (TRL)
    if (at < 0) return field === 'reward' && /reward/i.test(name) ? names.length : Number.POSITIVE_INFINITY;
    return isBehind && length === undefined ? at + 0.5 : at;
  };
  // a reward of several parts, none of which is known
  const [part] = fitting.filter(({ path }) => path.startsWith(`${field}.`));
  const ranked = fitting.map((place) => ({ place, at: rank(place) })).filter(({ at }) => Number.isFinite(at));
  return ranked.sort((a, b) => a.at - b.at)[0]?.place ?? part;
}

const plain = (name: string): string => name.toLowerCase().replaceAll(/[_\-\s]/g, '');

/** Columns, the keys of objects in them, and lists' items and their keys. */
function placesOf(columns: Columns): ProposedPlace[] {
  return keysOf('', columns).flatMap((column) => {
    const { path, name, value } = column;
    if (!Array.isArray(value)) return [column, ...keysOf(`${path}.`, value)];
    const { length, 0: first } = value;
    const inner = Array.isArray(first)
      ? [{ path: `${path}[0][]`, name, value: first[0], length: first.length }]
      : [];
    const items = { path: `${path}[]`, name, value: first, length };
    return [column, items, ...inner, ...keysOf(`${path}[].`, first, length)];
  });
}

/** The values of an object, but of names that `--map` would take apart. */
function keysOf(before: string, found: unknown, length?: number): ProposedPlace[] {
  const value = typeof found === 'string' ? objectIn(found) : found;
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [];
  const spellable = Object.entries(value).filter(([name]) => !/[,=|[\]]|^$/.test(name));
  return spellable.map(([name, item]) => ({ path: before + name, name, value: item, length }));
}
