// A real identity provider (npm `oidc-provider`) for the tests of single sign-on. Arguments: the
// folder with the npm packages, and a port (0: any).
//
// The first line of output that is JSON contains the issuer. The process ends when its input ends.
// `POST /control` changes persons, clients, keys and faults. A fault re-signs the ID tokens of the
// provider with changed claims, another key or another algorithm. So only the fault is artificial.

import { createServer } from 'node:http';

const [folder, port] = process.argv.slice(2);
const { default: Provider } = await import(`${folder}/node_modules/oidc-provider/lib/index.js`);
const { createMemoryAdapter } = await import(`${folder}/node_modules/oidc-provider/lib/adapters/memory_adapter.js`);
const jose = await import(`${folder}/node_modules/jose/dist/webapi/index.js`);

const clients = new Map();
const persons = new Map();
const faults = new Map();
const grants = [];
const memory = createMemoryAdapter();
let keys = 0;
let signing;
let foreign;
let provider;
let issuer;

async function newKey() {
    const { privateKey } = await jose.generateKeyPair('RS256', { extractable: true });
    keys += 1;
    return { ...(await jose.exportJWK(privateKey)), kid: `key-${keys}`, use: 'sig', alg: 'RS256' };
}

function adapter(model) {
    const stored = memory(model);
    if (model === 'Client') stored.find = async (id) => clients.get(id);
    return stored;
}

// Creates the provider with a new key. Sessions and clients remain.
async function rotate() {
    signing = await newKey();
    provider = new Provider(issuer, {
        adapter,
        jwks: { keys: [signing] },
        cookies: { keys: ['secret'] },
        claims: { openid: ['sub'], email: ['email', 'email_verified', 'mailbox'] },
        conformIdTokenClaims: false,
        issueRefreshToken: async () => true,
        rotateRefreshToken: true,
        features: { devInteractions: { enabled: false }, backchannelLogout: { enabled: true } },
        interactions: { url: (ctx, interaction) => `/interaction/${interaction.uid}` },
        findAccount: (ctx, sub) => persons.has(sub) && {
            accountId: sub,
            claims: async () => ({ sub, ...persons.get(sub) }),
        },
        // The provider calls no loopback addresses by default.
        fetch: (url, { dispatcher, ...options }) => fetch(url, options),
        // No page asks for consent.
        loadExistingGrant: async (ctx) => {
            const known = ctx.oidc.session.grantIdFor(ctx.oidc.client.clientId);
            if (known) return ctx.oidc.provider.Grant.find(known);
            const grant = new ctx.oidc.provider.Grant({
                clientId: ctx.oidc.client.clientId,
                accountId: ctx.oidc.session.accountId,
            });
            grant.addOIDCScope('openid email');
            await grant.save();
            grants.push({ sub: grant.accountId, grant });
            return grant;
        },
    });
    provider.use(async (ctx, next) => {
        await next();
        const fault = faults.get(ctx.oidc?.client?.clientId);
        if (fault && ctx.body?.id_token) {
            const claims = jose.decodeJwt(ctx.body.id_token);
            ctx.body = { ...ctx.body, id_token: await sign(claims, fault) };
        }
    });
}

// Signs claims with the provider's key. `fault.key` is `foreign` for a key that the provider does
// not publish. `fault.kid` is the key's id in the header.
async function sign(claims, fault) {
    const changed = { ...claims, ...fault.claims };
    for (const name of fault.remove ?? []) delete changed[name];
    const encoded = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
    if (fault.alg === 'none') return `${encoded({ alg: 'none' })}.${encoded(changed)}.`;
    const jwk = fault.key === 'foreign' ? foreign : signing;
    const header = { alg: fault.alg ?? 'RS256', kid: fault.kid ?? signing.kid, ...fault.header };
    const key = fault.alg === 'HS256' ? new TextEncoder().encode(fault.secret) : await jose.importJWK(jwk, 'RS256');
    return new jose.SignJWT(changed).setProtectedHeader(header).sign(key);
}

const commands = {
    client: async ({ metadata }) => clients.set(metadata.client_id, metadata),
    person: async ({ sub, claims }) => persons.set(sub, claims),
    fault: async ({ client, fault }) => (fault ? faults.set(client, fault) : faults.delete(client)),
    endGrants: async ({ sub }) => {
        for (const one of grants.filter((one) => one.sub === sub)) await one.grant.destroy();
    },
    rotate,
    token: async ({ claims, fault }) => sign(claims, fault ?? {}),
};

async function body(request) {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    return Buffer.concat(chunks).toString();
}

async function control(request, response) {
    const { command, ...rest } = JSON.parse(await body(request));
    const result = await commands[command](rest);
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ result: typeof result === 'string' ? result : null }));
}

// The sign-in page: a button for each person, and one that cancels.
async function interaction(request, response) {
    if (request.method === 'GET') {
        const buttons = [...persons.keys()].map((sub) => `<button name="login" value="${sub}">Sign in as ${sub}</button>`);
        response.setHeader('content-type', 'text/html');
        response.end(`<!doctype html><title>Provider</title><form method="post">${buttons.join('')}<button name="cancel" value="1">Cancel</button></form>`);
        return;
    }
    const form = new URLSearchParams(await body(request));
    const result = form.has('login')
        ? { login: { accountId: form.get('login') } }
        : { error: 'access_denied', error_description: 'cancelled' };
    await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
}

const server = createServer(async (request, response) => {
    try {
        const path = request.url.split('?')[0];
        if (path === '/control') await control(request, response);
        else if (path.startsWith('/interaction/')) await interaction(request, response);
        else provider.callback()(request, response);
    } catch (error) {
        console.error(error);
        response.statusCode = 500;
        response.end(String(error));
    }
});
process.stdin.resume().on('end', () => process.exit());
foreign = await newKey();
await new Promise((resolve) => server.listen(Number(port), '127.0.0.1', resolve));
issuer = `http://127.0.0.1:${server.address().port}`;
await rotate();
console.log(JSON.stringify({ issuer }));
