-- Files that clients upload for later messages. A row is deleted when the file is expired.
CREATE TABLE uploads (
    id           TEXT    PRIMARY KEY,   -- opaque
    account_id   TEXT    NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    sealed_key   BYTEA   NOT NULL,      -- the key of the next column and of the chunks,
                                        -- sealed with the service's key
    sealed_name  BYTEA   NOT NULL,      -- the file name
    content_type TEXT    NOT NULL,
    size         BIGINT  NOT NULL,      -- in bytes
    complete     BOOLEAN NOT NULL DEFAULT FALSE, -- whether all chunks are stored
    expires_at   BIGINT  NOT NULL
);
CREATE INDEX uploads_by_account ON uploads (account_id);
CREATE INDEX uploads_by_expiry ON uploads (expires_at);

CREATE TABLE upload_chunks (
    upload_id TEXT   NOT NULL REFERENCES uploads (id) ON DELETE CASCADE,
    number    BIGINT NOT NULL,          -- from 0
    sealed    BYTEA  NOT NULL,
    PRIMARY KEY (upload_id, number)
);
