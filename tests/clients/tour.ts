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
await ok(
    me.POST('/api/v1/mail/send', {
        params: { header: { 'Idempotency-Key': 'a-tour' } },
        body: {
            from: data.address,
            to: [data.guest],
            subject: 'A tour',
            text: 'Hello',
            inReplyTo: message.messageId,
            attachments: [{ filename: 'a.txt', content: Buffer.from('a').toString('base64') }],
        },
    }),
);
await ok(me.POST('/api/v1/mail/messages/{uid}/flag', { ...one, body: { flags: ['\\Seen'], action: 'add' } }));
await ok(me.POST('/api/v1/mail/messages/{uid}/move', { ...one, body: { destination: 'Archive' } }));
const { changes } = await ok(me.GET('/api/v1/mail/changes', { params: { query: { since: cursor, limit: 500 } } }));
if (!changes.some((change) => change.type === 'moved' && change.folder === 'Archive')) throw new Error('the message was not moved');
const uids = messages.map((each) => each.uid);
await ok(me.POST('/api/v1/mail/messages/bulk/flag', { body: { uids, flags: ['\\Flagged'], action: 'remove' } }));
await ok(me.POST('/api/v1/mail/messages/bulk/move', { body: { uids, destination: 'Archive' } }));

// Folders, and messages that are stored, copied, moved to Trash and restored.
const created = await ok(me.POST('/api/v1/mail/folders', { body: { path: 'Tour/One' } }));
const renamed = await ok(me.PATCH('/api/v1/mail/folders/{folder}', { params: { path: { folder: 'Tour/One' } }, body: { path: 'Tour/Two' } }));
if (renamed.id !== created.id) throw new Error('a renamed folder has another id');
await ok(me.GET('/api/v1/mail/quota'));
const two = { folder: 'Tour/Two' };
const stored = 'From: Grace <grace@outside.test>\r\nSubject: Imported\r\n\r\nText.\r\n';
const imported = await ok(
    me.POST('/api/v1/mail/folders/{folder}/messages', {
        params: { path: two, query: { flags: ['\\Seen'] } },
        headers: { 'Content-Type': 'message/rfc822' },
        body: stored,
        bodySerializer: (body) => body,
    }),
);
const kept = { params: { path: { uid: imported.uid } } };
const raw = await ok(me.GET('/api/v1/mail/messages/{uid}/raw', { ...kept, parseAs: 'text' }));
if (raw !== stored) throw new Error('a message has other bytes');
const listing = await ok(me.GET('/api/v1/mail/folders/{folder}/messages', { params: { path: two, query: { limit: 1 } } }));
if (listing.total !== 1 || listing.nextCursor !== null) throw new Error('the listing is wrong');
await ok(me.GET('/api/v1/mail/messages', { params: { query: { uids: `${imported.uid},${uid}`, view: 'summary' } } }));
await ok(me.PUT('/api/v1/mail/messages/{uid}/flags', { ...kept, body: { flags: ['\\Flagged'] } }));
const copied = await ok(me.POST('/api/v1/mail/messages/{uid}/copy', { ...kept, body: { destination: 'Archive' } }));
const copy = { params: { path: { uid: copied.uid } } };
await ok(me.POST('/api/v1/mail/messages/{uid}/trash', copy));
await ok(me.POST('/api/v1/mail/messages/{uid}/restore', copy));
const both = [imported.uid, copied.uid];
await ok(me.POST('/api/v1/mail/messages/bulk/copy', { body: { uids: both, destination: 'INBOX' } }));
await ok(me.POST('/api/v1/mail/messages/bulk/trash', { body: { uids: both } }));
await ok(me.POST('/api/v1/mail/messages/bulk/restore', { body: { uids: both } }));

// The vacation response and the rules.
await ok(me.PUT('/api/v1/mail/vacation', { body: { isEnabled: true, textBody: 'I am away.' } }));
if ((await ok(me.GET('/api/v1/mail/vacation'))).textBody !== 'I am away.') throw new Error('another vacation response');
await ok(me.PUT('/api/v1/mail/rules', { body: { rules: [{ name: 'Stop', actions: [{ type: 'stop' }] }] } }));
if (first((await ok(me.GET('/api/v1/mail/rules'))).rules).name !== 'Stop') throw new Error('other rules');

await ok(me.DELETE('/api/v1/mail/folders/{folder}', { params: { path: two, query: { messages: 'trash' } } }));
const upload = await ok(
    me.POST('/api/v1/mail/uploads', {
        params: { query: { filename: 'a.txt' } },
        headers: { 'Content-Type': 'application/octet-stream' },
        body: 'a',
        bodySerializer: (body) => body,
    }),
);
await ok(
    me.POST('/api/v1/mail/send', {
        body: {
            from: data.address,
            to: [data.guest],
            subject: 'References',
            text: 'Hello',
            fromName: 'Ty Script',
            replyTo: data.address,
            headers: [{ name: 'X-Tour', value: '1' }],
            attachments: [{ uploadId: upload.uploadId }, { uid: copied.uid }],
        },
    }),
);
await ok(me.DELETE('/api/v1/mail/messages/{uid}', one));
await ok(me.POST('/api/v1/mail/messages/bulk/delete', { body: { uids } }));

// Aliases.
const aliasDomain = first((await ok(me.GET('/api/v1/aliases/domains'))).domains).domain;
await ok(me.GET('/api/v1/aliases/check', { params: { query: { name: `${username}-a`, domain: aliasDomain } } }));
await ok(me.POST('/api/v1/aliases', { body: { domain: aliasDomain } }));
const id = first((await ok(me.GET('/api/v1/aliases'))).aliases).id;
await ok(me.PATCH('/api/v1/aliases/{id}', { params: { path: { id } }, body: { active: false, note: 'for the tour' } }));
await ok(me.DELETE('/api/v1/aliases/{id}', { params: { path: { id } } }));

// Credentials.
await ok(me.PATCH('/api/v1/profile', { body: { first_name: 'Augusta' } }));
await ok(me.GET('/api/v1/profile'));
const token = await ok(me.POST('/api/v1/tokens', { body: { label: 'a tour', scopes: ['mail:read'], expiresInDays: 1 } }));
await ok(clientOf(token.token).GET('/api/v1/mail/folders'));
const suspended = { params: { path: { id: first((await ok(me.GET('/api/v1/profile/grants'))).grants).id } } };
await ok(me.POST('/api/v1/profile/grants/{id}/suspend', suspended));
await status(403, clientOf(token.token).GET('/api/v1/mail/folders'));
await ok(me.POST('/api/v1/profile/grants/{id}/resume', suspended));
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

await status(200, stranger.POST('/auth/revoke', { ...form, body: { token: tokens.refresh_token ?? '', client_id } }));
const { grants } = await ok(me.GET('/api/v1/profile/grants'));
await ok(me.DELETE('/api/v1/profile/grants/{id}', { params: { path: { id: first(grants).id } } }));

// Last, because it ends other sessions.
await ok(me.POST('/api/v1/profile/password', { body: { current_password: data.password, new_password: `${data.password}x` } }));

const left = notCalled();
if (left.length > 0) throw new Error(`not called: ${left.join(', ')}`);
