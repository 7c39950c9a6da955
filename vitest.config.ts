import { defineConfig } from 'vitest/config';

const report = process.env.RREDCOT_TEST_REPORT;

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // the machine has two cores and the policy's session uses both: test files run two at a time
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 120_000,
    ...(report ? { reporters: ['default', 'json'], outputFile: { json: report } } : {}),
  },
});
