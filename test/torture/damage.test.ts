// Damaged rows and files; damage.long.test.ts has more of them.
import { describeDamage } from './damage.js';

describeDamage({ rows: 1000, files: 15 });
