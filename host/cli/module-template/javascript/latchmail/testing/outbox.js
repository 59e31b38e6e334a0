// The interface `outbox` of the fake host. A sent message is stored in the folder `Sent` and in
// `host.sent`. The message is not delivered.

import { check, failing, hostError } from './errors.js';

const HEADER = /^(?!x-(spam|virus))(x-[\w-]+|list-[\w-]+|auto-submitted|importance|precedence)$/i;
const REPEATABLE = /^x-/i;
const MEDIA_TYPE = /^[^/\p{Cc}]+\/[^/\p{Cc}]+$/u;
const CONTENT_ID = /^[!-;=-~]+$/;

const HOUR = 3_600_000n;

const isLine = (text) => !/\p{Cc}/u.test(text);
const isName = (text) => text !== '' && isLine(text);
const isPerson = ({ name, address }) => isLine(name) && isLine(address) && /^\S+@[^\s@]+$/.test(address);
const isUnique = (list) => new Set(list).size === list.length;

// Returns the functions. `account` returns the caller's account, and throws an error if the caller
// does not have the scope. `now` returns the time.
export function outbox(account, now) {
  const allows = (scope) => {
    try {
      account(scope);
      return true;
    } catch {
      return false;
    }
  };
  return {
    send: (draft, { key, sendAt, undoSeconds }) =>
      failing('file-not-found', () => {
        const sender = account('mail:send');
        const isNow = sendAt === undefined && undoSeconds === undefined;
        check(isNow, 'invalid_send_time', 'The fake host sends only at once');
        checkSender(sender, draft.from);
        if (draft.files.some(({ source }) => ['part', 'message'].includes(source.tag))) {
          account('mail:read');
        }
        const given = JSON.stringify(draft, comparable);
        const earlier = sender.sent.find((one) => key !== undefined && one.key === key);
        if (earlier !== undefined) {
          const text = 'This Idempotency-Key was used for another message';
          check(earlier.given === given, 'idempotency_key_reused', text, 'conflict');
          return { ...earlier.result, replayed: true };
        }
        checkDraft(draft);
        const relations = ['reply', 'forward', undefined];
        check(relations.includes(draft.original?.relation), 'invalid_draft', 'Invalid relation');
        const files = draft.files.map((file, index) => findFile(sender, file, index, now()));
        const message = sender.mail.put({ ...draft, folder: 'Sent', flags: ['\\Seen'], date: now(), messageId: '', files });
        if (allows('mail:read')) {
          const flag = draft.original?.relation === 'forward' ? '$Forwarded' : '\\Answered';
          const originals = draft.original ? sender.mail.known([draft.original.uid]) : sender.mail.withMessageId(draft.inReplyTo);
          originals.forEach(({ detail: { summary } }) => {
            summary.flags = [...new Set([...summary.flags, flag])];
          });
        }
        const result = { state: 'sent', messageId: message.detail.messageId, savedTo: 'Sent', replayed: false };
        sender.sent.push({ draft, key, files, given, result });
        return result;
      }),
    upload: (filename, contentType, content) => {
      const { uploads } = account('mail:send');
      check(isName(filename) && MEDIA_TYPE.test(contentType), 'invalid_draft', 'Invalid file name or media type');
      check(content.size() <= 25n << 20n, 'upload_too_large', 'An upload must be at most 25 MB', 'too-large');
      const id = `upload${uploads.size + 1}`;
      const uploaded = { id, filename, contentType, size: content.size(), expiresAt: now() + HOUR };
      uploads.set(id, { ...uploaded, content: content.bytes() });
      return uploaded;
    },
  };
}

// Makes drafts comparable as JSON.
function comparable(_, value) {
  if (typeof value?.bytes === 'function') {
    return Buffer.from(value.bytes()).toString('hex');
  }
  return typeof value === 'bigint' ? `${value}` : value;
}

function checkSender({ address, aliases }, from) {
  check(from, 'invalid_draft', 'Invalid sender');
  const own = [address, ...aliases.filter(({ active }) => active).map((alias) => alias.address)];
  const text = 'You can only send from your own address or active aliases';
  check(own.includes(from.address.toLowerCase()), 'sender_not_allowed', text, 'denied');
}

function checkDraft({ from, to, cc, bcc, replyTo, subject, headers, files }) {
  const recipients = [...to, ...cc, ...bcc];
  const valid = (condition, text) => check(condition, 'invalid_draft', text);
  valid(recipients.length > 0, 'A message needs a recipient');
  valid(recipients.every(isPerson), 'A recipient is not an address');
  valid(isLine(subject), 'The subject must be one line');
  valid(replyTo.every(isPerson) && isLine(from.name), 'A sender or an address for replies is invalid');
  const allowed = ({ name, value }) => HEADER.test(name) && value.trim() !== '' && isLine(value);
  valid(headers.every(allowed), 'A header field is not allowed');
  const once = headers.map(({ name }) => name.toLowerCase()).filter((name) => !REPEATABLE.test(name));
  valid(isUnique(once), 'A header field occurs twice');
  for (const { source, filename, contentType, contentId } of files) {
    const named = filename === undefined ? source.tag !== 'blob' : isName(filename);
    valid(named && MEDIA_TYPE.test(contentType ?? 'a/b'), "A file's name or media type is invalid");
    valid(CONTENT_ID.test(contentId ?? 'id'), 'A Content-ID is invalid');
  }
  const ids = files.map(({ contentId }) => contentId).filter((id) => id !== undefined);
  valid(isUnique(ids), 'A Content-ID occurs twice');
}

// Returns a file with the bytes of its source.
function findFile({ mail, uploads }, { source: { tag, val }, ...file }, index, now) {
  const message = mail.messages.find(({ uid }) => uid === (val.uid ?? val));
  const sources = {
    blob: () => ({ contentType: 'application/octet-stream', content: val.bytes() }),
    upload: () => (uploads.get(val)?.expiresAt > now ? uploads.get(val) : undefined),
    part: () => {
      const attachment = message?.detail.attachments[val.index];
      return attachment && { ...attachment, content: message.detail.contents[val.index].bytes() };
    },
    message: () =>
      message && {
        filename: `${message.detail.summary.subject || 'message'}.eml`,
        contentType: 'message/rfc822',
        content: mail.raw(message),
      },
  };
  const found = sources[tag]();
  if (found === undefined) {
    throw hostError('file-not-found', index);
  }
  const { filename = found.filename, contentType = found.contentType, contentId, inline } = file;
  return { filename, contentType, contentId, inline, content: found.content };
}
