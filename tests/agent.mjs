// A client of the protocol's own makers, unmodified, used as their documentation shows. It is told its major and the endpoint's address and nothing else;
// what it comes to it writes line by line, in JSON, and reads likewise what to do. Arguments: the folder with the packages, one of `1`, `2` and
// `2-newest`, the address.

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

// Where the person's browser comes back to.
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

// What is kept, in memory, and how often it was new.
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
        // The second major looks at `iss` itself.
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
