// A training run's log: what it was started with, its looks at held-out problems, its steps, what the tool warned of.

export function readLog(text) {
  const records = text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
  return {
    arguments: records[0].arguments,
    looks: records.filter((record) => 'held_out' in record),
    steps: records.filter((record) => 'reward' in record),
    warnings: records.find((record) => 'warnings' in record)?.warnings ?? [],
  };
}
