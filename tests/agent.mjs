// An unmodified client of the protocol's own authors, used as their documentation shows. Its
// arguments are the folder with the packages, one of `1`, `2` and `2-newest`, and the endpoint's
// URL. It writes its results line by line in JSON, and reads commands in the same way.

import { createServer } from 'node:http';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const [folder, major, address] = process.argv.slice(2);
const packages = createRequire(`${folder}/package.json`);

const { Client, StreamableHTTPClientTransport, UnauthorizedError } =
    major === '1'
        ? {
              ...packages('@modelcontextprotocol/sdk/client/index.js'),
              ...packages('@modelcontextprotocol/sdk/client/streamableHttp.js'),
              ...packages('@modelcontextprotocol/sdk/client/auth.js'),
          }
        : packages('@modelcontextprotocol/client');

const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);

// The redirect target of the user's browser.
let returned;
const listener = createServer((request, response) => {
    const url = new URL(request.url, 'http://127.0.0.1');
    if (url.pathname !== '/callback') {
        response.writeHead(404).end();
        return;
    }
    response.writeHead(200, { 'Content-Type': 'text/plain' }).end('You can close this page.');
    returned(url.searchParams);
});
listener.listen(0, '127.0.0.1');
await once(listener, 'listening');
const redirectUrl = `http://127.0.0.1:${listener.address().port}/callback`;

// Stored in memory, with the number of new registrations and tokens.
const kept = { registrations: 0, tokens: 0 };
let information, tokens, verifier, discovered;
const authProvider = {
    redirectUrl,
    clientMetadata: {
        client_name: `An agent of major ${major}`,
        redirect_uris: [redirectUrl],
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
        token_endpoint_auth_method: 'none',
    },
    state: () => 'a-state',
    clientInformation: () => information,
    saveClientInformation: (given) => {
        information = given;
        kept.registrations += 1;
    },
    tokens: () => tokens,
    saveTokens: (given) => {
        tokens = given;
        kept.tokens += 1;
    },
    redirectToAuthorization: (url) => say({ open: url.href }),
    saveCodeVerifier: (given) => {
        verifier = given;
    },
    codeVerifier: () => verifier,
    invalidateCredentials: (what) => {
        if (what === 'all' || what === 'client') information = undefined;
        if (what === 'all' || what === 'tokens') tokens = undefined;
        if (what === 'all' || what === 'discovery') discovered = undefined;
    },
    saveDiscoveryState: (given) => {
        discovered = given;
    },
    discoveryState: () => discovered,
};

const options = major === '2-newest' ? { versionNegotiation: { mode: 'auto' } } : {};
const client = new Client({ name: 'an-agent', version: '1.0.0' }, { capabilities: {}, ...options });

const connected = async () => {
    const transport = new StreamableHTTPClientTransport(new URL(address), { authProvider });
    const back = new Promise((resolve) => {
        returned = resolve;
    });
    try {
        await client.connect(transport);
    } catch (error) {
        if (!(error instanceof UnauthorizedError)) throw error;
        const answer = await back;
        if (answer.get('state') !== 'a-state') throw new Error('another state came back');
        // The second major checks `iss` itself.
        await transport.finishAuth(major === '1' ? answer.get('code') : answer);
        return connected();
    }
    return transport;
};

const transport = await connected();
const revision = client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion;
say({ connected: { revision, server: client.getServerVersion() } });

for await (const line of createInterface({ input: process.stdin })) {
    const { call, ...wish } = JSON.parse(line);
    try {
        const answer = call ? await client.callTool({ name: call, ...wish }) : await client.listTools();
        say({ answer, kept });
    } catch (error) {
        say({ failed: String(error), kept });
    }
}
await client.close();
listener.close();
