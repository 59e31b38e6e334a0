/** The signatures of webhooks (Standard Webhooks), for receivers in Node.js. */

import { createHmac, timingSafeEqual } from 'node:crypto';

/** The signature of a webhook is missing or wrong, or its time is too old. */
export class WebhookError extends Error {
    override readonly name = 'WebhookError';
}

/** The headers of a request, in the form of `node:http` or of `fetch`. */
export type WebhookHeaders = Headers | Record<string, string | string[] | undefined>;

/**
 * Checks the signature of a request, and returns the event. `body` is the body as it arrived.
 * `tolerance` is the maximum difference to the time of the signature, in seconds.
 */
export function verifyWebhook<T = unknown>(
    body: string | Uint8Array,
    headers: WebhookHeaders,
    secret: string,
    tolerance = 300,
): T {
    const header = (name: string): string => {
        const value = headers instanceof Headers ? headers.get(name) : headers[name];
        if (typeof value !== 'string' || value === '') throw new WebhookError(`the header ${name} is missing`);
        return value;
    };
    const [id, timestamp, signatures] = [header('webhook-id'), header('webhook-timestamp'), header('webhook-signature')];
    const age = Math.abs(Date.now() / 1000 - Number(timestamp));
    if (!(age <= tolerance)) throw new WebhookError('the time of the signature is out of range');
    const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
    const hmac = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body);
    const expected = Buffer.from(hmac.digest('base64'));
    const matches = signatures.split(' ').some((signature) => {
        const [version, value = ''] = signature.split(',');
        const given = Buffer.from(value);
        return version === 'v1' && given.length === expected.length && timingSafeEqual(given, expected);
    });
    if (!matches) throw new WebhookError('no signature matches');
    return JSON.parse(Buffer.from(body).toString('utf8')) as T;
}
