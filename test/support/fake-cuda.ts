/**
 * CUDA libraries that compute nothing: enough for ONNX Runtime's real CUDA provider to be loaded, to choose a kernel for
 * every node and to go through a run, on a machine without a GPU. Memory is the host's, copies are copies, kernels are
 * not run. Each copy from the device, for which the host has to wait, is a byte more in the file that FAKE_CUDA_READS names. Needs `readelf` and `cc`; made for the provider of onnxruntime 1.29.0, which is linked to CUDA 13.
 */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

const LIBRARIES = [
  'libcuda.so.1',
  'libcudart.so.13',
  'libcublas.so.13',
  'libcublasLt.so.13',
  'libcurand.so.10',
];

/** Functions that hand out an object: any piece of memory will do. */
const HANDLES = new Set([
  ...['cublasCreate_v2', 'cublasLtCreate', 'cublasLtMatmulDescCreate', 'cublasLtMatmulPreferenceCreate'],
  ...['cublasLtMatrixLayoutCreate', 'cublasLtMatrixTransformDescCreate'],
  ...['cudaEventCreate', 'cudaEventCreateWithFlags', 'cudaStreamCreate', 'cudaStreamCreateWithFlags'],
  ...[
    'cudaMemPoolCreate',
    'cudaGraphInstantiate',
    'cudaLibraryLoadData',
    'cudaLibraryGetKernel',
    '__cudaGetKernel',
  ],
]);

/** Functions whose answer matters: memory, copies, and what a GPU of compute capability 9.0 says of itself. */
const ANSWERS: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    ['cudaMalloc', 'cudaMallocHost', 'cudaHostAlloc', 'cudaMallocFromPoolAsync'].map((name) => [
      name,
      '(void **p, size_t n) { *p = calloc(1, n + 256); return 0; }',
    ]),
  ),
  ...Object.fromEntries(
    ['cudaMemcpy', 'cudaMemcpyAsync'].map((name) => [
      name,
      '(void *to, const void *from, size_t n, int kind) { if (kind == 2) was_read(); memmove(to, from, n); return 0; }',
    ]),
  ),
  ...Object.fromEntries(
    ['cudaMemset', 'cudaMemsetAsync'].map((name) => [
      name,
      '(void *to, int value, size_t n) { memset(to, value, n); return 0; }',
    ]),
  ),
  ...Object.fromEntries(
    ['cudaGetErrorString', 'cudaGetErrorName', 'cublasGetStatusString', 'cublasGetStatusName'].map((name) => [
      name,
      '() { return (long)"none"; }',
    ]),
  ),
  // any function of the driver that is asked for by name
  cudaGetDriverEntryPointByVersion:
    '(char *name, void **f, int version, long flags, int *status) { *f = none; if (status) *status = 0; return 0; }',
  cudaMemGetInfo: '(size_t *left, size_t *total) { *left = *total = (size_t)8 << 30; return 0; }',
  cudaGetDevice: '(int *device) { *device = 0; return 0; }',
  cudaGetDeviceCount: '(int *count) { *count = 1; return 0; }',
  cudaDriverGetVersion: '(int *version) { *version = 13000; return 0; }',
  cudaRuntimeGetVersion: '(int *version) { *version = 13000; return 0; }',
  cublasGetMathMode: '(void *handle, int *mode) { *mode = 0; return 0; }',
  cudaEventElapsedTime: '(float *ms) { *ms = 1; return 0; }',
  cudaStreamIsCapturing: '(void *stream, int *state) { *state = 0; return 0; }',
  // compute capability (75, 76), multiprocessors (16), shared memory a block may ask for (97)
  cudaDeviceGetAttribute:
    '(int *v, int a) { *v = a == 75 ? 9 : a == 76 ? 0 : a == 16 ? 108 : a == 97 ? 166912 : 1024; return 0; }',
  cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags: '(int *count) { *count = 2; return 0; }',
  cudaFuncGetAttributes: '(void *attributes) { memset(attributes, 0, 64); return 0; }',
  __cudaRegisterFatBinary: '() { static void *handle[4]; return (long)handle; }',
  __cudaPopCallConfiguration:
    '(unsigned *g, unsigned *b, size_t *s, void **t) { for (int i = 0; i < 3; i++) g[i] = b[i] = 1; *s = 0; *t = 0; return 0; }',
  // offsets in CUDA 13's cudaDeviceProp
  cudaGetDeviceProperties: `(char *p) {
    memset(p, 0, 1008); strcpy(p, "none"); *(size_t *)(p + 288) = (size_t)8 << 30; *(size_t *)(p + 296) = 49152;
    int at[] = {304, 308, 320, 324, 328, 332, 336, 340, 344, 360, 384, 604, 632};
    int is[] = {65536, 32, 1024, 1024, 1024, 64, 2147483647, 65535, 65535, 9, 108, 2048, 65536};
    for (int i = 0; i < 13; i++) *(int *)(p + at[i]) = is[i];
    *(size_t *)(p + 624) = 233472; *(size_t *)(p + 672) = 232448; return 0; }`,
};

/** What the functions call. */
const SHARED = `
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
long none() { return 0; }
static void was_read() {
  char *path = getenv("FAKE_CUDA_READS");
  if (!path) return;
  int file = open(path, O_WRONLY | O_APPEND | O_CREAT, 0644);
  write(file, "r", 1);
  close(file);
}
`;

/** Writes the libraries that a provider is linked to into a folder, for LD_LIBRARY_PATH. */
export function buildFakeCuda(provider: string, folder: string): void {
  const symbols = execFileSync('readelf', ['--dyn-syms', '-W', provider], {
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
  });
  for (const library of LIBRARIES) {
    const names = [...symbols.matchAll(/ UND (\w+)@(\S+)/g)].flatMap(([, name, from]) =>
      from === library ? [name as string] : [],
    );
    const bodies = names.map((name) => {
      const own = HANDLES.has(name)
        ? '(void **handle) { *handle = calloc(1, 4096); return 0; }'
        : ANSWERS[name];
      return `long ${name}${own ?? '() { return 0; }'}`;
    });
    const [source, versions] = [join(folder, `${library}.c`), join(folder, `${library}.map`)];
    writeFileSync(source, `${SHARED}${bodies.join('\n')}\n`);
    writeFileSync(versions, `${library} { global: *; };\n`);
    const flags = [
      '-w',
      '-shared',
      '-fPIC',
      '-fno-builtin',
      '-std=gnu11',
      `-Wl,--version-script=${versions}`,
    ];
    execFileSync('cc', [...flags, `-Wl,-soname,${library}`, '-o', join(folder, library), source]);
  }
}
