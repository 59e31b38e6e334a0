-- Which modules there are, and every version of them that is kept.

CREATE TABLE module_versions (
    module       TEXT    NOT NULL,
    digest       TEXT    NOT NULL,   -- SHA-256 of the component, hexadecimal
    version      TEXT    NOT NULL,   -- as it calls itself
    component    BYTEA   NOT NULL,
    size         BIGINT  NOT NULL,   -- in bytes
    rank         BIGINT  NOT NULL,   -- the higher, the later it was installed
    installed_at BIGINT  NOT NULL,
    PRIMARY KEY (module, digest),
    UNIQUE (module, rank)
);

CREATE TABLE modules (
    module        TEXT    NOT NULL PRIMARY KEY,
    digest        TEXT    NOT NULL,  -- of the version that serves, or would if it were enabled
    enabled       BOOLEAN NOT NULL,
    source_digest TEXT,              -- of the configuration's file when it was last looked at
    changed_at    BIGINT  NOT NULL,
    FOREIGN KEY (module, digest) REFERENCES module_versions (module, digest)
);

-- A component is read whole or not at all, and does not shrink much.
ALTER TABLE module_versions ALTER COLUMN component SET STORAGE EXTERNAL;
