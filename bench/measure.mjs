// Times alternatives in turn and compares medians: what else the machine does then falls on all of them alike.

/** Runs every alternative once to warm up, then `rounds` times in turn. @returns median milliseconds of each */
export async function interleaved(alternatives, rounds) {
  const times = Object.fromEntries(Object.keys(alternatives).map((name) => [name, []]));
  for (const run of Object.values(alternatives)) await run();
  for (let round = 0; round < rounds; round++)
    for (const [name, run] of Object.entries(alternatives)) {
      const start = performance.now();
      await run();
      times[name].push(performance.now() - start);
    }
  return Object.fromEntries(Object.entries(times).map(([name, list]) => [name, median(list)]));
}

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
