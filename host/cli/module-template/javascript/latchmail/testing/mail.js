// The folders and messages of an account of the fake host, and their changes.

import { createHash } from 'node:crypto';

import { check, hostError } from './errors.js';
import { compose, write } from './message.js';

const ROLES = ['\\Inbox', '\\Sent', '\\Drafts', '\\Archive', '\\Junk', '\\Trash'];
const SETTABLE = ['\\Seen', '\\Answered', '\\Flagged', '\\Draft'];
const KEYWORD = /^[!#$&'+-[^-z|}~]{1,100}$/;

const changed = ({ uid, folder, detail }) => ({ uid, folder, flags: [...detail.summary.flags] });
const contains = (parent, path) => path === parent || path.startsWith(`${parent}/`);
const canonical = (path) => path.replace(/^inbox(?=\/|$)/i, 'INBOX');

const conflict = (valid, code, text) => check(valid, code, text, 'conflict');

// Returns the path of a new folder. Throws an error if a folder cannot have this path.
function newPath(path) {
  const valid = path.split('/').every((name) => !['', '.', '..'].includes(name)) && !/^~|\p{Cc}/u.test(path);
  check(valid && Buffer.byteLength(path) <= 2000, 'invalid_folder_path', 'Invalid folder path');
  return canonical(path);
}

// Returns the flags with their canonical names. Throws an error if a client cannot set a flag.
function settable(flags) {
  return flags.map((flag) => {
    const known = SETTABLE.find((one) => one.toLowerCase() === flag.toLowerCase());
    check(known ?? KEYWORD.test(flag), 'invalid_flag_data', 'The flags contain a flag that clients cannot set');
    return known ?? flag;
  });
}

export class Mail {
  folders = ['INBOX', 'Sent', 'Drafts', 'Archive', 'Junk', 'Trash'].map((path, index) => ({
    id: `folder${index}`,
    path,
    role: ROLES[index],
  }));

  // The messages of all folders, in the order of their arrival in their folder.
  messages = [];
  changes = [];
  imports = new Map();
  quota = { storage: {}, messages: {} };
  #arrivals = 0;
  #uids = 0n;
  #folderIds = ROLES.length;

  // Returns a folder, and throws an error if the folder does not exist.
  folder(path) {
    const found = this.folders.find((one) => one.path === path);
    if (found === undefined) {
      throw hostError('not-found');
    }
    return found;
  }

  has = (path) => this.folders.some((one) => one.path === path);

  // Returns the messages of a folder, oldest first.
  in = (path) => this.messages.filter(({ folder }) => folder === path);

  // Returns a message, and throws an error if the message does not exist.
  find(uid) {
    const found = this.messages.find((one) => one.uid === uid);
    if (found === undefined) {
      throw hostError('not-found');
    }
    return found;
  }

  // Returns the messages that exist, in the order of their numbers and without duplicates.
  known(uids) {
    check(uids.length <= 1000, 'too_many_messages', 'At most 1000 messages at once', 'too-large');
    const found = this.messages.filter(({ uid }) => uids.includes(uid));
    return found.sort((a, b) => Number(a.uid - b.uid));
  }

  // Returns the messages with a Message-ID.
  withMessageId(messageId) {
    return this.messages.filter((one) => one.detail.messageId === messageId);
  }

  // Stores a message, and creates its folder if the folder does not exist.
  put({ folder = 'INBOX', ...letter }) {
    if (!this.has(folder)) {
      this.#addFolder(folder);
    }
    const detail = compose(letter);
    this.#uids += 1n;
    detail.messageId ||= `<${this.#uids}@example.test>`;
    const [original] = this.withMessageId(detail.inReplyTo);
    const threadId = original?.detail.summary.threadId ?? `thread${this.#uids}`;
    detail.summary = { uid: this.#uids, ...detail.summary, threadId };
    return this.#store({ uid: this.#uids, folder, detail });
  }

  #store(message) {
    this.#arrive(message);
    this.changes.push({ tag: 'created', val: changed(message) });
    return message;
  }

  // Puts a message at the end of its folder.
  #arrive(message) {
    this.#arrivals += 1;
    message.arrival = this.#arrivals;
    this.messages.push(message);
  }

  summary = (message) => ({ ...message.detail.summary, seq: this.in(message.folder).indexOf(message) + 1 });

  // Returns a message in the form of the contract.
  detail(uid) {
    const message = this.find(uid);
    const { contents, ...detail } = message.detail;
    return {
      authentication: { verdict: 'none' },
      spam: { verdict: 'none' },
      truncated: false,
      ...detail,
      summary: this.summary(message),
      folder: message.folder,
      version: this.versions(message).state,
    };
  }

  raw = ({ raw, detail }) => raw ?? write(detail);

  versions({ uid, folder, detail: { summary } }) {
    const state = JSON.stringify([`${uid}`, folder, summary.flags.toSorted(), summary.threadId]);
    return { state: createHash('sha256').update(state).digest('hex'), content: `content${uid}` };
  }

  import({ folder, flags, bytes, ...letter }) {
    const message = this.put({ folder: this.folder(folder).path, flags: settable(flags), ...letter });
    message.raw = bytes;
    message.detail.summary.size = BigInt(bytes.length);
    return message.uid;
  }

  setFlags(messages, flags, action) {
    const given = settable(flags);
    check(given.length > 0 || action === 'replace', 'invalid_flag_data', 'The flags are empty');
    for (const message of messages) {
      const { summary } = message.detail;
      const keeps = { add: () => true, remove: (flag) => !given.includes(flag), replace: (flag) => flag === '\\Deleted' };
      const kept = summary.flags.filter(keeps[action]);
      summary.flags = action === 'remove' ? kept : [...new Set([...kept, ...given])];
      this.changes.push({ tag: 'flags', val: changed(message) });
    }
  }

  move(messages, destination) {
    const { path } = this.folder(destination);
    for (const message of messages.filter(({ folder }) => folder !== path)) {
      message.previous = this.folder(message.folder);
      message.folder = path;
      this.messages.splice(this.messages.indexOf(message), 1);
      this.#arrive(message);
      this.changes.push({ tag: 'moved', val: { message: changed(message), from: message.previous.path } });
    }
  }

  delete(messages) {
    this.messages = this.messages.filter((one) => !messages.includes(one));
    this.changes.push(...messages.map(({ uid, folder }) => ({ tag: 'deleted', val: { uid, folder } })));
  }

  copy(messages, destination) {
    const { path: folder } = this.folder(destination);
    return messages.map(({ uid, raw, detail }) => {
      this.#uids += 1n;
      const summary = { ...detail.summary, uid: this.#uids, flags: [...detail.summary.flags] };
      this.#store({ uid: this.#uids, folder, raw, detail: { ...detail, summary } });
      return { uid, copy: this.#uids };
    });
  }

  trash = (messages) => this.move(messages, this.#trash());

  // Moves the messages that are in Trash to their previous folders, and returns them.
  restore(messages) {
    const trash = this.#trash();
    const restored = messages.filter(({ folder }) => folder === trash);
    conflict(restored.length > 0 || messages.length === 0, 'message_not_in_trash', 'The message is not in Trash');
    for (const message of restored) {
      const exists = this.folders.includes(message.previous) && message.previous.path !== trash;
      this.move([message], exists ? message.previous.path : 'INBOX');
    }
    return restored;
  }

  #trash() {
    const found = this.folders.find(({ role }) => role === '\\Trash');
    conflict(found, 'no_trash_folder', 'There is no Trash folder');
    return found.path;
  }

  // Returns a folder in the form of the contract.
  describe(folder) {
    const messages = this.in(folder.path);
    const unseen = messages.filter(({ detail }) => !detail.summary.flags.includes('\\Seen')).length;
    return { ...folder, name: folder.path.split('/').at(-1), delimiter: '/', messages: messages.length, unseen };
  }

  // Returns all folders: first the folders with a role, then the other folders.
  list() {
    const [known, other] = [this.folders.filter(({ role }) => role), this.folders.filter(({ role }) => !role)];
    return [...known, ...other.sort((a, b) => (a.path < b.path ? -1 : 1))].map((one) => this.describe(one));
  }

  #addParents(path) {
    const parent = path.slice(0, Math.max(path.lastIndexOf('/'), 0));
    if (parent !== '' && !this.has(parent)) {
      this.#addFolder(parent);
    }
  }

  // Adds a folder and its missing parents.
  #addFolder(path) {
    this.#addParents(path);
    this.#folderIds += 1;
    const folder = { id: `folder${this.#folderIds}`, path, role: undefined };
    this.folders.push(folder);
    this.changes.push({ tag: 'folder-created', val: { folder: path, id: folder.id } });
    return folder;
  }

  createFolder(given) {
    const path = newPath(given);
    conflict(!this.has(path), 'folder_exists', 'Folder already exists');
    return this.describe(this.#addFolder(path));
  }

  renameFolder(given, target) {
    const folder = this.folder(canonical(given));
    const from = folder.path;
    const renamed = this.folders.filter(({ path }) => contains(from, path));
    conflict(!renamed.some(({ role }) => role), 'folder_has_role', 'This folder has a role and cannot be changed');
    const to = newPath(target);
    if (to === from) {
      return this.describe(folder);
    }
    conflict(!this.has(to), 'folder_exists', 'Folder already exists');
    check(!contains(from, to), 'invalid_folder_path', 'Invalid folder path');
    this.#addParents(to);
    for (const one of renamed) {
      const [old, path] = [one.path, to + one.path.slice(from.length)];
      this.in(old).forEach((message) => {
        message.folder = path;
      });
      one.path = path;
      this.changes.push({ tag: 'folder-renamed', val: { folder: { folder: path, id: one.id }, from: old } });
    }
    return this.describe(folder);
  }

  deleteFolder(given, disposal) {
    const folder = this.folder(canonical(given));
    const { path, id } = folder;
    const empty = () => conflict(disposal !== 'refuse', 'folder_not_empty', 'Folder is not empty');
    conflict(!folder.role, 'folder_has_role', 'This folder has a role and cannot be changed');
    if (this.folders.some((one) => one !== folder && contains(path, one.path))) {
      empty();
      conflict(false, 'folder_has_subfolders', 'Folder has subfolders');
    }
    const messages = this.in(path);
    if (messages.length > 0) {
      empty();
      if (disposal === 'trash') {
        this.trash(messages);
      } else {
        this.messages = this.messages.filter((one) => !messages.includes(one));
      }
    }
    this.folders = this.folders.filter((one) => one !== folder);
    this.changes.push({ tag: 'folder-deleted', val: { folder: path, id } });
  }
}
