// Damaged rows and files; damage.long.test.ts has more of them.
import { describeDamage } from './damage.js';

describeDamage({ rows: 2000, files: 30 });
