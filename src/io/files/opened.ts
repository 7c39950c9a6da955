// Files that are read, on this machine or in an object store: what both are asked for, and who has it by the path.
import { open, stat } from 'node:fs/promises';
import type { ObjectFacts, ObjectVersion } from '../store/object.js';

/** What is known of what a path names. @property version of an object */
export type FileFacts = Omit<ObjectFacts, 'version'> & Partial<Pick<ObjectFacts, 'version'>>;

/** An open file: Node's own handle, or an object. */
export interface OpenFile extends AsyncDisposable {
  stat(): Promise<FileFacts>;
  read<T extends Uint8Array>(
    buffer: T,
    offset: number,
    length: number,
    position: number,
  ): Promise<{ readonly bytesRead: number; readonly buffer: T }>;
  close(): Promise<void>;
}

/** Whether a path is the address of objects that are opened. Nothing else makes the program open a connection. */
export function isStored(path: string): boolean {
  return /^(s3:\/\/|hf:\/\/datasets\/)/i.test(path);
}

// what speaks to a store is loaded for such a path alone
const objects = () => import('../store/object.js');

/** Opens what is read at places in it. @param version of an object, where it was looked at before */
export async function openFile(path: string, version?: ObjectVersion): Promise<OpenFile> {
  return isStored(path) ? (await objects()).StoredObject.open(path, version) : open(path, 'r');
}

/** What is there. @throws Error of the file system where nothing is, of an object one with its code */
export async function factsOf(path: string): Promise<FileFacts> {
  if (!isStored(path)) return stat(path);
  const { lookAtObject, noObject } = await objects();
  const found = await lookAtObject(path);
  if (found === null) throw noObject(path);
  return found;
}

/** An object from its beginning to its end. */
export async function* objectBytes(path: string): AsyncGenerator<Buffer> {
  await using object = await (await objects()).StoredObject.open(path);
  yield* object.bytes();
}

/** The addresses that begin with one, sorted. */
export async function listObjects(prefix: string): Promise<string[]> {
  return (await objects()).listObjects(prefix);
}
