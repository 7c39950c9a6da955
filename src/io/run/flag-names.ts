// Names the flags that set keys of the resolved configuration: a user knows what was typed.

/** Keys that are not called as their flag is. */
const OTHER_NAMES: Readonly<Record<string, string>> = {
  rule: '--sigma',
  chatTemplateArgs: '--chat-template-arg',
  weights: '--no-policy',
};

/** `maxSegments` → `--max-segments`, `rule` → `--sigma`. */
export function flagOfKey(key: string): string {
  return OTHER_NAMES[key] ?? `--${key.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

const FIELDS: Readonly<Record<string, string>> = {
  rows_per_chunk: '--rows-per-chunk',
  shards: 'the number of shards (--shard, --workers)',
  output: '--format',
};

/** How a field of run.json is called in a message. */
export function nameOfField(path: string): string {
  const [, key] = /^config\.([^.]+)/.exec(path) ?? [];
  const [, flag, own] = /^config\.(prover|prm|calibration)\.(?:files\.)?(.+)/.exec(path) ?? [];
  if (own !== undefined) return `--${flag} (${own})`;
  if (key !== undefined) return key === 'command' ? path : flagOfKey(key);
  return FIELDS[path] ?? (path.startsWith('policy.') ? `--policy (${path.slice('policy.'.length)})` : path);
}
