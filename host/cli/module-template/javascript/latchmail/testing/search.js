// Searches and threads of the fake host. A search finds messages that contain the query as literal
// text. The fake host does not interpret operators, but checks the values of `before:` and
// `after:`.

import { check, hostError } from './errors.js';

const INVALID_DATE = /(?:^| )(?:before|after):(?!\S{10}(?: |$))/;

function checkPage({ limit }) {
  check(limit >= 1 && limit <= 100, 'invalid_paging_parameters', 'limit must be between 1 and 100');
}

const paged = (list, { offset, limit }) => list.slice(offset, offset + limit);

const hit = (mail, message, snippet) => ({ summary: mail.summary(message), folder: message.folder, snippet });

// Returns whether a message contains a text in lower case.
function contains({ detail: { summary, cc, text, html } }, query) {
  const people = [...summary.from, ...summary.to, ...cc].flatMap(({ name, address }) => [name, address]);
  return [summary.subject, text ?? '', html ?? '', ...people].some((part) => part.toLowerCase().includes(query));
}

// Returns the plain text of a message with the position of the first match.
function snippet({ detail: { text } }, query) {
  const at = text?.toLowerCase().indexOf(query) ?? -1;
  if (at < 0) {
    return undefined;
  }
  // Positions are in code points.
  const start = [...text.slice(0, at)].length;
  return { text, matches: [{ start, end: start + [...query].length }] };
}

export function searchMessages(mail, { query, syntax, folder, sort, page }) {
  checkPage(page);
  const valid = query !== '' && Buffer.byteLength(query) <= 1000 && !/\p{Cc}/u.test(query);
  const text = 'The search query must be 1 to 1000 bytes without control characters';
  check(valid, 'invalid_search_term', text);
  check(['operators', 'plain'].includes(syntax), 'invalid_field', `There is no query syntax "${syntax}"`);
  check(['newest', 'relevance'].includes(sort), 'invalid_field', `There is no sort order "${sort}"`);
  if (syntax === 'operators' && INVALID_DATE.test(query)) {
    throw hostError('invalid-query', 'Invalid search query: the date must be YYYY-MM-DD');
  }
  const hidden = ['\\Junk', '\\Trash'];
  const searched = folder === undefined ? mail.folders.filter(({ role }) => !hidden.includes(role)) : [mail.folder(folder)];
  const wanted = query.toLowerCase();
  const found = searched.flatMap(({ path }) => mail.in(path)).filter((message) => contains(message, wanted));
  const hits = found.map((message) => hit(mail, message, snippet(message, wanted)));
  const inText = (one) => Number(sort === 'relevance' && one.snippet !== undefined);
  const position = ({ summary }) => (folder === undefined ? Number(summary.date) : summary.seq);
  const uid = ({ summary }) => Number(summary.uid);
  hits.sort((a, b) => inText(b) - inText(a) || position(b) - position(a) || uid(b) - uid(a));
  return { hits: paged(hits, page), total: hits.length, index: 'ready' };
}

// Returns all messages, newest first.
function newest(mail) {
  const order = ({ uid, detail }) => [Number(detail.summary.date), Number(uid)];
  const messages = mail.messages.toSorted((a, b) => order(b)[0] - order(a)[0] || order(b)[1] - order(a)[1]);
  return messages.map((message) => hit(mail, message));
}

const threadOf = ({ summary }) => summary.threadId;

export function listThreads(mail, folder, page) {
  checkPage(page);
  if (folder !== undefined) {
    mail.folder(folder);
  }
  const all = newest(mail);
  const ids = [...new Set(all.map(threadOf))];
  const grouped = ids.map((id) => all.filter((one) => threadOf(one) === id));
  const threads = grouped.filter((hits) => folder === undefined || hits.some((one) => one.folder === folder));
  return { threads: paged(threads, page).map(describe), total: threads.length };
}

// Returns a thread in the form of the contract. `hits` are its messages, newest first.
function describe(hits) {
  const senders = hits.toReversed().flatMap(({ summary }) => summary.from);
  const isFirst = ({ address }, index) => senders.findIndex((one) => one.address === address) === index;
  return {
    id: threadOf(hits[0]),
    subject: hits.at(-1).summary.subject,
    count: hits.length,
    unread: hits.filter(({ summary }) => !summary.flags.includes('\\Seen')).length,
    participants: senders.filter(isFirst).slice(0, 50),
    newest: hits[0],
  };
}

export function getThread(mail, id, page) {
  checkPage(page);
  const hits = newest(mail).filter((one) => threadOf(one) === id);
  if (hits.length === 0) {
    throw hostError('not-found');
  }
  return { id, messages: paged(hits, page).toReversed(), total: hits.length };
}
