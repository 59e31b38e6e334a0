// Builds the component for `latchmail module dev`. The sources of a module are only in the memory
// of the JavaScript engine. So after a change of a source, this code runs the sources in the engine
// again, and replaces the memory in the component of the first build. All other changes take a
// complete build.

import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';

const FOLDER = resolve('build/live');
const COMPONENT = `${FOLDER}/component`;
const FIRST_BUILD = `${FOLDER}/first-build.json`;

// The files that change more than the memory.
const OTHERS = ['build.js', 'latchmail/live.js', 'package.json', 'package-lock.json', 'wit/world.wit'];

// The ids of the sections with the memory: its size, global variables, data and the number of
// segments of the data (WebAssembly 2.0, section 5.5).
const MEMORY = [5, 6, 11, 12];
const CORE_MODULE = 1;

// Writes the component with these options of `componentize` to the file `output`.
export async function buildLive(options, output) {
  const others = createHash('sha256');
  OTHERS.forEach((file) => others.update(readFileSync(file)));
  const digest = others.digest('hex');
  const first = existsSync(FIRST_BUILD) ? JSON.parse(readFileSync(FIRST_BUILD, 'utf8')) : {};
  const component = first.others === digest ? runAgain(first) : await build(options, digest);
  writeFileSync(output, component);
}

// Runs the sources in the engine again, and returns the component.
function runAgain({ program, args, env, input }) {
  const { status } = spawnSync(program, args, { env, input, stdio: ['pipe', 2, 2] });
  if (status !== 0) {
    process.exit(1);
  }
  return withMemory(readFileSync(COMPONENT), readFileSync(`${FOLDER}/work/out.wasm`));
}

// Builds the component completely, and stores how the sources were run in the engine.
async function build(options, others) {
  const { default: program } = await import('@bytecodealliance/wizer');
  const { componentize } = await import('@bytecodealliance/componentize-js');
  rmSync(FOLDER, { recursive: true, force: true });
  mkdirSync(FOLDER, { recursive: true });
  const recorder = `${FOLDER}/recorder.cjs`;
  // The second line runs Node.js in a shell, and is a text with a comment in JavaScript.
  const start = `#!/bin/sh\n":" //; exec '${process.execPath}' "$0" "$@"\n`;
  writeFileSync(recorder, `${start}(${record})('${program}', '${FOLDER}');\n`, { mode: 0o755 });
  const component = Buffer.from((await componentize({ ...options, wizerBin: recorder })).component);
  const { work, ...call } = JSON.parse(readFileSync(`${FOLDER}/call.json`, 'utf8'));
  // The tool has removed its folder; the copy has the same files.
  const copied = JSON.parse(JSON.stringify(call).replaceAll(work, `${FOLDER}/work`));
  if (withMemory(component, readFileSync(`${FOLDER}/work/out.wasm`)).equals(component)) {
    writeFileSync(COMPONENT, component);
    writeFileSync(FIRST_BUILD, JSON.stringify({ others, program, ...copied }));
  }
  return component;
}

// A program of its own: runs wizer, and stores its arguments and its files. componentize-js calls
// this program instead of wizer.
function record(program, folder) {
  const { spawnSync } = require('node:child_process');
  const { cpSync, readFileSync, writeFileSync } = require('node:fs');
  const args = process.argv.slice(2);
  const input = readFileSync(0, 'utf8');
  const { status } = spawnSync(program, args, { input, stdio: ['pipe', 'inherit', 'inherit'] });
  // The last argument is the engine, in the folder of the tool.
  const work = require('node:path').dirname(args.at(-1));
  cpSync(work, `${folder}/work`, { recursive: true });
  writeFileSync(`${folder}/call.json`, JSON.stringify({ work, args, env: process.env, input }));
  process.exitCode = status ?? 1;
}

// Returns the component with the memory of another version of its first core module.
function withMemory(component, other) {
  const memory = new Map([...sections(other)].filter(([id]) => MEMORY.includes(id)));
  let isFirst = true;
  return replaced(component, (id, content) => {
    if (id !== CORE_MODULE || !isFirst) {
      return content;
    }
    isFirst = false;
    return replaced(content, (id, content) => memory.get(id) ?? content);
  });
}

// Returns a module or a component with other contents of its sections.
function replaced(bytes, replace) {
  const parts = [bytes.subarray(0, 8)];
  for (const [id, content] of sections(bytes)) {
    const replacement = replace(id, content);
    parts.push(Buffer.from([id, ...leb128(replacement.length)]), replacement);
  }
  return Buffer.concat(parts);
}

// Returns the sections of a module or a component: pairs of an id and a content.
function* sections(bytes) {
  for (let at = 8; at < bytes.length; ) {
    const id = bytes[at++];
    let length = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = bytes[at++];
      length += (byte % 128) * factor;
      if (byte < 128) {
        break;
      }
    }
    yield [id, bytes.subarray(at, at + length)];
    at += length;
  }
}

function leb128(value) {
  return value < 128 ? [value] : [128 + (value % 128), ...leb128(Math.floor(value / 128))];
}
