// Uses the client package for TypeScript, as it is packed. `data.json` names the service.

import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { ApiError, Latchmail, paginate } from './package/dist/index.js';
import { verifyWebhook, WebhookError } from './package/dist/webhooks.js';

interface TestData {
    base: string;
    token: string;
    address: string;
    other: string;
}

const data: TestData = JSON.parse(readFileSync('data.json', 'utf8'));
const client = new Latchmail({ baseUrl: data.base, token: data.token });

const equal = (actual: unknown, expected: unknown): void => {
    const [left, right] = [JSON.stringify(actual), JSON.stringify(expected)];
    if (left !== right) throw new Error(`${left} instead of ${right}`);
};

const failure = async (answer: Promise<unknown>): Promise<ApiError> => {
    try {
        await answer;
    } catch (error) {
        if (error instanceof ApiError) return error;
        throw error;
    }
    throw new Error('no error');
};

const { folders } = await client.mail.listFolders();
equal(folders.some((folder) => folder.path === 'INBOX'), true);

// Events begin before the change.
const stop = new AbortController();
const events = client.events({ types: ['message.created'], signal: stop.signal });
const first = events.next();
await new Promise((resolve) => setTimeout(resolve, 1000));

// Pages.
for (let number = 0; number < 5; number += 1) {
    const letter = `Subject: Letter ${number}\r\n\r\nHello.\r\n`;
    await client.mail.importMessage({ folder: 'INBOX' }, letter);
}
equal((await first).value?.type, 'message.created');
stop.abort();
const subjects: string[] = [];
const listed = paginate((params) => client.mail.listMessages(params), 'messages', { folder: 'INBOX', limit: 2 });
for await (const message of listed) subjects.push(message.subject);
equal(subjects, [4, 3, 2, 1, 0].map((number) => `Letter ${number}`));

// Errors.
const missing = await failure(client.mail.getMessage({ uid: 999_999 }));
equal([missing.status, missing.code], [404, 'message_not_found']);

// A lost response is repeated with the same idempotency key.
let sent = 0;
const unreliable: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    sent += 1;
    if (sent === 1) throw new TypeError('lost');
    return response;
};
const other = new Latchmail({ baseUrl: data.base, token: data.token, fetch: unreliable });
const message = { from: data.address, to: data.other, subject: 'Once', text: 'x' };
const answer = await other.mail.sendMessage(message);
equal([sent, typeof answer], [2, 'object']);

// Bytes.
const newest = (await client.mail.listMessages({ folder: 'INBOX', limit: 1 })).messages[0];
const raw = await client.mail.getRawMessage({ uid: newest?.uid ?? 0 });
equal(new TextDecoder().decode(raw).startsWith('Subject: Letter'), true);

// Webhooks.
const secret = `whsec_${Buffer.alloc(24, 7).toString('base64')}`;
const timestamp = String(Math.floor(Date.now() / 1000));
const body = '{"type":"message.created"}';
const digest = createHmac('sha256', Buffer.alloc(24, 7)).update(`id.${timestamp}.${body}`).digest('base64');
const headers = { 'webhook-id': 'id', 'webhook-timestamp': timestamp, 'webhook-signature': `v1,AAAA v1,${digest}` };
equal(verifyWebhook<{ type: string }>(body, headers, secret).type, 'message.created');
for (const [text, of] of [
    [`${body} `, headers],
    [body, { ...headers, 'webhook-timestamp': '1' }],
    [body, { ...headers, 'webhook-signature': '' }],
] as const) {
    try {
        verifyWebhook(text, of, secret);
    } catch (error) {
        if (error instanceof WebhookError) continue;
        throw error;
    }
    throw new Error('a wrong signature was accepted');
}
