-- Mailboxes that are shared: their members, what was granted to each, and the key that guests act with.

-- A mailbox is its owner's account; the owner is no member of it.
CREATE TABLE team_members (
    id         TEXT   PRIMARY KEY,              -- opaque
    mailbox    TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    member     TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    joined_at  BIGINT NOT NULL,
    UNIQUE (mailbox, member),
    CHECK (mailbox <> member)
);
CREATE INDEX team_members_by_member ON team_members (member);

-- What a member may do is what all of its grants say together.
CREATE TABLE team_grants (
    id             TEXT   PRIMARY KEY,          -- opaque
    membership     TEXT   NOT NULL REFERENCES team_members (id) ON DELETE CASCADE,
    resource_kind  TEXT   NOT NULL CHECK (resource_kind IN ('mailbox', 'folder', 'alias', 'alias_set')),
    resource_id    TEXT,                        -- a folder's id; an address; 'all', 'own' or 'domain:' and a domain; NULL for the mailbox
    uid_validity   BIGINT,                      -- the folder's when it was granted: one made anew under its name is another
    resource_label TEXT,
    rights         TEXT   NOT NULL,             -- in canonical order, a blank between two
    created_at     BIGINT NOT NULL,
    CHECK ((resource_kind = 'mailbox') = (resource_id IS NULL)),
    CHECK ((resource_kind = 'folder') = (uid_validity IS NOT NULL))
);
CREATE INDEX team_grants_by_membership ON team_grants (membership);

-- The app password that acts for every guest of a mailbox. Without it nobody is one.
CREATE TABLE team_keys (
    mailbox         TEXT   PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE,
    app_password_id TEXT   NOT NULL UNIQUE REFERENCES app_passwords (id) ON DELETE CASCADE,
    sealed_password BYTEA   NOT NULL             -- the app password, sealed under the service's key
);

-- The guest who made an alias; NULL for its owner's own.
ALTER TABLE addresses ADD COLUMN made_by TEXT;

-- The mail server's id of a folder, where it has such (X-GUID, MAILBOXID of RFC 8474): it goes before the service's own id.
ALTER TABLE folders ADD COLUMN object_id TEXT;
