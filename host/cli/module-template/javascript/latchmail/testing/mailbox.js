// The interface `mailbox` of the fake host. Each function checks the scope of the caller.

import { Blob } from './blob.js';
import { check, failing, hostError } from './errors.js';
import { headerFields, parse, select } from './message.js';
import { getThread, listThreads, searchMessages } from './search.js';

// The conditions of `listMessages`.
const FILTERS = {
  unread: ({ flags }) => !flags.includes('\\Seen'),
  flagged: ({ flags }) => flags.includes('\\Flagged'),
};

// Returns the functions. `account` returns the caller's account, and throws an error if the caller
// does not have the scope. `now` returns the time.
export function mailbox(account, now) {
  const read = () => account('mail:read').mail;
  const write = () => account('mail:write').mail;

  const change = (uids, ifVersion, act) =>
    failing('version-mismatch', () => {
      const mail = write();
      const known = mail.known(uids);
      if (ifVersion !== undefined) {
        check(uids.length === 1, 'invalid_field', 'if-version needs exactly one message');
        if (known.some((message) => mail.versions(message).state !== ifVersion)) {
          throw hostError('version-mismatch');
        }
      }
      act(mail, known);
      return known.map(({ uid }) => uid);
    });

  const withBlobs = (detail) => {
    const blob = (text) => (text === undefined ? undefined : new Blob(text));
    const [text, html, newText] = [detail.text, detail.html, detail.newText].map(blob);
    return { detail: { ...detail, text: undefined, html: undefined, newText: undefined }, text, html, newText };
  };

  // Returns the messages that exist, in the order of `uids`.
  const several = (uids, limit) => {
    const mail = read();
    check(uids.length <= limit, 'too_many_messages', `At most ${limit} messages at once`, 'too-large');
    return uids.filter((uid) => mail.messages.some((one) => one.uid === uid)).map((uid) => mail.detail(uid));
  };

  return {
    listFolders: () => read().list(),
    listMessages: (query) => listMessages(read(), query),
    getMessage: (uid) => read().detail(uid),
    getMessageWithBlobs: (uid) => withBlobs(read().detail(uid)),
    getAttachment: (uid, index) => {
      const mail = read();
      const message = mail.find(uid);
      const { attachments, contents } = message.detail;
      const version = mail.versions(message).content;
      return attachments[index] && { attachment: attachments[index], content: contents[index], version };
    },
    listChanges: (since, folder, limit) => failing('cursor-expired', () => listChanges(read(), since, folder, limit)),
    searchMessages: (search) => failing('invalid-query', () => searchMessages(read(), search)),
    listThreads: (folder, page) => failing('index-not-ready', () => listThreads(read(), folder, page)),
    getThread: (id, page) => failing('index-not-ready', () => getThread(read(), id, page)),
    setFlags: (uids, flags, action, ifVersion) =>
      change(uids, ifVersion, (mail, known) => mail.setFlags(known, flags, action)),
    moveMessages: (uids, destination, ifVersion) =>
      change(uids, ifVersion, (mail, known) => mail.move(known, destination)),
    deleteMessages: (uids, ifVersion) => change(uids, ifVersion, (mail, known) => mail.delete(known)),
    trashMessages: (uids, ifVersion) => change(uids, ifVersion, (mail, known) => mail.trash(known)),
    restoreMessages: (uids) => {
      const mail = write();
      return mail.restore(mail.known(uids)).map(({ uid }) => uid);
    },
    copyMessages: (uids, destination) => {
      const mail = write();
      return mail.copy(mail.known(uids), destination);
    },
    getVersion: (uid) => {
      const mail = read();
      return mail.versions(mail.find(uid));
    },
    createFolder: (path) => write().createFolder(path),
    renameFolder: (folder, path) => write().renameFolder(folder, path),
    deleteFolder: (folder, messages) => write().deleteFolder(folder, messages),
    getQuota: () => read().quota,
    getRawMessage: (uid) => {
      const mail = read();
      const message = mail.find(uid);
      const { subject } = message.detail.summary;
      return { subject, content: new Blob(mail.raw(message)), version: mail.versions(message).content };
    },
    getHeader: (uid, names) => {
      const mail = read();
      return { fields: select(headerFields(mail.raw(mail.find(uid))), names), truncated: false };
    },
    getSummaries: (uids) => several(uids, 100).map(({ summary, folder }) => ({ summary, folder, snippet: undefined })),
    getMessagesWithBlobs: (uids) => several(uids, 20).map(withBlobs),
    importMessage: (folder, message, flags, receivedAt, key) => {
      const mail = write();
      const bytes = message.bytes();
      const date = receivedAt ?? now();
      const given = JSON.stringify([folder, Buffer.from(bytes).toString('hex'), flags, `${receivedAt}`]);
      const earlier = key === undefined ? undefined : mail.imports.get(key);
      if (earlier !== undefined) {
        const text = 'This Idempotency-Key was used for another message';
        check(earlier.given === given, 'idempotency_key_reused', text, 'conflict');
        return { ...earlier.imported, replayed: true };
      }
      const uid = mail.import({ ...parse(bytes), folder, flags, date, bytes });
      const imported = { uid, folder, replayed: false };
      mail.imports.set(key, { given, imported });
      return imported;
    },
  };
}

