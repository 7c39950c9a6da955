// As damage.test.ts, with more rows and files: 1,000 files of each format with RREDCOT_TORTURE set.
import { describeDamage } from './damage.js';

describeDamage({ rows: 5000, files: process.env.RREDCOT_TORTURE === undefined ? 80 : 1000 });
