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

-- Events for all hosts. A host reads the events of transactions that ended after its last reading. Events are deleted after an hour.
CREATE TABLE host_events (
    sequence    BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    transaction xid8   NOT NULL DEFAULT pg_current_xact_id(),
    kind        TEXT   NOT NULL,
    subject     TEXT   NOT NULL,
    at          BIGINT NOT NULL                 -- by the database's clock
);
CREATE INDEX host_events_by_transaction ON host_events (transaction);
CREATE INDEX host_events_by_time ON host_events (at);

CREATE FUNCTION add_host_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- OLD.id exists only in the trigger on app_passwords, so the expression must not be part of the other triggers' statement.
    IF TG_LEVEL = 'ROW' THEN
        INSERT INTO host_events (kind, subject, at) VALUES (TG_ARGV[0], OLD.id, extract(epoch FROM clock_timestamp())::bigint * 1000);
    ELSE
        INSERT INTO host_events (kind, subject, at) VALUES (TG_ARGV[0], '', extract(epoch FROM clock_timestamp())::bigint * 1000);
    END IF;
    RETURN NULL;
END
$$;
CREATE FUNCTION notify_hosts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('latchmail_host_events', '');
    RETURN NULL;
END
$$;
CREATE TRIGGER notify_hosts AFTER INSERT ON host_events FOR EACH STATEMENT EXECUTE FUNCTION notify_hosts();
CREATE TRIGGER credential_ended AFTER DELETE ON app_passwords FOR EACH ROW EXECUTE FUNCTION add_host_event('credential_ended');
CREATE TRIGGER modules_changed AFTER INSERT OR UPDATE OR DELETE ON modules FOR EACH STATEMENT EXECUTE FUNCTION add_host_event('modules_changed');

-- The public ids of the service's keys, without the keys. Only the key files of the hosts contain the keys.
CREATE TABLE service_keys (
    kid        TEXT   PRIMARY KEY,
    state      TEXT   NOT NULL CHECK (state IN ('pending', 'current', 'earlier')),
    changed_at BIGINT NOT NULL                  -- the time at which the key got this state, by the database's clock
);
CREATE UNIQUE INDEX service_keys_current ON service_keys (state) WHERE state <> 'earlier';

CREATE TRIGGER keys_changed AFTER INSERT OR UPDATE ON service_keys FOR EACH STATEMENT EXECUTE FUNCTION add_host_event('keys_changed');

-- The restores of backups, one row for each. After a restore, clients can know message numbers and cursors that the backup does not contain. Therefore the
-- numbers and the versions of all mailboxes continue at `first_number`, which no earlier number and version reaches.
CREATE TABLE restores (
    restored_at  BIGINT NOT NULL,
    backed_up_at BIGINT NOT NULL,
    first_number BIGINT PRIMARY KEY
);
