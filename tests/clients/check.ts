// Checks each response against the API description: its status, its media type, its required
// headers and its body's schema. Also counts the operations that were called, so that a tour can
// name those that it left out.

import { readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import type { AnySchemaObject } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import type { Middleware } from 'openapi-fetch';

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- the description is data
type Json = any;

const description: Json = JSON.parse(readFileSync('openapi.json', 'utf8'));
const ajv = new Ajv2020({ strict: false, allErrors: true });
formats.default(ajv);
const called = new Set<string>();

const resolved = (value: Json): Json =>
    value?.$ref ? value.$ref.slice(2).split('/').reduce((at: Json, step: string) => at[step], description) : value;

const conforms = (what: string, schema: AnySchemaObject, value: unknown): void => {
    const validate = ajv.compile({ ...schema, components: description.components });
    if (!validate(value)) {
        throw new Error(`${what}: ${ajv.errorsText(validate.errors)}: ${JSON.stringify(value)}`);
    }
};

export const check: Middleware = {
    async onResponse({ request, response, schemaPath }) {
        const operation = description.paths[schemaPath][request.method.toLowerCase()];
        const what = `${operation.operationId} ${response.status}`;
        const described = resolved(operation.responses[response.status]);
        if (!described) throw new Error(`${what} is not described: ${await response.text()}`);
        called.add(operation.operationId);
        for (const [name, header] of Object.entries<Json>(described.headers ?? {})) {
            const value = response.headers.get(name);
            if (value === null && resolved(header).required) throw new Error(`${what} lacks the header ${name}`);
        }
        const media = response.headers.get('content-type')?.split(';')[0];
        const body = media && described.content?.[media];
        if (media ? !body : described.content) throw new Error(`${what} has the media type ${media}`);
        if (media === 'application/json' && body) conforms(what, body.schema, await response.clone().json());
    },
};

export const notCalled = (): string[] =>
    Object.values<Json>(description.paths)
        .flatMap((item) => Object.values<Json>(item))
        .map((operation) => operation.operationId)
        .filter((id) => !called.has(id));
