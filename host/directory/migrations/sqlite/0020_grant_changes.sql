-- The changes that grants made, which their owner can undo. A row is written before its change.
CREATE TABLE grant_changes (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    account_id   TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    grant_id     TEXT   NOT NULL,    -- the rows stay when the grant ends
    at           BIGINT NOT NULL,
    kind         TEXT   NOT NULL,    -- flags, move, delete, copy, import, draft_create, and so on
    state        TEXT   NOT NULL,    -- begun, done, undoing or undone
    subject      TEXT   NOT NULL,    -- the message's number, the draft's id, an address, a path or a Message-ID
    uid          BIGINT,             -- the message's number. NULL if the change concerns no message
    before_place TEXT,               -- the location before: folder id, UIDVALIDITY and IMAP UID
    after_place  TEXT,               -- the location after
    undone_place TEXT,               -- the location after the change was undone
    details      TEXT   NOT NULL,    -- JSON: what is needed to undo the change
    size         BIGINT NOT NULL DEFAULT 0, -- of the stored bytes
    key_id       TEXT   UNIQUE,      -- the id of the key of the chunks. NULL without chunks
    sealed_key   BLOB                -- this key, sealed with the service's key
);
CREATE INDEX grant_changes_by_grant ON grant_changes (account_id, grant_id, id);
CREATE INDEX grant_changes_by_subject ON grant_changes (account_id, grant_id, subject);
CREATE INDEX grant_changes_by_time ON grant_changes (at);
CREATE INDEX grant_changes_with_bytes ON grant_changes (account_id) WHERE key_id IS NOT NULL;

-- The bytes of drafts that grants replaced or deleted.
CREATE TABLE grant_change_chunks (
    key_id    TEXT   NOT NULL REFERENCES grant_changes (key_id) ON DELETE CASCADE,
    number    BIGINT NOT NULL,       -- from 0
    sealed    BLOB   NOT NULL,
    PRIMARY KEY (key_id, number)
);
