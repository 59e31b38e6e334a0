/**
 * The client of the Latchmail API.
 *
 * `new Latchmail({ baseUrl, token }).mail.listFolders()` returns the folders of the mailbox. The
 * operations are generated from the API description. This file adds pages and streams of events.
 */

import { streamEvents, type EventOptions, type MailEvent } from './events.js';
import { Areas } from './generated.js';
import { Transport, type Settings } from './transport.js';

export { ApiError, NetworkError, type Options, type Settings } from './transport.js';
export { paginate } from './pages.js';
export type { EventOptions, MailEvent } from './events.js';
export * from './generated.js';

/** The client of one account. */
export class Latchmail extends Areas {
    private readonly transport: Transport;

    constructor(settings: Settings) {
        const transport = new Transport(settings);
        super(transport);
        this.transport = transport;
    }

    /**
     * Yields the events of the mailbox as they happen. After an interruption, the stream continues
     * with the event after the last one. Ends with an error if the service ends the stream, for
     * example because the token was revoked.
     */
    events(options: EventOptions = {}): AsyncGenerator<MailEvent, void, undefined> {
        return streamEvents(this.transport, options);
    }
}
