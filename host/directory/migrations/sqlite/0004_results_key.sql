-- The key with which the milter marks its results in messages, and with which the service recognizes these marks. One row.
CREATE TABLE results_key (
    id     INTEGER PRIMARY KEY,
    secret TEXT    NOT NULL                     -- 64 hexadecimal digits
);
