// Calls every operation with the client that openapi-fetch derives from the API description. Each
// call succeeds, and `check` compares each response with the description. Types are checked with
// `tsc --strict`. `data.json` names the service and the accounts.

import { createHash, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import createClient from 'openapi-fetch';
import type { paths } from './api.ts';
import { check, notCalled } from './check.ts';

interface TestData {
    base: string;
    address: string;
    password: string;
    guest: string;
    admin: string;
    /** A domain that the account has claimed and proved. */
    domain: string;
    /** The component of a module that is not installed, and another version of it. */
    components: [string, string];
}

const data: TestData = JSON.parse(readFileSync('data.json', 'utf8'));

const clientOf = (token?: string) => {
    const headers: Record<string, string> = token ? { Authorization: `Bearer ${token}` } : {};
    const client = createClient<paths>({ baseUrl: data.base, headers });
    client.use(check);
    return client;
};

/** The data of a response that must be a success. */
const ok = async <T>(answer: Promise<{ data?: T; error?: unknown; response: Response }>): Promise<T> => {
    const { data, error, response } = await answer;
    if (data === undefined) throw new Error(`${response.url}: ${response.status} ${JSON.stringify(error)}`);
    return data;
};

const status = async (wanted: number, answer: Promise<{ error?: unknown; response: Response }>): Promise<Response> => {
    const { error, response } = await answer;
    if (response.status !== wanted) throw new Error(`${response.url}: ${response.status} ${JSON.stringify(error)}`);
    return response;
};

/** The data of a response that needs the search index. Repeats the request while the index is being built. */
const ready = async <T>(request: () => Promise<{ data?: T; error?: unknown; response: Response }>): Promise<T> => {
    for (let left = 60; left > 0; left -= 1) {
        const answer = await request();
        if (answer.response.status !== 503) return ok(Promise.resolve(answer));
        await new Promise((resolve) => setTimeout(resolve, 500));
    }
    return ok(request());
};

/** Options for a body that is sent without a change. */
const bytes = (type: string) => ({
    headers: { 'Content-Type': type },
    bodySerializer: (body: unknown) => body,
});

/** Checks a value of a response. */
const equal = (actual: unknown, expected: unknown): void => {
    const [left, right] = [JSON.stringify(actual), JSON.stringify(expected)];
    if (left !== right) throw new Error(`${left} instead of ${right}`);
};

const form = { headers: { 'Content-Type': 'application/x-www-form-urlencoded' } };
const first = <T>(all: T[]): T => {
    const [one] = all;
    if (one === undefined) throw new Error('an empty list');
    return one;
};

const stranger = clientOf();
const signIn = (email: string) => ok(stranger.POST('/api/v1/auth/login', { body: { email, password: data.password } }));
const me = clientOf((await signIn(data.address)).accessToken);

// The service.
await ok(stranger.GET('/api/health'));
await ok(stranger.GET('/', { parseAs: 'text' }));
await ok(stranger.GET('/docs', { parseAs: 'text' }));
await ok(stranger.GET('/docs/redoc.js', { parseAs: 'text' }));
await ok(stranger.GET('/api/readiness'));
const scopes: Record<string, string> = (await ok(stranger.GET('/api/openapi.json')))['x-api-token-scopes'];
if (!scopes['mail:read']) throw new Error('no scopes');

// Accounts.
const domain = first((await ok(stranger.GET('/api/v1/auth/domains'))).domains).domain;
const username = `t${randomBytes(6).toString('hex')}`;
await ok(stranger.GET('/api/v1/auth/username-available', { params: { query: { username } } }));
const registered = await ok(
    stranger.POST('/api/v1/auth/register', {
        body: { local_part: username, domain, password: data.password, first_name: 'Ty', last_name: 'Script', dob: '1990-12-10' },
    }),
);
const refreshed = await ok(stranger.POST('/api/v1/auth/refresh', { body: { refreshToken: registered.refreshToken } }));
const other = clientOf(refreshed.accessToken);
await ok(other.POST('/api/v1/auth/logout', { body: { refreshToken: refreshed.refreshToken } }));

// Mail.
const folder = first((await ok(me.GET('/api/v1/mail/folders'))).folders);
const inbox = { params: { path: { folder: folder.path }, query: { page: 1, limit: 10 } } };
const { messages } = await ok(me.GET('/api/v1/mail/folders/{folder}/messages', inbox));
const { cursor } = await ok(me.GET('/api/v1/mail/changes'));
const found = await ok(me.GET('/api/v1/mail/search', { params: { query: { q: 'Rich' } } }));
await ok(me.GET('/api/v1/mail/search', { params: { query: { q: 'from:grace OR rich', folder: '*', sort: 'relevance' } } }));
const { threads } = await ready(() => me.GET('/api/v1/mail/threads', { params: { query: { folder: '*' } } }));
await ready(() => me.GET('/api/v1/mail/threads/{id}', { params: { path: { id: first(threads).id } } }));
const uid = first(found.messages).uid;
const one = { params: { path: { uid } } };
const message = await ok(me.GET('/api/v1/mail/messages/{uid}', one));
const index = first(message.attachments).index;
const attachment = me.GET('/api/v1/mail/messages/{uid}/attachments/{index}', { params: { path: { uid, index } }, parseAs: 'arrayBuffer' });
if ((await ok(attachment)).byteLength !== first(message.attachments).size) throw new Error('an attachment of another size');
await ok(me.GET('/api/v1/mail/quota'));

// Conditional requests.
const tagOf = async (answer: Promise<{ error?: unknown; response: Response }>): Promise<string> =>
    (await status(200, answer)).headers.get('etag') ?? '';
const unchanged = { 'If-None-Match': await tagOf(me.GET('/api/v1/mail/messages/{uid}', one)) };
const ifChanged = { params: { path: { uid }, header: unchanged } };
await status(304, me.GET('/api/v1/mail/messages/{uid}', ifChanged));

// Folders. The missing parent is created too.
const path = `Tour${folder.delimiter}Letters`;
const created = await ok(me.POST('/api/v1/mail/folders', { body: { path } }));
equal([created.path, created.name, created.messages], [path, 'Letters', 0]);
const renamed = await ok(
    me.PATCH('/api/v1/mail/folders/{folder}', {
        params: { path: { folder: path } },
        body: { path: 'Letters' },
    }),
);
equal([renamed.id, renamed.path], [created.id, 'Letters']);
await ok(me.DELETE('/api/v1/mail/folders/{folder}', { params: { path: { folder: 'Tour' } } }));
const { folders } = await ok(me.GET('/api/v1/mail/folders'));
equal(folders.some((each) => each.path === 'Tour'), false);

// Import a message, and read its bytes.
const inLetters = { folder: 'Letters' };
const letter = 'From: grace@outside.test\r\nSubject: Letter\r\n\r\nHello\r\n';
const importLetter = () =>
    me.POST('/api/v1/mail/folders/{folder}/messages', {
        ...bytes('message/rfc822'),
        params: {
            path: inLetters,
            query: { flags: ['\\Flagged'], receivedAt: '2026-11-20T08:00:00Z' },
            header: { 'Idempotency-Key': 'a-letter' },
        },
        body: letter,
    });
const imported = await ok(importLetter());
equal(imported.folder, 'Letters');
const importedAgain = await importLetter();
equal(importedAgain.data?.uid, imported.uid);
equal(importedAgain.response.headers.get('idempotent-replayed'), 'true');
const stored = { path: { uid: imported.uid } };
const rawMessage = me.GET('/api/v1/mail/messages/{uid}/raw', { params: stored, parseAs: 'text' });
equal(await ok(rawMessage), letter);
const asText = { params: stored, parseAs: 'text' as const };
const same = { 'If-None-Match': await tagOf(me.GET('/api/v1/mail/messages/{uid}/raw', asText)) };
const ifOther = { params: { ...stored, header: same } };
await status(304, me.GET('/api/v1/mail/messages/{uid}/raw', ifOther));
const beginning = await me.GET('/api/v1/mail/messages/{uid}/raw', {
    params: { ...stored, header: { Range: 'bytes=0-3' } },
    parseAs: 'text',
});
equal([beginning.response.status, beginning.data], [206, 'From']);

// Copy messages.
const toLetters = { ...one, body: { destination: 'Letters' } };
const copied = (await ok(me.POST('/api/v1/mail/messages/{uid}/copy', toLetters))).uid;
const both = [imported.uid, copied];
const toArchive = { body: { uids: both, destination: 'Archive' } };
equal((await ok(me.POST('/api/v1/mail/messages/bulk/copy', toArchive))).count, 2);
const read = (view: 'summary' | 'detail') =>
    ok(me.GET('/api/v1/mail/messages', { params: { query: { uids: both.join(','), view } } }));
const theirFolders = async () => (await read('summary')).messages.map((each) => each.folder);
equal(await theirFolders(), ['Letters', 'Letters']);
equal((await read('detail')).messages.map((each) => each.subject), ['Letter', 'Rich']);

// List a folder with a cursor.
const listLetters = (query: { cursor?: string; limit?: number; unread?: 'true' }) =>
    ok(me.GET('/api/v1/mail/folders/{folder}/messages', { params: { path: inLetters, query } }));
const newest = await listLetters({ limit: 1 });
equal(newest.total, 2);
const oldest = await listLetters({ limit: 1, cursor: newest.nextCursor ?? '' });
equal(oldest.nextCursor, null);
const ascending = (numbers: number[]) => numbers.toSorted((a, b) => a - b);
const listedUids = [...newest.messages, ...oldest.messages].map((each) => each.uid);
equal(ascending(listedUids), ascending(both));

// Replace flags, if the message has not changed.
const version = await tagOf(me.GET('/api/v1/mail/messages/{uid}', { params: stored }));
const seen = {
    params: { ...stored, header: { 'If-Match': version } },
    body: { flags: ['\\Seen'] },
};
await ok(me.PUT('/api/v1/mail/messages/{uid}/flags', seen));
await status(412, me.PUT('/api/v1/mail/messages/{uid}/flags', seen));
const { flags } = await ok(me.GET('/api/v1/mail/messages/{uid}', { params: stored }));
equal([flags.includes('\\Seen'), flags.includes('\\Flagged')], [true, false]);
const unread = (await listLetters({ unread: 'true' })).messages;
equal(unread.map((each) => each.uid), [copied]);

// Move messages to Trash and back.
const theCopy = { params: { path: { uid: copied } } };
await ok(me.POST('/api/v1/mail/messages/{uid}/trash', theCopy));
equal(await theirFolders(), ['Letters', 'Trash']);
await ok(me.POST('/api/v1/mail/messages/{uid}/restore', theCopy));
equal(await theirFolders(), ['Letters', 'Letters']);
equal((await ok(me.POST('/api/v1/mail/messages/bulk/trash', { body: { uids: both } }))).count, 2);
equal(await theirFolders(), ['Trash', 'Trash']);
equal((await ok(me.POST('/api/v1/mail/messages/bulk/restore', { body: { uids: both } }))).count, 2);
equal(await theirFolders(), ['Letters', 'Letters']);

// Snooze a message.
const waiting = { params: { path: { uid: copied } } };
const tomorrow = new Date(Date.now() + 24 * 60 * 60 * 1000).toISOString();
const untilTomorrow = { ...waiting, body: { until: tomorrow } };
await ok(me.POST('/api/v1/mail/messages/{uid}/snooze', untilTomorrow));
equal((await ok(me.GET('/api/v1/mail/messages/{uid}/snooze', waiting))).until, tomorrow);
await ok(me.DELETE('/api/v1/mail/messages/{uid}/snooze', waiting));
equal((await ok(me.GET('/api/v1/mail/messages/{uid}/snooze', waiting))).until, null);

// Delete a folder with its messages.
await status(409, me.DELETE('/api/v1/mail/folders/{folder}', { params: { path: inLetters } }));
await ok(
    me.DELETE('/api/v1/mail/folders/{folder}', {
        params: { path: inLetters, query: { messages: 'delete' } },
    }),
);
equal(ascending((await read('summary')).missing), ascending(both));

// Send a message with an attachment of each source.
const upload = await ok(
    me.POST('/api/v1/mail/uploads', {
        ...bytes('application/octet-stream'),
        params: { query: { filename: 'a.csv' } },
        body: 'a,b',
    }),
);
equal([upload.filename, upload.size], ['a.csv', 3]);
const send = () =>
    me.POST('/api/v1/mail/send', {
        params: { header: { 'Idempotency-Key': 'a-tour' } },
        body: {
            from: data.address,
            fromName: 'Ada Lovelace',
            replyTo: [data.guest],
            to: [data.guest],
            subject: 'A tour',
            text: 'Hello',
            inReplyTo: message.messageId,
            headers: [{ name: 'X-Tour', value: '7' }],
            attachments: [
                { filename: 'a.txt', content: Buffer.from('a').toString('base64') },
                { uploadId: upload.uploadId },
                { uid, index },
                { uid },
            ],
        },
    });
const sent = await ok(send());
if (!('messageId' in sent)) throw new Error('the message was not sent');
const sentAgain = await send();
equal(sentAgain.data, sent);
equal(sentAgain.response.headers.get('idempotent-replayed'), 'true');
const inSent = await ok(
    me.GET('/api/v1/mail/folders/{folder}/messages', {
        params: { path: { folder: sent.savedTo ?? '' }, query: { limit: 1 } },
    }),
);
const copy = await ok(
    me.GET('/api/v1/mail/messages/{uid}', {
        params: { path: { uid: first(inSent.messages).uid }, query: { headers: 'X-Tour' } },
    }),
);
equal(copy.messageId, sent.messageId);
equal(first(copy.from).name, 'Ada Lovelace');
equal(copy.replyTo.map((each) => each.address), [data.guest]);
equal(copy.headers?.map(({ name, value }) => [name, value]), [['X-Tour', '7']]);
equal(
    copy.attachments.map((each) => each.filename),
    ['a.txt', 'a.csv', first(message.attachments).filename, 'Rich.eml'],
);

const delivery = { params: { path: { messageId: sent.messageId } } };
const { recipients } = await ok(me.GET('/api/v1/mail/sent/{messageId}', delivery));
equal(first(recipients).address, data.guest);

// Replies and forwards.
await ok(me.POST('/api/v1/mail/messages/{uid}/reply', { ...one, body: { to: data.guest, text: 'Hello', locale: 'de' } }));
await ok(me.POST('/api/v1/mail/messages/{uid}/reply-all', { ...one, body: { to: [data.guest], html: '<p>Hello</p>' } }));
await ok(me.POST('/api/v1/mail/messages/{uid}/forward', { ...one, body: { to: data.guest, asAttachment: true } }));

// Drafts.
const draft = await ok(me.POST('/api/v1/mail/drafts', { body: { to: 'half@', subject: 'Draft', text: 'Hello' } }));
const drafted = { path: { id: draft.id } };
const savedDraft = await ok(me.GET('/api/v1/mail/drafts/{id}', { params: drafted }));
equal(savedDraft.draft.to, ['half@']);
const finished = { from: data.address, to: [data.guest], subject: 'Draft', text: 'Hello' };
await ok(
    me.PUT('/api/v1/mail/drafts/{id}', {
        params: { ...drafted, header: { 'If-Match': `"${draft.version}"` } },
        body: finished,
    }),
);
await ok(me.GET('/api/v1/mail/drafts', { params: { query: { limit: 1 } } }));
await ok(me.POST('/api/v1/mail/drafts/{id}/send', { params: drafted }));
const answer = await ok(me.POST('/api/v1/mail/drafts', { body: { mode: 'reply', uid, text: 'Hello' } }));
await ok(me.DELETE('/api/v1/mail/drafts/{id}', { params: { path: { id: answer.id } } }));

// The outbox.
const later = await ok(me.POST('/api/v1/mail/send', { body: { ...finished, sendAt: '2027-01-01T00:00:00Z' } }));
if (!('outboxId' in later)) throw new Error('the message was not scheduled');
const entry = { path: { id: later.outboxId } };
equal((await ok(me.GET('/api/v1/mail/outbox/{id}', { params: entry }))).state, 'scheduled');
await ok(me.PATCH('/api/v1/mail/outbox/{id}', { params: entry, body: { sendAt: '2027-02-01T00:00:00Z' } }));
await ok(me.DELETE('/api/v1/mail/outbox/{id}', { params: entry }));
equal(first((await ok(me.GET('/api/v1/mail/outbox'))).entries).state, 'cancelled');

// The stream of events. A stream with a type that exists does not end.
const types = { params: { query: { types: 'none' } } };
equal((await me.GET('/api/v1/mail/events', types)).response.status, 400);

// Webhooks. Nothing listens at the receiver.
const hook = await ok(me.POST('/api/v1/webhooks', { body: { url: 'https://hooks.example.com/a' } }));
const hookPath = { params: { path: { id: hook.id } } };
equal((await ok(me.GET('/api/v1/webhooks/{id}', hookPath))).state, 'active');
equal(first((await ok(me.GET('/api/v1/webhooks'))).webhooks).id, hook.id);
await ok(me.PATCH('/api/v1/webhooks/{id}', { ...hookPath, body: { enabled: false } }));
equal((await ok(me.POST('/api/v1/webhooks/{id}/rotate', hookPath))).secret === hook.secret, false);
const tried = await ok(me.POST('/api/v1/webhooks/{id}/test', hookPath));
equal(first((await ok(me.GET('/api/v1/webhooks/{id}/deliveries', hookPath))).deliveries).id, tried.id);
const replayed = { params: { path: { id: hook.id, delivery: tried.id } } };
const disabled = await me.POST('/api/v1/webhooks/{id}/deliveries/{delivery}/replay', replayed);
equal(disabled.response.status, 409);
await ok(me.DELETE('/api/v1/webhooks/{id}', hookPath));

// The vacation response and the rules.
await ok(me.PUT('/api/v1/mail/vacation', { body: { isEnabled: true, textBody: 'I am away.' } }));
equal((await ok(me.GET('/api/v1/mail/vacation'))).textBody, 'I am away.');
await ok(me.PUT('/api/v1/mail/rules', { body: { rules: [{ name: 'Stop', enabled: true, match: 'all', actions: [{ type: 'stop' }] }] } }));
equal(first((await ok(me.GET('/api/v1/mail/rules'))).rules).name, 'Stop');
const added = await ok(me.POST('/api/v1/mail/forward-addresses', { body: { address: 'ada@elsewhere.example' } }));
equal(first((await ok(me.GET('/api/v1/mail/forward-addresses'))).forwardAddresses).status, 'pending');
const forward = { params: { path: { id: added.id } } };
equal((await me.POST('/api/v1/mail/forward-addresses/{id}/confirm', { ...forward, body: { code: 'wrong' } })).response.status, 400);
await ok(me.DELETE('/api/v1/mail/forward-addresses/{id}', forward));

// Change messages.
await ok(me.POST('/api/v1/mail/messages/{uid}/flag', { ...one, body: { flags: ['\\Seen'], action: 'add' } }));
await ok(me.POST('/api/v1/mail/messages/{uid}/move', { ...one, body: { destination: 'Archive' } }));
const { changes } = await ok(me.GET('/api/v1/mail/changes', { params: { query: { since: cursor, limit: 500 } } }));
if (!changes.some((change) => change.type === 'moved' && change.folder === 'Archive')) throw new Error('the message was not moved');
const uids = messages.map((each) => each.uid);
await ok(me.POST('/api/v1/mail/messages/bulk/flag', { body: { uids, flags: ['\\Flagged'], action: 'remove' } }));
await ok(me.POST('/api/v1/mail/messages/bulk/move', { body: { uids, destination: 'Archive' } }));
await ok(me.DELETE('/api/v1/mail/messages/{uid}', one));
await ok(me.POST('/api/v1/mail/messages/bulk/delete', { body: { uids } }));

// Aliases.
const aliasDomain = first((await ok(me.GET('/api/v1/aliases/domains'))).domains).domain;
await ok(me.GET('/api/v1/aliases/check', { params: { query: { name: `${username}-a`, domain: aliasDomain } } }));
await ok(me.POST('/api/v1/aliases', { body: { domain: aliasDomain } }));
const id = first((await ok(me.GET('/api/v1/aliases'))).aliases).id;
const theAlias = { params: { path: { id } } };
const expiry = { note: 'A tour', expiresAt: '2027-01-01T00:00:00.000Z' };
const changed = await ok(
    me.PATCH('/api/v1/aliases/{id}', { ...theAlias, body: { active: false, ...expiry } }),
);
equal({ note: changed.note, expiresAt: changed.expiresAt }, expiry);
const alias = first((await ok(me.GET('/api/v1/aliases'))).aliases);
equal([alias.active, alias.note, alias.expiresAt], [false, expiry.note, expiry.expiresAt]);
const cleared = await ok(
    me.PATCH('/api/v1/aliases/{id}', { ...theAlias, body: { note: null, expiresAt: null } }),
);
equal([cleared.note, cleared.expiresAt], [null, null]);
await ok(me.DELETE('/api/v1/aliases/{id}', { params: { path: { id } } }));

// Credentials.
await ok(me.PATCH('/api/v1/profile', { body: { first_name: 'Augusta' } }));
await ok(me.GET('/api/v1/profile'));
await ok(me.GET('/api/v1/profile/modules'));
const filer = { params: { path: { name: 'filer' } } };
await ok(me.PUT('/api/v1/profile/modules/{name}', { ...filer, body: { enabled: true } }));
const token = await ok(me.POST('/api/v1/tokens', { body: { label: 'a tour', scopes: ['mail:read'], expiresInDays: 1 } }));
const reader = clientOf(token.token);
await ok(reader.GET('/api/v1/mail/folders'));
const grants = async (kind: string) =>
    (await ok(me.GET('/api/v1/profile/grants'))).grants.filter((each) => each.kind === kind);
const theGrant = first(await grants('token'));
equal([theGrant.name, theGrant.suspended], ['a tour', false]);
const ofGrant = { params: { path: { id: theGrant.id } } };
await ok(me.POST('/api/v1/profile/grants/{id}/suspend', ofGrant));
const refused = await reader.GET('/api/v1/mail/folders');
equal([refused.response.status, refused.error?.code], [403, 'grant_suspended']);
equal(first(await grants('token')).suspended, true);
await ok(me.POST('/api/v1/profile/grants/{id}/resume', ofGrant));
await ok(reader.GET('/api/v1/mail/folders'));
const tokenIds = (await ok(me.GET('/api/v1/tokens'))).tokens.map((each) => each.id);
await ok(me.DELETE('/api/v1/tokens/{id}', { params: { path: { id: first(tokenIds) } } }));
const password = await ok(me.POST('/api/v1/app-passwords', { body: { label: 'a tour' } }));
await ok(me.DELETE('/api/v1/app-passwords/{id}', { params: { path: { id: password.id } } }));
await signIn(data.address);
const { credentials } = await ok(me.GET('/api/v1/profile/sessions'));
const elsewhere = credentials.filter((each) => each.type === 'web_session' && !each.current);
await ok(me.DELETE('/api/v1/profile/sessions/{id}', { params: { path: { id: first(elsewhere).id } } }));

// Domains.
const proved = { params: { path: { domain: data.domain } } };
await ok(me.POST('/api/v1/domains', { body: { domain: `${username}.example` } }));
await ok(me.GET('/api/v1/domains'));
await ok(me.POST('/api/v1/domains/{domain}/verify', proved));
await ok(me.GET('/api/v1/domains/{domain}', proved));
await ok(me.DELETE('/api/v1/domains/{domain}', proved));

// Teams.
const team = { id: first((await ok(me.GET('/api/v1/teams'))).teams).id };
const guest = first(data.guest.split('@'));
const invitation = { username: guest, password: data.password, resource_kind: 'mailbox', rights: ['mail:read'] } as const;
const invited = await ok(me.POST('/api/v1/teams/{id}/invitations', { params: { path: team }, body: { ...invitation, rights: [...invitation.rights] } }));
const { members } = await ok(me.GET('/api/v1/teams/{id}/members', { params: { path: team } }));
const userId = first(members.filter((member) => member.role === 'guest')).userId;
const member = { params: { path: { ...team, userId } } };
await ok(me.POST('/api/v1/teams/{id}/members/{userId}/grants', { ...member, body: { resource_kind: 'folder', resource_id: folder.id, rights: ['mail:read'] } }));
const grant = { params: { path: { ...team, grantId: invited.grantId } } };
await ok(me.PATCH('/api/v1/teams/{id}/grants/{grantId}', { ...grant, body: { rights: ['mail:read', 'mail:write'] } }));
await ok(me.DELETE('/api/v1/teams/{id}/grants/{grantId}', grant));
await ok(me.DELETE('/api/v1/teams/{id}/members/{userId}', member));

// Administration.
const admin = clientOf(data.admin);
const [older, newer] = data.components.map((component) => [{ component }]);
if (!older || !newer) throw new Error('no components');
await ok(admin.GET('/api/v1/admin/modules'));
await ok(admin.POST('/api/v1/admin/modules/inspect', { body: { modules: older } }));
const installed = await ok(admin.POST('/api/v1/admin/modules', { body: { modules: older, accept: true } }));
const module = { params: { path: { name: first(installed.modules).name } } };
await ok(admin.POST('/api/v1/admin/modules', { body: { modules: newer, accept: true } }));
const compared = { modules: newer, requests: 1, seconds: 1 };
await ok(admin.POST('/api/v1/admin/modules/{name}/compare', { ...module, body: compared }));
const account = data.address;
await ok(admin.POST('/api/v1/admin/modules/{name}/preview', { ...filer, body: { account, last: 1 } }));
// It is not paused.
await status(404, admin.POST('/api/v1/admin/modules/{name}/resume', { ...filer, body: { account, skip: false } }));
await ok(admin.GET('/api/v1/admin/modules/{name}', module));
await ok(admin.GET('/api/v1/admin/modules/{name}/log', module));
await ok(admin.POST('/api/v1/admin/modules/{name}/disable', module));
await ok(admin.POST('/api/v1/admin/modules/{name}/enable', module));
await ok(admin.POST('/api/v1/admin/modules/{name}/rollback', { ...module, body: {} }));
await ok(admin.DELETE('/api/v1/admin/modules/{name}', { params: { ...module.params, query: { purge: true } } }));

// Authorization, as an agent and as a browser.
await ok(stranger.GET('/.well-known/oauth-protected-resource'));
await ok(stranger.GET('/.well-known/oauth-protected-resource/mcp'));
await ok(stranger.GET('/.well-known/oauth-authorization-server'));
const redirect_uri = 'http://127.0.0.1:9/callback';
const agent = await ok(
    stranger.POST('/auth/register', {
        body: {
            client_name: 'A tour',
            redirect_uris: [redirect_uri],
            grant_types: ['authorization_code', 'refresh_token', 'urn:ietf:params:oauth:grant-type:device_code'],
        },
    }),
);
const client_id = agent.client_id;
const code_verifier = randomBytes(32).toString('base64url');
const sealedIn = (page: string): string => /name="request" value="([^"]+)"/.exec(page)?.[1] ?? '';
const opened = await stranger.GET('/login', {
    params: {
        query: {
            client_id,
            redirect_uri,
            response_type: 'code',
            code_challenge: createHash('sha256').update(code_verifier).digest('base64url'),
            code_challenge_method: 'S256',
            state: 'a-state',
        },
    },
    parseAs: 'text',
});
const Cookie = first((opened.response.headers.get('set-cookie') ?? '').split(';'));
const filled = { request: sealedIn(opened.data ?? ''), email: data.address, password: data.password };
const browser = { headers: { ...form.headers, Cookie }, redirect: 'manual', parseAs: 'text' } as const;
const back = await status(303, stranger.POST('/login', { ...browser, body: filled }));
const code = new URL(back.headers.get('location') ?? '').searchParams.get('code') ?? '';
const tokens = await ok(stranger.POST('/auth/token', { ...form, body: { grant_type: 'authorization_code', client_id, code, code_verifier, redirect_uri } }));

