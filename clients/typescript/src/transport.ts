/**
 * Sends requests: the token, errors, and repetitions. A request is repeated if the service refused it
 * for now (429, and 503 with `Retry-After`), because it then has changed nothing. After a lost
 * connection, a request is repeated if it reads, or if it has an idempotency key.
 */

/** The settings of a client. */
export interface Settings {
    /** The URL of the service, for example `https://mail.example.org`. */
    baseUrl: string;
    /** An API token, or the access token of a session or of a grant. */
    token?: string;
    /** The maximum number of repetitions of a request. The default is 3. */
    retries?: number;
    /** The longest wait before a repetition, in seconds. The default is 60. */
    maxWait?: number;
    /** The time until the head of a response, in milliseconds. The default is 60,000. */
    timeout?: number;
    /** The function that sends requests. The default is `fetch`. */
    fetch?: typeof fetch;
}

/** Options of one request. */
export interface Options {
    /** Ends the request. */
    signal?: AbortSignal;
    /** Further headers. */
    headers?: Record<string, string>;
}

/** How the body of a response is read. */
export type Form = 'json' | 'text' | 'bytes' | 'nothing';

/** A request of a generated operation. */
export interface Call {
    method: string;
    path: string;
    form: Form;
    query?: Record<string, unknown>;
    header?: Record<string, unknown>;
    body?: unknown;
    media?: string;
    /** Whether the operation accepts an idempotency key. */
    once?: boolean;
}

/** The service refused a request. */
export class ApiError extends Error {
    override readonly name = 'ApiError';

    constructor(
        /** The HTTP status. */
        readonly status: number,
        /** The stable code of the error, or an empty text. */
        readonly code: string,
        message: string,
        /** The headers of the response. */
        readonly headers: Headers,
    ) {
        super(message);
    }
}

/** The service cannot be reached, or the connection was interrupted. */
export class NetworkError extends Error {
    override readonly name = 'NetworkError';
}

export class Transport {
    private readonly base: string;
    private readonly token: string | undefined;
    private readonly retries: number;
    private readonly maxWait: number;
    private readonly timeout: number;
    private readonly fetch: typeof fetch;

    constructor(settings: Settings) {
        this.base = settings.baseUrl.replace(/\/+$/, '');
        this.token = settings.token;
        this.retries = settings.retries ?? 3;
        this.maxWait = settings.maxWait ?? 60;
        this.timeout = settings.timeout ?? 60_000;
        this.fetch = settings.fetch ?? ((input, init) => globalThis.fetch(input, init));
    }

    /** Sends a request and returns the body of the response in the form of the call. */
    async call<T>(call: Call, options: Options): Promise<T> {
        const response = await this.open(call, options);
        try {
            switch (call.form) {
                case 'json':
                    return (await response.json()) as T;
                case 'text':
                    return (await response.text()) as T;
                case 'bytes':
                    return (await response.arrayBuffer()) as T;
                case 'nothing':
                    await response.body?.cancel();
                    return undefined as T;
            }
        } catch (error) {
            throw new NetworkError('the response was interrupted', { cause: error });
        }
    }

    /** Sends a request and returns the successful response. */
    async open(call: Call, options: Options): Promise<Response> {
        const url = new URL(this.base + call.path);
        for (const [name, value] of Object.entries(call.query ?? {})) {
            for (const each of Array.isArray(value) ? value : [value]) {
                if (each !== undefined && each !== null) url.searchParams.append(name, String(each));
            }
        }
        const headers = new Headers();
        if (this.token !== undefined) headers.set('Authorization', `Bearer ${this.token}`);
        for (const [name, value] of Object.entries(call.header ?? {})) {
            if (value !== undefined && value !== null) headers.set(name, String(value));
        }
        if (call.once && !headers.has('Idempotency-Key')) headers.set('Idempotency-Key', randomKey());
        const init: RequestInit = { method: call.method, headers, redirect: 'error' };
        if (call.body !== undefined && call.media !== undefined) {
            headers.set('Content-Type', call.media);
            init.body = call.media === 'application/json' ? JSON.stringify(call.body) : (call.body as BodyInit);
        }
        for (const [name, value] of Object.entries(options.headers ?? {})) headers.set(name, value);
        const repeatable = call.method === 'GET' || headers.has('Idempotency-Key');
        for (let attempt = 0; ; attempt += 1) {
            const left = attempt < this.retries;
            let response: Response;
            try {
                response = await this.send(url, init, options.signal);
            } catch (error) {
                options.signal?.throwIfAborted();
                if (!repeatable || !left) throw new NetworkError('the service cannot be reached', { cause: error });
                await pause(2 ** attempt, options.signal);
                continue;
            }
            if (response.ok) return response;
            const wait = left ? retryAfter(response) : undefined;
            if (wait === undefined || wait > this.maxWait) throw await refusal(response);
            await response.body?.cancel();
            await pause(wait, options.signal);
        }
    }

    /** Sends a request once. The timeout ends with the head of the response. */
    private async send(url: URL, init: RequestInit, signal?: AbortSignal): Promise<Response> {
        const timeout = new AbortController();
        const timer = setTimeout(() => timeout.abort(new Error('timeout')), this.timeout);
        const abort = () => timeout.abort(signal?.reason);
        if (signal?.aborted) abort();
        signal?.addEventListener('abort', abort, { once: true });
        try {
            return await this.fetch(url, { ...init, signal: timeout.signal });
        } finally {
            clearTimeout(timer);
        }
    }
}

/** The seconds after which a refused request can be repeated. */
function retryAfter(response: Response): number | undefined {
    if (response.status !== 429 && response.status !== 503) return undefined;
    const seconds = Number.parseInt(response.headers.get('Retry-After') ?? '', 10);
    return Number.isNaN(seconds) ? undefined : Math.max(seconds, 0.1);
}

async function refusal(response: Response): Promise<ApiError> {
    const body = (await response.json().catch(() => ({}))) as { error?: unknown; code?: unknown };
    const text = typeof body.error === 'string' ? body.error : response.statusText;
    const code = typeof body.code === 'string' ? body.code : '';
    return new ApiError(response.status, code, text, response.headers);
}

/** Waits for this number of seconds. */
export async function pause(seconds: number, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    await new Promise<void>((resolve, reject) => {
        const abort = () => {
            clearTimeout(timer);
            reject(signal?.reason);
        };
        const timer = setTimeout(() => {
            signal?.removeEventListener('abort', abort);
            resolve();
        }, seconds * 1000);
        signal?.addEventListener('abort', abort, { once: true });
    });
}

/** A key that no other request has. */
function randomKey(): string {
    // Node.js 18 has no global `crypto`. The key must be unique, and need not be secret.
    const random = () => Math.random().toString(36).slice(2, 13);
    return globalThis.crypto?.randomUUID?.() ?? `${Date.now().toString(36)}-${random()}-${random()}`;
}
