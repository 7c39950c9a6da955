// Decides where each field of a trace is looked for, by `--map` and what is known of a file.
import { usageError } from '../../errors.js';
import { didYouMean } from '../../flag-values.js';
import {
  FIELDS,
  type Field,
  type FieldMap,
  type FieldPath,
  type FieldSource,
  type FieldSources,
  isEach,
  parsePath,
} from './sources.js';

/**
 * Parses the value of `--map`: `field=path,…`, where `a|b` is the first of two paths that is there.
 * @throws RredcotError for an unknown field, a field named twice or a malformed path
 */
export function parseFieldMap(spec: string | undefined): FieldMap {
  const mapped = new Map<Field, readonly FieldPath[]>();
  for (const entry of (spec ?? '').split(',')) {
    if (entry.trim() === '' && (spec ?? '').trim() === '') continue;
    const [, field, text] = /^\s*([^=\s]+)\s*=\s*(.+?)\s*$/.exec(entry) ?? [];
    if (field === undefined || text === undefined) refuseMap(`"${entry}" is not field=path`);
    if (!isField(field)) {
      const meant = meantEntry(field, text);
      refuseMap(`"${field}" is no field of a trace${meant === undefined ? '' : `, did you mean ${meant}?`}`);
    }
    if (mapped.has(field)) refuseMap(`field "${field}" is mapped twice`);
    try {
      mapped.set(field, text.split('|').map(parsePath));
    } catch (error) {
      refuseMap(`path "${text}" of field "${field}" is malformed: ${(error as Error).message}`);
    }
  }
  return withSources({ mapped }, []);
}

/** What an entry with an unknown field was meant to be: the field misspelled, or the two sides turned round. */
function meantEntry(field: string, text: string): string | undefined {
  const near = didYouMean(field, FIELDS);
  // `rewards=reward` names a column of that name, `rewrad=reward` the field itself
  const isTurned = isField(text) && (near !== text || field === `${text}s`);
  if (isTurned) return `${text}=${field}`;
  const known = ALIASES[field.toLowerCase()] ?? near;
  return known && `${known}=${text}`;
}

/**
 * Lets what is known of the file say where the fields are that `--map` did not name.
 * @param known what comes first counts
 */
export function withSources(
  { mapped, join }: Pick<FieldMap, 'mapped' | 'join'>,
  known: readonly FieldSources[],
): FieldMap {
  const completion = mapped.get('completion') ?? mapped.get('completion_ids');
  const isOthers = completion !== undefined;
  const explodes = completion?.some(isEach) === true;
  const defaults = new Map<Field, readonly FieldSource[]>();
  for (const field of FIELDS) {
    if (mapped.has(field)) continue;
    const sources = known
      .flatMap((fields) => fields.get(field) ?? [])
      // of a completion that the user found elsewhere the preset knows neither the segments nor the place in a list
      .filter(
        (source) =>
          !isOthers || !(field.startsWith('segment_') || field === 'values' || (isEach(source) && !explodes)),
      );
    defaults.set(field, sources.length > 0 ? sources : namesOf(field));
  }
  return { mapped, defaults, join };
}

/** Whether a row may hold several traces. */
export function explodes({ mapped, defaults }: FieldMap): boolean {
  return [...mapped.values(), ...defaults.values()].flat().some(isEach);
}

function namesOf(field: Field): readonly FieldPath[] {
  return (field === 'reference' ? ['reference', 'references', 'answer'] : [field]).map(parsePath);
}

/** What users call the fields. */
const ALIASES: Readonly<Record<string, Field>> = {
  ...{
    answer: 'reference',
    answers: 'reference',
    ground_truth: 'reference',
    gold: 'reference',
    target: 'reference',
  },
  ...{ response: 'completion', output: 'completion', generation: 'completion', text: 'completion' },
  ...{ question: 'prompt', problem: 'prompt', input: 'prompt', messages: 'prompt' },
  ...{ score: 'reward', correct: 'reward', is_correct: 'reward', group_id: 'group' },
};

function isField(name: string): name is Field {
  return (FIELDS as readonly string[]).includes(name);
}

function refuseMap(problem: string): never {
  throw usageError(
    `--map: ${problem}`,
    `--map prompt=question,completion=generations[].text; fields: ${FIELDS.join(', ')}`,
  );
}
