// A GPU in software: SwiftShader, a Vulkan device that Chromium ships, and the loader beside it.
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const DRIVER = 'libvk_swiftshader.so';
/** Debian's chromium-common has both files there; RREDCOT_SWIFTSHADER is another folder that does. */
const FOLDER = process.env.RREDCOT_SWIFTSHADER ?? '/usr/lib/chromium';

export const hasSwiftshader = [DRIVER, 'libvulkan.so.1'].every((name) => existsSync(join(FOLDER, name)));

/** The environment in which it is the one Vulkan device. @param scratch a folder to write into */
export function swiftshaderEnv(scratch: string): NodeJS.ProcessEnv {
  const [icd, runtime] = [join(scratch, 'icd.json'), join(scratch, 'runtime')];
  const driver = { library_path: join(FOLDER, DRIVER), api_version: '1.0.5' };
  writeFileSync(icd, JSON.stringify({ file_format_version: '1.0.0', ICD: driver }));
  mkdirSync(runtime, { recursive: true, mode: 0o700 });
  return {
    ...process.env,
    VK_DRIVER_FILES: icd,
    VK_ICD_FILENAMES: icd,
    XDG_RUNTIME_DIR: runtime,
    LD_LIBRARY_PATH: FOLDER,
  };
}
