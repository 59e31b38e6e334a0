-- The mailboxes for which a host needs to know changes at once. A row exists while a stream, a
-- request or a webhook of the host waits for changes.
CREATE TABLE watched_mailboxes (
    account_id TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    host_id    TEXT NOT NULL REFERENCES hosts (id) ON DELETE CASCADE,
    PRIMARY KEY (account_id, host_id)
);
CREATE INDEX watched_mailboxes_by_host ON watched_mailboxes (host_id);

-- The entries of a change log that are not changes of messages or folders, such as the outcome of a
-- scheduled message. The versions are those of `mailbox_changes`: each version is in one table.
CREATE TABLE mailbox_events (
    account_id TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    version    BIGINT NOT NULL,
    type       TEXT   NOT NULL,     -- such as outbox.sent
    data       TEXT   NOT NULL,     -- a JSON object
    key        TEXT,                -- an event with the key of an earlier event is not added
    changed_at BIGINT NOT NULL,
    PRIMARY KEY (account_id, version)
);
CREATE UNIQUE INDEX mailbox_events_by_key ON mailbox_events (account_id, key);

-- Finds the message of a delivery report.
CREATE INDEX sent_messages_by_envelope ON sent_messages (envelope);

-- Wakes the hosts that watch a mailbox when its change log grows.
CREATE TRIGGER mailbox_changed AFTER UPDATE OF version ON mailboxes
WHEN NEW.version > OLD.version
    AND EXISTS (SELECT 1 FROM watched_mailboxes w WHERE w.account_id = NEW.account_id) BEGIN
    INSERT INTO host_events (kind, subject, at) VALUES ('mailbox_changed', NEW.account_id, CAST(strftime('%s', 'now') AS INTEGER) * 1000);
END;

-- A change of a member's grants can end streams of the member. The subject is the mailbox.
CREATE TRIGGER grants_inserted AFTER INSERT ON team_grants BEGIN
    INSERT INTO host_events (kind, subject, at) SELECT 'grants_changed', m.mailbox, CAST(strftime('%s', 'now') AS INTEGER) * 1000
        FROM team_members m WHERE m.id = NEW.membership;
END;
CREATE TRIGGER grants_updated AFTER UPDATE ON team_grants BEGIN
    INSERT INTO host_events (kind, subject, at) SELECT 'grants_changed', m.mailbox, CAST(strftime('%s', 'now') AS INTEGER) * 1000
        FROM team_members m WHERE m.id = NEW.membership;
END;
CREATE TRIGGER grants_deleted AFTER DELETE ON team_grants BEGIN
    INSERT INTO host_events (kind, subject, at) SELECT 'grants_changed', m.mailbox, CAST(strftime('%s', 'now') AS INTEGER) * 1000
        FROM team_members m WHERE m.id = OLD.membership;
END;
CREATE TRIGGER member_removed AFTER DELETE ON team_members BEGIN
    INSERT INTO host_events (kind, subject, at) VALUES ('grants_changed', OLD.mailbox, CAST(strftime('%s', 'now') AS INTEGER) * 1000);
END;
