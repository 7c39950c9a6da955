// Types of fs-hook.mjs, which is JavaScript because Node loads it before anything else.
export interface FsPlan {
  readonly under: string;
  readonly op: string;
  readonly path?: string;
  readonly nth: number;
  readonly code?: string;
  readonly every?: boolean;
  readonly when?: 'before' | 'after';
}
export function planFs(plan: FsPlan | null): void;
export function fsReport(): { calls: number; fired: boolean };
export function installFsHook(): Promise<void>;
export function recordFs(): [op: string, path: string][];
