/** The stream of events of a mailbox (`text/event-stream`). */

import { ApiError, NetworkError, pause, type Transport } from './transport.js';

/** An event of a mailbox. */
export interface MailEvent {
    /** The cursor after this event. */
    id: string;
    /** The type, for example `message.created`. */
    type: string;
    /** The time (RFC 3339). */
    time: string;
    /** What has changed. */
    data: Record<string, unknown>;
}

/** What to stream. */
export interface EventOptions {
    /** The path of the only folder. */
    folder?: string;
    /** The only types. */
    types?: readonly string[];
    /** The cursor after which the events begin. The default is the next event. */
    since?: string;
    /** Ends the stream. */
    signal?: AbortSignal;
}

/** The time without data after which a connection is broken. The service sends data every 20 s. */
const SILENCE = 60_000;
/** The longest wait before another connection, in seconds. */
const MAX_WAIT = 30;

interface Block {
    id?: string;
    event: string;
    data: string;
}

export async function* streamEvents(
    transport: Transport,
    { folder, types, since, signal }: EventOptions,
): AsyncGenerator<MailEvent, void, undefined> {
    let [cursor, failures] = [since, 0];
    for (;;) {
        try {
            const header = { 'Last-Event-ID': cursor, Accept: 'text/event-stream' };
            const query = { folder, types: types?.join(',') };
            const call = { method: 'GET', path: '/api/v1/mail/events', form: 'nothing', query, header } as const;
            const response = await transport.open(call, signal ? { signal } : {});
            for await (const block of blocks(response)) {
                failures = 0;
                if (block.event === 'end') {
                    const { reason } = JSON.parse(block.data || '{}') as { reason?: string };
                    if (reason === 'shutdown') break;
                    throw new ApiError(response.status, reason ?? '', `the stream has ended: ${reason}`, response.headers);
                }
                if (block.event !== '') yield JSON.parse(block.data) as MailEvent;
                cursor = block.id || cursor;
            }
        } catch (error) {
            const unavailable = error instanceof ApiError && error.status >= 500;
            if (!unavailable && !(error instanceof NetworkError)) throw error;
        }
        await pause(Math.min(2 ** failures, MAX_WAIT), signal);
        failures += 1;
    }
}

/** Yields the blocks of a stream (HTML Living Standard, section "Server-sent events"). */
async function* blocks(response: Response): AsyncGenerator<Block, void, undefined> {
    const reader = response.body?.getReader();
    if (!reader) return;
    const decoder = new TextDecoder();
    let [text, block] = ['', { event: '', data: '' } as Block];
    try {
        for (;;) {
            const { done, value } = await withTimeout(reader.read());
            if (done) return;
            text += decoder.decode(value, { stream: true });
            const lines = text.split('\n');
            text = lines.pop() ?? '';
            for (const line of lines) {
                const field = line.replace(/\r$/, '');
                if (field === '') {
                    yield block;
                    block = { event: '', data: '' };
                    continue;
                }
                const [name, content] = split(field);
                if (name === 'id') block.id = content;
                else if (name === 'event') block.event = content;
                else if (name === 'data') block.data += block.data ? `\n${content}` : content;
            }
        }
    } finally {
        await reader.cancel().catch(() => undefined);
    }
}

function split(line: string): [string, string] {
    const colon = line.indexOf(':');
    return colon < 0 ? [line, ''] : [line.slice(0, colon), line.slice(colon + 1).replace(/^ /, '')];
}

async function withTimeout<T>(read: Promise<T>): Promise<T> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const timeout = new Promise<never>((_, reject) => {
        timer = setTimeout(() => reject(new NetworkError('the stream is silent')), SILENCE);
    });
    try {
        return await Promise.race([read, timeout]);
    } catch (error) {
        throw error instanceof NetworkError ? error : new NetworkError('the stream was interrupted', { cause: error });
    } finally {
        clearTimeout(timer);
    }
}
