-- The modules that owners of mailboxes have enabled to act without a request. A row is deleted when
-- the owner disables the module, or when the operator removes the module.
CREATE TABLE module_handlers (
    account_id   TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    module       TEXT   NOT NULL,
    scopes       TEXT   NOT NULL,      -- the scopes that the owner agreed to, separated by spaces
    enabled_at   BIGINT NOT NULL,
    cursor       TEXT   NOT NULL,      -- the events up to this position of the change log are done
    next_at      BIGINT NOT NULL,      -- no event is handled before this time
    failures     BIGINT NOT NULL DEFAULT 0, -- consecutive failed calls for the next event
    paused       TEXT,                 -- why the module is paused for the mailbox. NULL if it is not
    paused_at    BIGINT,
    failed_event TEXT,                 -- the position after the event that caused the pause
    failed_timer TEXT,                 -- the timer that caused the pause
    PRIMARY KEY (account_id, module)
);
CREATE INDEX module_handlers_by_module ON module_handlers (module);

-- The timers of these modules.
CREATE TABLE module_timers (
    account_id TEXT   NOT NULL,
    module     TEXT   NOT NULL,
    timer      TEXT   NOT NULL,        -- the name in the module's list of timers
    due_at     BIGINT NOT NULL,        -- the next due time
    next_at    BIGINT NOT NULL,        -- the next call: the due time, or later after a failed call
    failures   BIGINT NOT NULL DEFAULT 0, -- consecutive failed calls for this due time
    PRIMARY KEY (account_id, module, timer),
    FOREIGN KEY (account_id, module) REFERENCES module_handlers (account_id, module)
        ON DELETE CASCADE
);
