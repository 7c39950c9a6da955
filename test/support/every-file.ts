// What vitest runs before every test file: test files share their modules, and each one leaves nothing behind.
import { afterAll } from 'vitest';
import { removeTemporaryFolders } from './temporary-folder.js';

// as the first hook it runs last
afterAll(removeTemporaryFolders);
