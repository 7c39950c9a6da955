// As damage.test.ts, with more rows and files.
import { vi } from 'vitest';

vi.stubEnv('RREDCOT_TORTURE', process.env.RREDCOT_TORTURE === undefined ? '80' : '1000');
await import('./damage.test.js');
