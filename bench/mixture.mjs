// `node bench/mixture.mjs [folder]`: builds a policy of a made-up mixture of 8 GB, which is sparse on disk, and prints time and memory. Takes 8 GB of disk
// while it runs, and leaves none.
import { spawn } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
/** Layers of Qwen3-30B-A3B, of which there are 48. */
const [LAYERS, D, INNER, EXPERTS, VOCAB] = [6, 2048, 768, 128, 32_768];
const config = {
  architectures: ['Qwen3MoeForCausalLM'],
  ...{ num_hidden_layers: LAYERS, hidden_size: D, intermediate_size: 6144, moe_intermediate_size: INNER },
  ...{ num_experts: EXPERTS, num_experts_per_tok: 8, norm_topk_prob: true, vocab_size: VOCAB },
  ...{ num_attention_heads: 32, num_key_value_heads: 4, head_dim: 128, rms_norm_eps: 1e-6 },
  ...{ max_position_embeddings: 40_960, rope_theta: 1e6, tie_word_embeddings: false },
};

function* tensors() {
  yield ['model.embed_tokens.weight', [VOCAB, D]];
  yield ['lm_head.weight', [VOCAB, D]];
  yield ['model.norm.weight', [D]];
  for (let i = 0; i < LAYERS; i++) {
    const at = `model.layers.${i}`;
    for (const norm of ['input', 'post_attention']) yield [`${at}.${norm}_layernorm.weight`, [D]];
    for (const norm of ['q', 'k']) yield [`${at}.self_attn.${norm}_norm.weight`, [128]];
    yield [`${at}.self_attn.q_proj.weight`, [4096, D]];
    for (const kind of ['k', 'v']) yield [`${at}.self_attn.${kind}_proj.weight`, [512, D]];
    yield [`${at}.self_attn.o_proj.weight`, [D, 4096]];
    yield [`${at}.mlp.gate.weight`, [EXPERTS, D]];
    for (let e = 0; e < EXPERTS; e++) {
      for (const kind of ['gate', 'up']) yield [`${at}.mlp.experts.${e}.${kind}_proj.weight`, [INNER, D]];
      yield [`${at}.mlp.experts.${e}.down_proj.weight`, [D, INNER]];
    }
  }
}

/** Holes for the experts; routers, norms and the rest have numbers, so that every expert gets its tokens. */
async function writeSparse(path) {
  const [header, filled] = [{}, []];
  let end = 0;
  for (const [name, shape] of tensors()) {
    const length = 2 * shape.reduce((a, b) => a * b, 1);
    header[name] = { dtype: 'BF16', shape, data_offsets: [end, end + length] };
    if (!name.includes('.experts.')) filled.push([end, length, name.includes('norm')]);
    end += length;
  }
  const text = Buffer.from(JSON.stringify(header));
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(text.length));
  const file = await open(path, 'w');
  await file.write(size);
  await file.write(text);
  for (const [at, length, isNorm] of filled) {
    const halves = Uint16Array.from({ length: length / 2 }, () =>
      isNorm ? 0x3f80 : 0x3c00 + Math.floor(Math.random() * 2) * 0x8000 + Math.floor(Math.random() * 128),
    );
    await file.write(new Uint8Array(halves.buffer), 0, length, 8 + text.length + at);
  }
  await file.truncate(8 + text.length + end);
  await file.close();
  return end;
}

const MEMORY = ['VmHWM', 'RssAnon', 'RssFile'];
const home = mkdtempSync(join(process.argv[2] ?? tmpdir(), 'rredcot-mixture-'));
try {
  const bytes = await writeSparse(join(home, 'model.safetensors'));
  writeFileSync(join(home, 'config.json'), JSON.stringify(config));
  for (const name of ['tokenizer.json', 'tokenizer_config.json'])
    copyFileSync(join(ROOT, 'models/embedded', name), join(home, name));
  writeFileSync(join(home, 'exit.json'), JSON.stringify({ close: '\n', open: '', closer: '.' }));
  const started = performance.now();
  const line = [
    'policy',
    'build',
    home,
    '-o',
    join(home, 'policy'),
    '--exit-template',
    join(home, 'exit.json'),
  ];
  const child = spawn(process.execPath, [join(ROOT, 'bin/rredcot.js'), ...line], { stdio: 'inherit' });
  const most = Object.fromEntries(MEMORY.map((key) => [key, 0]));
  const sample = setInterval(() => {
    try {
      const status = readFileSync(`/proc/${child.pid}/status`, 'utf8');
      for (const key of MEMORY)
        most[key] = Math.max(most[key], Number(status.match(`${key}:\\s*(\\d+)`)?.[1] ?? 0));
    } catch {} // it has ended
  }, 50);
  const code = await new Promise((resolve) => child.on('close', resolve));
  clearInterval(sample);
  const built = code === 0 ? statSync(join(home, 'policy/model.safetensors')).size : 0;
  const mebibytes = Object.fromEntries(
    Object.entries(most).map(([key, kib]) => [key, Math.round(kib / 1024)]),
  );
  console.log(
    JSON.stringify({
      code,
      gigabytes: bytes / 1e9,
      written: built / 1e9,
      seconds: (performance.now() - started) / 1e3,
      mebibytes,
    }),
  );
} finally {
  rmSync(home, { recursive: true, force: true });
}