function listMessages(mail, { folder, filters, start, limit }) {
  check(limit >= 1 && limit <= 100, 'invalid_paging_parameters', 'limit must be between 1 and 100');
  for (const filter of filters) {
    check(Object.hasOwn(FILTERS, filter), 'invalid_field', `There is no filter "${filter}"`);
  }
  mail.folder(folder);
  const fulfills = ({ detail }) => filters.every((filter) => FILTERS[filter](detail.summary));
  const matching = mail.in(folder).filter(fulfills).toReversed();
  // A cursor contains the query and the arrival of the last message of the page.
  const prefix = `${folder} ${filters.toSorted()} `;
  let rest = matching;
  if (start.tag === 'cursor') {
    const arrival = start.val.startsWith(prefix) ? Number(start.val.slice(prefix.length)) : 0;
    check(arrival > 0, 'invalid_cursor', 'Invalid cursor');
    rest = matching.filter((message) => message.arrival < arrival);
  } else {
    rest = matching.slice(start.val);
  }
  const page = rest.slice(0, limit);
  const next = rest.length > limit ? `${prefix}${page.at(-1).arrival}` : undefined;
  return { messages: page.map(mail.summary), total: matching.length, next };
}

// Returns the changes since a cursor. A cursor contains the number of earlier changes, and the
// folder. Unlike the service, the fake host does not collapse several changes to one message.
function listChanges(mail, since, folder, limit) {
  check(limit >= 1 && limit <= 500, 'invalid_paging_parameters', 'The limit must be 1 to 500');
  if (folder !== undefined) {
    mail.folder(folder);
  }
  const suffix = folder === undefined ? '' : ` ${folder}`;
  const start = since === undefined ? mail.changes.length : Number(/^\d+/.exec(since)?.[0] ?? Number.NaN);
  if ((since !== undefined && since !== `${start}${suffix}`) || !(start <= mail.changes.length)) {
    throw hostError('cursor-expired');
  }
  const end = Math.min(start + limit, mail.changes.length);
  const changes = mail.changes.slice(start, end).map((change) => seenIn(change, folder));
  return { cursor: `${end}${suffix}`, more: end < mail.changes.length, changes: changes.filter((change) => change) };
}

// Returns a change as it appears in one folder. Returns undefined if the change does not concern
// the folder.
function seenIn(change, folder) {
  const { tag, val } = change;
  if (folder === undefined) {
    return change;
  }
  if (tag === 'moved') {
    if (val.message.folder === folder) {
      return { tag: 'created', val: val.message };
    }
    return val.from === folder ? { tag: 'deleted', val: { uid: val.message.uid, folder } } : undefined;
  }
  const path = tag === 'folder-renamed' ? val.folder.folder : val.folder;
  return path === folder ? change : undefined;
}
