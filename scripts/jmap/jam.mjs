// Uses a mailbox with jmap-jam: lists, uploads, creates, sends and downloads.
import assert from "node:assert/strict";
import { setTimeout } from "node:timers/promises";

import { JamClient } from "jmap-jam";

const { JMAP_BASE: base, JMAP_TOKEN: bearerToken, JMAP_ADDRESS: address, JMAP_TO: to } = process.env;
const jam = new JamClient({ sessionUrl: `${base}/.well-known/jmap`, bearerToken });
const accountId = await jam.getPrimaryAccount();

const [mailboxes] = await jam.api.Mailbox.get({ accountId, ids: null });
const byRole = (role) => mailboxes.list.find((mailbox) => mailbox.role === role).id;
const [drafts, sent] = [byRole("drafts"), byRole("sent")];
const [identities] = await jam.api.Identity.get({ accountId, ids: null });
const identity = identities.list.find((one) => one.email === address);

const bytes = new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0, 255]);
const blob = await jam.uploadBlob(accountId, new Blob([bytes], { type: "image/png" }));
assert.equal(blob.size, bytes.length);
const [made] = await jam.api.Email.set({
  accountId,
  create: {
    draft: {
      mailboxIds: { [drafts]: true },
      keywords: { $draft: true, $seen: true },
      from: [{ name: "Ada", email: address }],
      to: [{ email: to }],
      subject: "Greetings from Jam",
      bodyValues: { text: { value: "Hello from Jam." } },
      textBody: [{ partId: "text", type: "text/plain" }],
      attachments: [{ blobId: blob.blobId, type: "image/png", name: "jam.png" }],
    },
  },
});
const emailId = made.created.draft.id;

const [found] = await jam.requestMany((t) => {
  const ids = t.Email.query({ accountId, filter: { inMailbox: drafts, subject: "greetings" } });
  const emails = t.Email.get({
    accountId,
    ids: ids.$ref("/ids"),
    properties: ["subject", "attachments", "bodyValues", "textBody"],
    fetchTextBodyValues: true,
  });
  return { ids, emails };
});
const [email] = found.emails.list;
assert.deepEqual(found.ids.ids, [emailId]);
const [attachment] = email.attachments;
const file = await jam.downloadBlob({
  accountId,
  blobId: attachment.blobId,
  mimeType: "image/png",
  fileName: "jam.png",
});
assert.deepEqual(new Uint8Array(await file.arrayBuffer()), bytes);

const [submitted] = await jam.api.EmailSubmission.set({
  accountId,
  create: { submission: { identityId: identity.id, emailId } },
  onSuccessUpdateEmail: {
    "#submission": { mailboxIds: { [sent]: true }, "keywords/$draft": null },
  },
});
assert.ok(submitted.created.submission, JSON.stringify(submitted));
await setTimeout(100);
const [moved] = await jam.api.Email.get({ accountId, ids: [emailId], properties: ["mailboxIds"] });
assert.deepEqual(moved.list[0].mailboxIds, { [sent]: true });
const [changes] = await jam.api.Email.changes({ accountId, sinceState: made.oldState });
assert.ok(changes.created.includes(emailId));
