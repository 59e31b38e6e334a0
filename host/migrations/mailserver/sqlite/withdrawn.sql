-- The keys that a milter is to have no longer once the transaction under way is committed (milter_connection.sql). Made on every connection, so that
-- what commits need not know whether there is a milter.

CREATE TEMP TABLE withdrawn_keys (
    domain   TEXT NOT NULL,
    selector TEXT NOT NULL
);
