// As kill.test.ts, with more rounds.
import { vi } from 'vitest';

vi.stubEnv('RREDCOT_TORTURE', process.env.RREDCOT_TORTURE ?? '25');
await import('./kill.test.js');
