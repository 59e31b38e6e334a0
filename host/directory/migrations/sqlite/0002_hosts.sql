-- The processes of the service that use this database. Each process has a row while it runs, and updates `seen_at` every few seconds.
CREATE TABLE hosts (
    id         TEXT   PRIMARY KEY,              -- random, new at each start
    name       TEXT   NOT NULL,                 -- the name of the machine
    version    TEXT   NOT NULL,                 -- of the program
    base_url   TEXT   NOT NULL,
    key_id     TEXT   NOT NULL,                 -- the public id of the current key
    key_ids    TEXT   NOT NULL,                 -- the public ids of all keys in the key file, separated by spaces
    problem    TEXT,                            -- why the host is not ready, or NULL
    started_at BIGINT NOT NULL,
    seen_at    BIGINT NOT NULL                  -- by the database's clock
);

-- Events for all hosts. A host reads the events with a higher number than the last event that it read. Events are deleted after an hour.
CREATE TABLE host_events (
    sequence    INTEGER PRIMARY KEY AUTOINCREMENT,
    kind        TEXT    NOT NULL,
    subject     TEXT    NOT NULL,
    at          BIGINT  NOT NULL                -- by the database's clock
);
CREATE INDEX host_events_by_time ON host_events (at);

CREATE TRIGGER credential_ended AFTER DELETE ON app_passwords BEGIN
    INSERT INTO host_events (kind, subject, at) VALUES ('credential_ended', OLD.id, CAST(strftime('%s', 'now') AS INTEGER) * 1000);
END;
CREATE TRIGGER modules_inserted AFTER INSERT ON modules BEGIN
    INSERT INTO host_events (kind, subject, at) VALUES ('modules_changed', '', CAST(strftime('%s', 'now') AS INTEGER) * 1000);
END;
CREATE TRIGGER modules_updated AFTER UPDATE ON modules BEGIN
    INSERT INTO host_events (kind, subject, at) VALUES ('modules_changed', '', CAST(strftime('%s', 'now') AS INTEGER) * 1000);
END;
CREATE TRIGGER modules_deleted AFTER DELETE ON modules BEGIN
    INSERT INTO host_events (kind, subject, at) VALUES ('modules_changed', '', CAST(strftime('%s', 'now') AS INTEGER) * 1000);
END;

-- The public ids of the service's keys, without the keys. Only the key files of the hosts contain the keys.
CREATE TABLE service_keys (
    kid        TEXT   PRIMARY KEY,
    state      TEXT   NOT NULL CHECK (state IN ('pending', 'current', 'earlier')),
    changed_at BIGINT NOT NULL                  -- the time at which the key got this state, by the database's clock
);
CREATE UNIQUE INDEX service_keys_current ON service_keys (state) WHERE state <> 'earlier';

CREATE TRIGGER service_keys_inserted AFTER INSERT ON service_keys BEGIN
    INSERT INTO host_events (kind, subject, at) VALUES ('keys_changed', '', CAST(strftime('%s', 'now') AS INTEGER) * 1000);
END;
CREATE TRIGGER service_keys_updated AFTER UPDATE ON service_keys BEGIN
    INSERT INTO host_events (kind, subject, at) VALUES ('keys_changed', '', CAST(strftime('%s', 'now') AS INTEGER) * 1000);
END;

-- The restores of backups, one row for each. After a restore, clients can know message numbers and cursors that the backup does not contain. Therefore the
-- numbers and the versions of all mailboxes continue at `first_number`, which no earlier number and version reaches.
CREATE TABLE restores (
    restored_at  BIGINT NOT NULL,
    backed_up_at BIGINT NOT NULL,
    first_number BIGINT PRIMARY KEY
);
