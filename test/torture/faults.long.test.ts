// As faults.test.ts, with more calls of each format.
import { vi } from 'vitest';

vi.stubEnv('RREDCOT_TORTURE', process.env.RREDCOT_TORTURE ?? '25');
await import('./faults.test.js');
