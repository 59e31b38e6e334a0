-- What bounds guessing, and what strangers can have written down.

-- Wrong two-factor codes.
ALTER TABLE two_factor ADD COLUMN wrong_codes BIGINT NOT NULL DEFAULT 0;      -- in a row, the last ones
ALTER TABLE two_factor ADD COLUMN refused_until BIGINT NOT NULL DEFAULT 0;    -- no code is taken before this; recovery codes are

-- Failures of the same kind that day before this one, and after the first ones, that have no row of their own.
ALTER TABLE security_events ADD COLUMN unlisted BIGINT NOT NULL DEFAULT 0;
