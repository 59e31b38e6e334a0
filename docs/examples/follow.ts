// Keeps a copy of a mailbox: the folders, and the numbers and flags of their messages.
//
// Usage: LATCHMAIL_TOKEN=... node follow.ts http://127.0.0.1:8080
//
// Prints the copy as one line of JSON, first after the listing and then after each change. The
// token needs the scope mail:read. The program needs only Node.js 22.18.

type Change = { type: string; uid: number; folder: string; id: string; flags: string[] };
type Message = { folder: string; flags: string[] };

const base = `${process.argv[2]?.replace(/\/$/, '')}/api/v1/mail`;
const authorization = `Bearer ${process.env.LATCHMAIL_TOKEN}`;
// Without events, the service sends its cursor every 20 seconds.
const TIMEOUT = 60_000;

// The copy cannot be continued, so the mailbox must be listed again.
class Outdated extends Error {}
// Another attempt would have the same outcome.
class Refused extends Error {}

// Returns the open response. 410: the cursor has expired. 404: a folder was renamed.
const get = async (path: string, headers: Record<string, string> = {}, signal?: AbortSignal) => {
    signal ??= AbortSignal.timeout(TIMEOUT);
    const response = await fetch(base + path, { headers: { authorization, ...headers }, signal });
    if (response.ok) return response;
    const text = `${response.status} ${await response.text()}`;
    if ([404, 410].includes(response.status)) throw new Outdated(text);
    if (response.status !== 429 && response.status < 500) throw new Refused(text);
    throw new Error(text);
};

const getJson = async (path: string): Promise<any> => (await get(path)).json();

const folderPaths = async () => {
    const { folders }: { folders: { id: string; path: string }[] } = await getJson('/folders');
    return new Map(folders.map(({ id, path }) => [id, path]));
};

// A copy of the mailbox. A program that stores it writes it together with the cursor.
class Copy {
    cursor = '';
    folders = new Map<string, string>();
    messages = new Map<number, Message>();

    static async of() {
        const copy = new Copy();
        // The cursor comes first: the stream repeats what changes during the listing.
        copy.cursor = (await getJson('/changes')).cursor;
        copy.folders = await folderPaths();
        for (const [folder, path] of copy.folders) {
            const listing = `/folders/${encodeURIComponent(path)}/messages?limit=100`;
            for (let rest = ''; ; ) {
                const page = await getJson(listing + rest);
                for (const { uid, flags } of page.messages) {
                    copy.messages.set(uid, { folder, flags });
                }
                if (page.nextCursor === null) break;
                rest = `&cursor=${page.nextCursor}`;
            }
        }
        const after = await folderPaths();
        const same = [...after].every(([id, path]) => copy.folders.get(id) === path);
        if (!same || after.size !== copy.folders.size) throw new Outdated('a folder has changed');
        return copy;
    }

    // Applies a change. To apply a change twice has no further effect.
    apply({ type, uid, folder, id, flags }: Change) {
        if (type === 'folderCreated' || type === 'folderRenamed') {
            this.folders.set(id, folder);
        } else if (type === 'folderDeleted') {
            this.folders.delete(id);
            for (const [uid, message] of this.messages) {
                if (message.folder === id) this.messages.delete(uid);
            }
        } else if (type === 'deleted') {
            this.messages.delete(uid);
        } else if (['created', 'flags', 'moved'].includes(type)) {
            const found = [...this.folders].find(([, path]) => path === folder);
            if (!found) throw new Outdated(`unknown folder ${folder}`);
            this.messages.set(uid, { folder: found[0], flags });
        }
    }

    print() {
        const content: Record<string, Record<number, string[]>> = {};
        for (const path of this.folders.values()) content[path] = {};
        for (const [uid, { folder, flags }] of this.messages) {
            content[this.folders.get(folder) ?? '']![uid] = [...flags].sort();
        }
        console.log(JSON.stringify(content));
    }
}

// Yields the fields of each block of the stream. Each field of this service is one line.
async function* blocks(cursor: string) {
    const abort = new AbortController();
    const timer = setTimeout(() => abort.abort(), TIMEOUT);
    try {
        const response = await get('/events', { 'last-event-id': cursor }, abort.signal);
        let text = '';
        for await (const piece of response.body!.pipeThrough(new TextDecoderStream())) {
            timer.refresh();
            const complete = (text + piece).split('\n\n');
            text = complete.pop() ?? '';
            for (const block of complete) {
                const fields = block.split('\n').map((line) => line.split(/: (.*)/s));
                yield new Map(fields.map(([name, value]) => [name, value ?? '']));
            }
        }
    } finally {
        clearTimeout(timer);
        abort.abort();
    }
}

// Applies events until the stream ends. Returns the reason.
const follow = async (copy: Copy): Promise<string> => {
    for await (const block of blocks(copy.cursor)) {
        const event = block.get('event') ?? '';
        if (event === 'end') return JSON.parse(block.get('data')!).reason;
        if (/^(message|folder)\./.test(event)) {
            copy.apply(JSON.parse(block.get('data')!).data);
            copy.print();
        }
        copy.cursor = block.get('id') ?? copy.cursor;
    }
    return 'interrupted';
};

let copy: Copy | undefined;
for (let wait = 500; ; ) {
    const before = copy?.cursor;
    try {
        if (!copy) {
            copy = await Copy.of();
            copy.print();
        }
        const reason = await follow(copy);
        if (['rights_changed', 'cursor_expired'].includes(reason)) copy = undefined;
        else if (!['shutdown', 'interrupted'].includes(reason)) throw new Refused(reason);
    } catch (error) {
        if (error instanceof Refused) {
            console.error(`the service has ended the stream or refused it: ${error.message}`);
            process.exit(1);
        }
        if (error instanceof Outdated) copy = undefined;
        else console.error(`the connection failed: ${error}`);
    }
    // The waits grow until the stream continues.
    wait = copy && copy.cursor !== before ? 1_000 : Math.min(2 * wait, 60_000);
    await new Promise((resume) => setTimeout(resume, wait));
}
