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