const device = await ok(stranger.POST('/auth/device', { ...form, body: { client_id } }));
const letters = await ok(stranger.GET('/device', { params: { query: { user_code: device.user_code } }, headers: { Cookie }, parseAs: 'text' }));
const asked = await ok(stranger.POST('/device', { ...browser, body: { request: sealedIn(letters), user_code: device.user_code } }));
await ok(stranger.POST('/device', { ...browser, body: { ...filled, request: sealedIn(asked), answer: 'yes' } }));
await ok(
    stranger.POST('/auth/token', { ...form, body: { grant_type: 'urn:ietf:params:oauth:grant-type:device_code', client_id, device_code: device.device_code } }),
);

// Agents.
const mcp = clientOf(tokens.access_token);
const listed = await ok(
    mcp.POST('/mcp', { params: { header: { 'MCP-Protocol-Version': '2025-11-25' } }, body: { jsonrpc: '2.0', id: 1, method: 'tools/list' } }),
);
if (!listed.result) throw new Error(`no tools: ${JSON.stringify(listed)}`);
await status(405, mcp.GET('/mcp'));
await status(405, mcp.DELETE('/mcp'));

// The agent revokes the first of its grants, and the owner ends the other.
const connected = (await grants('oauth')).length;
const revoked = { ...form, body: { token: tokens.refresh_token ?? '', client_id } };
await status(200, stranger.POST('/auth/revoke', revoked));
const remaining = await grants('oauth');
equal(remaining.length, connected - 1);
for (const { id } of remaining) {
    await ok(me.DELETE('/api/v1/profile/grants/{id}', { params: { path: { id } } }));
}
equal(await grants('oauth'), []);

// Last, because it ends other sessions.
await ok(me.POST('/api/v1/profile/password', { body: { current_password: data.password, new_password: `${data.password}x` } }));

const left = notCalled();
if (left.length > 0) throw new Error(`not called: ${left.join(', ')}`);
