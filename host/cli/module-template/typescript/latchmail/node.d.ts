// The parts of Node.js that the tests use. To use more, install the package `@types/node` and
// delete this file.

declare module 'node:test' {
  export function test(name: string, run: () => void | Promise<void>): void;
  export function test(name: string, options: { skip: boolean | string }, run: () => void | Promise<void>): void;
}

declare module 'node:assert/strict' {
  const assert: {
    equal(actual: unknown, expected: unknown, message?: string): void;
    deepEqual(actual: unknown, expected: unknown, message?: string): void;
    throws(run: () => unknown, expected?: unknown): void;
  };
  export default assert;
}

declare module 'node:fs' {
  export function readFileSync(file: string, encoding: 'utf8'): string;
}

declare const process: { env: Record<string, string | undefined> };
