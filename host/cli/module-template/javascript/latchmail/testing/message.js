// Messages of the fake host, and their stored form. A message has one text and no encodings.

import { Blob } from './blob.js';
import { check } from './errors.js';

const FIELD_NAME = /^[!-9;-~]+$/;

const length = (text) => new TextEncoder().encode(text ?? '').length;

// Parses `address` or `Name <address>`.
export function address(text) {
  const [, name, address] = /^(.*?)\s*<(.*)>$/.exec(text) ?? [text, '', text];
  return { name, address };
}

// Returns the text without quoted lines. Without a text, returns the HTML without its tags.
function newText(text, html) {
  const lines = text?.split(/\r?\n/).filter((line) => !line.startsWith('>'));
  return (lines?.join('\n') ?? html?.replace(/<[^>]*>/g, ' '))?.trim();
}

// Creates a message from the values of a test. Addresses are texts or records. Returns the members
// of `detail` that do not change, and the content of the files.
export function compose({
  from,
  to = [],
  cc = [],
  replyTo = [],
  subject = '',
  text,
  html,
  date,
  flags = [],
  messageId = '',
  inReplyTo,
  references = inReplyTo === undefined ? [] : [inReplyTo],
  files = [],
}) {
  const addresses = (list) => list.map((one) => (typeof one === 'string' ? address(one) : one));
  const contents = files.map(({ content }) => new Blob(content));
  const sizes = contents.map((content) => content.size());
  const written = newText(text, html);
  return {
    summary: {
      from: addresses([from]),
      to: addresses(to),
      subject,
      date,
      flags: [...flags],
      size: sizes.reduce((sum, size) => sum + size, BigInt(length(subject) + length(text) + length(html))),
      preview: [...(text ?? written ?? '').split(/\s+/).join(' ').trim()].slice(0, 256).join(''),
    },
    cc: addresses(cc),
    replyTo: addresses(replyTo),
    messageId,
    inReplyTo,
    references,
    text,
    html,
    newText: written,
    attachments: files.map(({ filename, contentType, contentId, inline = false }, index) => ({
      index,
      filename,
      contentType,
      size: sizes[index],
      contentId,
      disposition: inline ? 'inline' : 'attachment',
    })),
    contents,
  };
}

// Returns the stored form of a message. The content of its attachments follows the text.
export function write({ summary, cc, messageId, inReplyTo = '', references, text, html, contents }) {
  const addresses = (list) => list.map(({ name, address }) => (name ? `${name} <${address}>` : address)).join(', ');
  const fields = {
    From: addresses(summary.from),
    To: addresses(summary.to),
    Cc: addresses(cc),
    Subject: summary.subject,
    Date: new Date(Number(summary.date)).toUTCString(),
    'Message-ID': messageId,
    'In-Reply-To': inReplyTo,
    References: references.join(' '),
  };
  const header = Object.entries(fields).filter(([, value]) => value !== '');
  const lines = header.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  return Buffer.concat([Buffer.from(`${lines}\r\n${text ?? html ?? ''}`), ...contents.map((content) => content.bytes())]);
}

// Returns the unfolded header fields of a stored message.
export function headerFields(bytes) {
  const [header] = new TextDecoder().decode(bytes).split(/\r?\n\r?\n/, 1);
  const lines = header.replace(/\r?\n[ \t]+/g, ' ').split(/\r?\n/);
  return lines.map((line) => {
    const [, name, value] = /^([^:]*):?(.*)$/.exec(line);
    return { name: name.trim(), value: value.trim() };
  });
}

// Parses a message that is imported.
export function parse(bytes) {
  const text = new TextDecoder().decode(bytes);
  check(/^[!-9;-~]+[ \t]*:/.test(text), 'invalid_message', 'Invalid message');
  check(!text.includes('\0'), 'invalid_message', 'Invalid message: it contains a NUL byte');
  const fields = headerFields(bytes);
  const value = (name) => fields.find((field) => field.name.toLowerCase() === name)?.value;
  return {
    from: value('from') ?? '',
    to: value('to')?.split(', '),
    subject: value('subject'),
    messageId: value('message-id'),
    inReplyTo: value('in-reply-to'),
    text: text.slice(/\r?\n\r?\n|$/.exec(text).index).replace(/^\r?\n\r?\n/, ''),
  };
}

// Checks the names of header fields, and returns the fields with these names.
export function select(fields, names) {
  check(names === undefined || names.length <= 100, 'invalid_headers_parameter', 'At most 100 names of header fields at once');
  for (const name of names ?? []) {
    check(FIELD_NAME.test(name), 'invalid_headers_parameter', `"${name}" is not the name of a header field`);
  }
  const wanted = names?.map((name) => name.toLowerCase());
  return fields.filter(({ name }) => wanted === undefined || wanted.includes(name.toLowerCase()));
}
