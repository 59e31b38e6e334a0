-- The keys that a milter must no longer have once the current transaction is committed (milter_connection.sql). The table is created on every connection, so
-- that a commit works in the same way with and without a milter.

CREATE TEMP TABLE withdrawn_keys (
    domain   TEXT NOT NULL,
    selector TEXT NOT NULL
);
