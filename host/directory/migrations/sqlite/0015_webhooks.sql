-- Webhooks: the URLs to which the service sends the events of a mailbox. A webhook ends with the
-- app password of the credential that created it. Its row is deleted later, because an agent is
-- told that its subscription has ended.
CREATE TABLE webhooks (
    id              TEXT   PRIMARY KEY, -- opaque
    account_id      TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE, -- the account that
                                        -- created the webhook
    mailbox         TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE, -- the account whose
                                        -- mailbox has the events
    app_password_id TEXT   NOT NULL,    -- of the credential that created the webhook
    subscription    TEXT   UNIQUE,      -- the id of an agent's subscription. NULL for a webhook
    state           TEXT   NOT NULL,    -- active or disabled
    reason          TEXT,               -- why the service disabled the webhook
    cursor          TEXT,               -- the events up to this position of the change log are
                                        -- sent or recorded. NULL before the first position
    failing_since   BIGINT,             -- the first failure after the last success
    expires_at      BIGINT,             -- NULL if the webhook does not expire
    created_at      BIGINT NOT NULL,
    sealed_settings BLOB   NOT NULL       -- JSON: the URL, the filter and the secrets
);
CREATE INDEX webhooks_by_account ON webhooks (account_id);
CREATE INDEX webhooks_by_mailbox ON webhooks (mailbox);
CREATE INDEX webhooks_by_app_password ON webhooks (app_password_id);

-- The events that were sent or that must be sent to a webhook.
CREATE TABLE webhook_deliveries (
    id           TEXT   PRIMARY KEY,    -- opaque
    webhook_id   TEXT   NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    number       BIGINT NOT NULL,       -- the order of the deliveries of a webhook
    event_id     TEXT   NOT NULL,       -- the header `webhook-id`
    event_type   TEXT   NOT NULL,
    state        TEXT   NOT NULL,       -- pending, delivered or failed
    attempts     BIGINT NOT NULL DEFAULT 0,
    created_at   BIGINT NOT NULL,
    attempted_at BIGINT,                -- the last attempt
    next_at      BIGINT NOT NULL,       -- the next attempt, if the state is pending
    status       BIGINT,                -- the HTTP status of the last attempt
    error        TEXT,                  -- why the last attempt failed
    sealed_body  BLOB   NOT NULL,      -- the body, sealed with the service's key
    UNIQUE (webhook_id, number)
);
CREATE INDEX webhook_deliveries_by_time ON webhook_deliveries (created_at);
CREATE INDEX webhook_deliveries_pending ON webhook_deliveries (webhook_id, number)
    WHERE state = 'pending';
