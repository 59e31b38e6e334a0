-- Work that the service does without a request. A row is deleted when the work is done.
CREATE TABLE jobs (
    id             TEXT   PRIMARY KEY,  -- opaque
    kind           TEXT   NOT NULL,     -- the name of the handler
    key            TEXT   NOT NULL,     -- of the jobs with the same account, kind and key, one runs
                                        -- at a time
    account_id     TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    due_at         BIGINT NOT NULL,     -- the order of the jobs with the same key
    next_at        BIGINT NOT NULL,     -- the time of the next attempt
    attempts       BIGINT NOT NULL DEFAULT 0, -- the number of leases
    host           TEXT,                -- the host that does the job. NULL if no host does
    leased_until   BIGINT,
    sealed_payload BYTEA  NOT NULL      -- sealed with the service's key
);
CREATE INDEX jobs_by_time ON jobs (next_at);
CREATE INDEX jobs_by_key ON jobs (account_id, kind, key);
CREATE UNIQUE INDEX running_jobs ON jobs (account_id, kind, key) WHERE host IS NOT NULL;

-- Messages that leave later. Each has a job with the same id until its outcome is known.
CREATE TABLE outbox (
    id             TEXT   PRIMARY KEY,  -- opaque
    account_id     TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    member_id      TEXT,                -- the account of the member who sends the message
    state          TEXT   NOT NULL,     -- scheduled, sending, sent, failed, cancelled or unknown
    send_at        BIGINT NOT NULL,
    begun_at       BIGINT,              -- the time of the first submission
    ended_at       BIGINT,              -- the time of the outcome
    message_id     TEXT   NOT NULL,
    draft_id       TEXT,                -- the draft from which the message was sent
    size           BIGINT NOT NULL,     -- of all chunks, in bytes. 0 after the outcome
    error          TEXT,                -- a text for the account
    sealed_key     BYTEA  NOT NULL,     -- the key of the next column and of the chunks,
                                        -- sealed with the service's key
    sealed_details BYTEA  NOT NULL      -- JSON: the envelope, the subject and the recipients
);
CREATE INDEX outbox_by_account ON outbox (account_id, send_at);
CREATE INDEX outbox_by_end ON outbox (ended_at);

-- The bytes of waiting messages.
CREATE TABLE outbox_chunks (
    entry_id TEXT   NOT NULL REFERENCES outbox (id) ON DELETE CASCADE,
    part     TEXT   NOT NULL,           -- message, or draft for the draft as it was
    number   BIGINT NOT NULL,           -- from 0
    sealed   BYTEA  NOT NULL,
    PRIMARY KEY (entry_id, part, number)
);

-- The credentials with which the service sends the messages in the outbox of an account.
CREATE TABLE outbox_keys (
    account_id      TEXT PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE,
    app_password_id TEXT NOT NULL UNIQUE REFERENCES app_passwords (id) ON DELETE CASCADE,
    sealed_password BYTEA NOT NULL       -- the app password, sealed with the service's key
);

-- The submissions from the outbox that the milter accepted. Only the milter's role writes rows.
CREATE TABLE mailserver_submissions (
    id          TEXT   PRIMARY KEY,     -- the secret id of a submission
    accepted_at BIGINT NOT NULL         -- seconds since the Unix epoch
);
