/** Reads a safetensors file of F32, F16 or BF16 tensors into float64 arrays, by name. */
import { readFileSync } from 'node:fs';

export interface Tensor {
  shape: number[];
  data: Float64Array; // row-major, (…shape)
}

type HeaderEntry = { dtype: string; shape: number[]; data_offsets: [number, number] };

export function readSafetensors(path: string): Map<string, Tensor> {
  const file = readFileSync(path);
  // 8 bytes of header length, the JSON header, then the tensors' bytes
  const headerLength = Number(file.readBigUInt64LE(0));
  const header = JSON.parse(file.toString('utf8', 8, 8 + headerLength)) as Record<string, HeaderEntry>;
  const tensors = new Map<string, Tensor>();
  for (const [name, { dtype, shape, data_offsets }] of Object.entries(header)) {
    if (name === '__metadata__') continue;
    const [begin, end] = data_offsets.map((offset) => 8 + headerLength + offset) as [number, number];
    const width = dtype === 'F32' ? 4 : 2;
    const data = new Float64Array((end - begin) / width);
    for (let i = 0; i < data.length; i++) {
      if (dtype === 'F32') data[i] = file.readFloatLE(begin + 4 * i);
      else if (dtype === 'F16') data[i] = half(file.readUInt16LE(begin + 2 * i));
      else if (dtype === 'BF16') data[i] = brain(file.readUInt16LE(begin + 2 * i));
      else throw new Error(`${path}: tensor ${name} is ${dtype}, the oracle reads F32, F16 and BF16`);
    }
    const size = shape.reduce((product, n) => product * n, 1);
    if (data.length !== size) {
      throw new Error(
        `${path}: tensor ${name} has ${data.length} numbers, its shape [${shape}] wants ${size}`,
      );
    }
    tensors.set(name, { shape, data });
  }
  return tensors;
}

/** IEEE 754 binary16: 1 sign, 5 exponent (bias 15), 10 fraction bits; weights are finite */
function half(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = (bits & 1023) / 1024;
  return sign * (exponent === 0 ? 2 ** -14 * fraction : 2 ** (exponent - 15) * (1 + fraction));
}

/** bfloat16: the upper half of a binary32 */
function brain(bits: number): number {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt16LE(bits, 2);
  return bytes.readFloatLE(0);
}
