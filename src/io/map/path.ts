// Paths into a row, as `--map` spells them: `answer`, `problem.gt_answer`, `steps[0]`, `generations[].text`.

/** A row's columns, or an object inside of them. */
export type Columns = Readonly<Record<string, unknown>>;

/** A path, split where its `[]` explodes a list into several traces. */
export interface FieldPath {
  /** as the user wrote it */
  readonly text: string;
  /** from the row to the value, or to the list where the path explodes one */
  readonly head: Steps;
  /** from the list's item to the value; absent where the path has no `[]` */
  readonly tail?: Steps;
}

// at each place in the path, the keys that may be tried there, longest first: a literal key that holds
// dots or brackets wins over the way through nested values
type Steps = readonly (readonly PathStep[])[];

interface PathStep {
  readonly key: string;
  readonly indices: readonly number[];
  /** the place in the path to go on from */
  readonly next: number;
}

/** A path's value in a row, or that it is not there. */
export type Found = { readonly value: unknown } | null;

/** What a path leads to: one value, or one for each item of a list. */
export type Resolved =
  | { readonly kind: 'missing' }
  | { readonly kind: 'one'; readonly value: unknown }
  | { readonly kind: 'each'; readonly items: readonly Found[] }
  | { readonly kind: 'no list'; readonly value: unknown };

/**
 * Parses a path.
 * @throws SyntaxError where it is malformed
 */
export function parsePath(text: string): FieldPath {
  const [head = '', tail, ...more] = text.split('[]');
  if (more.length > 0) throw new SyntaxError('more than one []');
  if (tail !== undefined && tail !== '' && !tail.startsWith('.'))
    throw new SyntaxError('expected . after []');
  return {
    text,
    head: parseSteps(head),
    ...(tail === undefined ? {} : { tail: tail === '' ? [] : parseSteps(tail.slice(1)) }),
  };
}

function parseSteps(text: string): Steps {
  const parts = text.split('.').map((part) => {
    const match = /^([^[\]]+)((?:\[\d+\])*)$/.exec(part);
    if (match === null) throw new SyntaxError(part === '' ? 'an empty part' : `"${part}"`);
    const indices = Array.from((match[2] as string).matchAll(/\d+/g), (digits) => Number(digits[0]));
    return { part, key: match[1] as string, indices };
  });
  return parts.map((_, from) => {
    const steps: PathStep[] = [];
    for (let next = parts.length; next > from; next--) {
      const { part, key, indices } = parts[next - 1] as (typeof parts)[number];
      const before = parts.slice(from, next - 1).map((each) => `${each.part}.`);
      if (indices.length > 0) steps.push({ key: [...before, part].join(''), indices: [], next });
      steps.push({ key: [...before, key].join(''), indices, next });
    }
    return steps;
  });
}

/** Follows a path through a row. */
export function resolvePath(row: Readonly<Record<string, unknown>>, path: FieldPath): Resolved {
  if (Object.hasOwn(row, path.text)) return { kind: 'one', value: row[path.text] };
  const found = follow(row, path.head);
  if (found === null) return { kind: 'missing' };
  const { tail } = path;
  if (tail === undefined) return { kind: 'one', value: found.value };
  if (!Array.isArray(found.value)) return { kind: 'no list', value: found.value };
  return { kind: 'each', items: found.value.map((item) => follow(item, tail)) };
}

function follow(start: unknown, steps: Steps): Found {
  let value = start;
  for (let at = 0; at < steps.length; ) {
    const from = value;
    if (typeof from !== 'object' || from === null || Array.isArray(from)) return null;
    const step = (steps[at] as readonly PathStep[]).find(({ key }) => Object.hasOwn(from, key));
    if (step === undefined) return null;
    value = (from as Record<string, unknown>)[step.key];
    for (const index of step.indices) {
      if (!Array.isArray(value) || index >= value.length) return null;
      value = value[index];
    }
    at = step.next;
  }
  return { value };
}
