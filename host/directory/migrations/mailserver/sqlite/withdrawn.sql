-- The keys that a milter must no longer have once the current transaction is committed (milter_connection.sql). Created on every connection, so that a commit
-- does not need to know whether there is a milter.

CREATE TEMP TABLE withdrawn_keys (
    domain   TEXT NOT NULL,
    selector TEXT NOT NULL
);
